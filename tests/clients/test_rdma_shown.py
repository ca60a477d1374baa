"""Every setting and every counter of the data planes, by the lists that the binary prints: what is added to
one of them has to be shown here."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import data
import gateway as gateways
import raw
from test_rdma import DC_TOKEN, SLOT, nothing_left, railgate, samples, total
from test_rdma_rough import RDMA, stop_in_the_middle

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "ms": 1, "s": 1000, "m": 60_000,
         "h": 3_600_000, "d": 86_400_000}


def reference(page, prefix):
    """The rows of a reference page whose name begins so: {name: cells}."""
    done = subprocess.run([gateways.BINARY, "reference", page], capture_output=True, text=True, check=True)
    rows = {}
    for line in done.stdout.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        name = cells[0].strip("` |")
        if line.startswith(f"| `{prefix}"):
            rows[name] = cells
    assert rows
    return rows


# ---- Settings ----

# What texts may not be; every other setting says in the reference what it may be.
BAD_TEXTS = {
    "rdma-transports": ["ofi,tcp", "OFI", "", "ofi,,rc"],
    "rdma-devices": ["a,,b"],
    "rdma-providers": ["tcp,,shm", "x" * 300],
    "rdma-address": ["127.0.0.1,,127.0.0.2", "nowhere", "127.0.0.1,127.0.0.1"],
    "rdma-gid-index": ["first", "-1", "256"],
    "rdma-traffic-class": ["none", "-1", "256"],
    "rdma-dc-key-file": ["/nonexistent"],
}

# The transports that read it, where it is not all of them.
NEEDS = {"rdma-devices": "rc", "rdma-providers": "ofi", "rdma-address": "ofi"}


def beyond(text):
    """One less and one more than "from LOW to HIGH", in the setting's own units."""
    low, high = re.search(r"from (\S+) to (\S+)$", text).groups()
    values = []
    for edge, step in ((low, -1), (high, 1)):
        number, unit = re.fullmatch(r"(\d+)([A-Za-z]*)", edge).groups()
        is_time = unit in ("ms", "s", "m", "h", "d")
        values.append(f"{int(number) * UNITS[unit] + step}{'ms' if is_time else ''}")
    return [*values, "x", ""]


def bad_values(name, kind):
    if kind.startswith("text"):
        return BAD_TEXTS[name]
    if " or " in kind:
        first = kind.split(" or ")[0]
        return [first.upper() if first.islower() else first + "x", "nosuch", ""]
    return beyond(kind)


@pytest.mark.parametrize("name", sorted(reference("settings", "rdma")))
def test_a_bad_value_stops_the_start(tmp_path, name):
    kind = reference("settings", "rdma")[name][2]
    environment = gateways.clean_environment(RAILGATE_ROOT_ACCESS_KEY=gateways.ACCESS_KEY,
                                             RAILGATE_ROOT_SECRET_KEY=gateways.SECRET_KEY)
    others = ["--rdma-transports", NEEDS[name]] if name in NEEDS else []
    for value in bad_values(name, kind):
        done = subprocess.run([gateways.BINARY, "serve", "--port", "0", "--admin-port", "0", "--address", "127.0.0.1",
                               *others, f"--{name}={value}", "posix", str(tmp_path)], env=environment,
                              capture_output=True, timeout=60)
        lines = [line for line in done.stderr.decode().splitlines() if line.startswith("railgate:")]
        assert done.returncode == 2, (value, done.stderr)
        assert len(lines) == 1 and name in lines[0], (value, lines)


# One of these shows what each setting does; the text is what stands in the test.
EFFECTS = {
    "rdma": ("tests/clients/test_rdma.py", '"--rdma", "off"'),
    "rdma-transports": ("tests/clients/test_rdma.py", '"--rdma-transports", "ofi"'),
    "rdma-devices": ("tests/unit/gate/test_planes.c", "RG_SETTING_rdma_devices"),
    "rdma-providers": ("tests/clients/test_rdma.py", '"--rdma-providers", "shm"'),
    "rdma-address": ("tests/unit/gate/test_planes_ofi.c", "RG_SETTING_rdma_address"),
    "rdma-gid-index": ("tests/unit/gate/test_planes.c", "RG_SETTING_rdma_gid_index"),
    "rdma-traffic-class": ("tests/unit/gate/test_planes.c", "RG_SETTING_rdma_traffic_class"),
    "rdma-mtu": ("tests/unit/gate/test_planes.c", "RG_SETTING_rdma_mtu"),
    "rdma-hop-limit": ("tests/unit/gate/test_planes.c", "RG_SETTING_rdma_hop_limit"),
    "rdma-service-level": ("tests/unit/gate/test_planes.c", "RG_SETTING_rdma_service_level"),
    "rdma-slot-size": ("tests/clients/test_rdma_shown.py", '"--rdma-slot-size", "2M"'),
    "rdma-memory": ("tests/clients/test_rdma_shown.py", '"--rdma-memory", "8M"'),
    "rdma-direct": ("tests/clients/test_rdma.py", '"--rdma-direct", "off"'),
    "rdma-direct-min": ("tests/clients/test_rdma.py", '"--rdma-direct-min", "5M"'),
    "rdma-lanes": ("tests/clients/test_rdma_shown.py", '"--rdma-lanes", "1"'),
    "rdma-account-max": ("tests/clients/test_rdma_shown.py", '"--rdma-account-max", "1"'),
    "rdma-size-min": ("tests/clients/test_rdma.py", '"--rdma-size-min", "64M"'),
    "rdma-queue-wait": ("tests/clients/test_rdma_shown.py", '"--rdma-queue-wait", "300ms"'),
    "rdma-budget": ("tests/clients/test_rdma_time.py", '"--rdma-budget", "1s"'),
    "rdma-sessions-max": ("tests/unit/gate/test_rdma_session.c", "RG_SETTING_rdma_sessions_max"),
    "rdma-sessions-account-max": ("tests/unit/gate/test_rdma_session.c", "RG_SETTING_rdma_sessions_account_max"),
    "rdma-session-idle": ("tests/rxe/test_sessions.py", '"--rdma-session-idle"'),
    "rdma-prepare-timeout": ("tests/unit/gate/test_rdma_session.c", "RG_SETTING_rdma_prepare_timeout"),
    "rdma-push-budget": ("tests/unit/gate/test_rdma_session.c", "RG_SETTING_rdma_push_budget"),
    "rdma-staging-max": ("tests/rxe/test_sessions.py", '"--rdma-staging-max"'),
    "rdma-staging-account-max": ("tests/unit/gate/test_rdma_session.c", "RG_SETTING_rdma_staging_account_max"),
    "rdma-decline-get": ("tests/clients/test_rdma.py", '"--rdma-decline-get", "error"'),
    "rdma-decline-put": ("tests/clients/test_rdma.py", '"--rdma-decline-put", "200"'),
    "rdma-dc-key-file": ("tests/unit/gate/test_planes.c", "RG_SETTING_rdma_dc_key_file"),
}


def holds(path, text):
    with open(os.path.join(gateways.TOP, path)) as file:
        return text in file.read()


def test_each_setting_has_its_test():
    assert sorted(EFFECTS) == sorted(reference("settings", "rdma"))
    for name, (path, text) in EFFECTS.items():
        assert holds(path, text), name


def stopped(gateway, tmp_path):
    """A client that stands still in the middle of a transfer, and so keeps its lane."""
    data.write_big(tmp_path / "long", 192 << 20)
    return stop_in_the_middle(gateway, tmp_path / "long", "s3://rdma/long")


@pytest.mark.parametrize("options, reason", [
    (("--rdma-account-max", "1"), "account-limit"),
    (("--rdma-lanes", "1"), "no-lane"),
    (("--rdma-memory", "2M"), "no-slot"),
])
def test_ceilings(start, tmp_path, options, reason):
    """One transfer takes what there is; the next one waits as long as it may, and is declined."""
    one = start("--rdma-queue-wait", "300ms", "--rdma-budget", "600s", *options)
    railgate(one, "mb", "s3://rdma")
    (tmp_path / "source").write_bytes(data.content("ceiling", 100_000))
    client = stopped(one, tmp_path)
    refused = railgate(one, *RDMA, "--no-retries", tmp_path / "source", "s3://rdma/key", check=False)
    assert refused.returncode == 1 and reason in refused.stderr.decode(), refused
    assert total(one, "railgate_rdma_declines_total", f'reason="{reason}"') == 1
    waited = [v for k, v in samples(one, "railgate_rdma_wait_seconds_sum").items() if "ofi:tcp" in k]
    assert (sum(waited) >= 0.3) == (reason != "account-limit")
    railgate(one, "cp", tmp_path / "source", "s3://rdma/key")
    assert raw.request(one, "GET", "/rdma/key").body == (tmp_path / "source").read_bytes()
    client.kill()
    client.wait()
    nothing_left(one)
    railgate(one, *RDMA, tmp_path / "source", "s3://rdma/key")
    nothing_left(one)


def test_sizes_of_the_staging_memory(start):
    one = start("--rdma-memory", "8M", "--rdma-slot-size", "2M", "--rdma-lanes", "3", "--rdma-providers", "tcp")
    assert samples(one, "railgate_rdma_slots")['{path="ofi:tcp",rail="0",state="all"}'] == 4
    assert samples(one, "railgate_rdma_slab_bytes")['{path="ofi:tcp",rail="0",state="mapped"}'] == 8 << 20
    assert samples(one, "railgate_rdma_lanes")['{path="ofi:tcp",rail="0",state="allowed"}'] == 3


# ---- Counters ----

def test_each_counter_counts(start, tmp_path):
    """Objects of known sizes move, one is declined, one breaks; then each family says exactly that."""
    one = start("--rdma-providers", "tcp", "--rdma-direct", "on", "--rdma-direct-min", "1", "--rdma-budget", "20s")
    s3 = data.boto3_client(one)
    s3.create_bucket(Bucket="rdma")
    sizes = {"small": 4096, "large": 5 * SLOT}
    for key, size in sizes.items():
        (tmp_path / "source").write_bytes(data.content(key, size))
        railgate(one, *RDMA, tmp_path / "source", f"s3://rdma/{key}")
        railgate(one, *RDMA, f"s3://rdma/{key}", tmp_path / "back")
    (tmp_path / "source").write_bytes(data.content("parts", 12 * SLOT))
    railgate(one, *RDMA, "--part-size", "6M", tmp_path / "source", "s3://rdma/parts")
    answer = raw.request(one, "PUT", "/rdma/declined", headers={"x-amz-rdma-token": DC_TOKEN})
    assert answer.status == 501
    moved = sum(sizes.values())
    rail = 'path="ofi:tcp",rail="0"'

    def labels(operation, dialect='dialect="ofi1",'):
        return f'{{operation="{operation}",{dialect}{rail}}}'

    shown = {}

    def show(name, expected):
        shown[name] = samples(one, name)
        assert shown[name] == expected, name

    def show_histogram(name, count, least=0.0):
        key = f"{{{rail}}}"
        shown[name] = samples(one, name + "_count")
        assert shown[name] == {key: count}, name
        assert samples(one, name + "_sum")[key] >= least
        assert samples(one, name + "_bucket")[f'{{{rail},le="+Inf"}}'] == count

    show("railgate_rdma_transfers_total",
         {labels("GetObject"): 2, labels("PutObject"): 2, labels("UploadPart"): 2})
    show("railgate_rdma_bytes_total",
         {labels("GetObject"): moved, labels("PutObject"): moved, labels("UploadPart"): 12 * SLOT})
    direct = any("O_DIRECT" in line["message"].partition("off:")[0] for line in one.events("store.open"))
    show("railgate_rdma_direct_bytes_total",
         {labels("GetObject", ""): direct * moved, labels("PutObject", ""): direct * moved,
          labels("UploadPart", ""): direct * 12 * SLOT})
    show("railgate_rdma_declines_total", {'{reason="no-transport"}': 1})
    show("railgate_rdma_failures_total", {})
    show_histogram("railgate_rdma_transfer_seconds", 6, least=1e-6)
    show_histogram("railgate_rdma_overlap_ratio", 6, least=6.0)
    show_histogram("railgate_rdma_wait_seconds", 12)  # a lane and slots, each time
    show("railgate_rdma_rail_up",
         {f'{{{rail},device="tcp;ofi_rxm",address="127.0.0.1",hardware="no"}}': 1})
    show("railgate_rdma_pinned_bytes", {f"{{{rail}}}": 0})
    lanes = samples(one, "railgate_rdma_lanes")
    assert lanes[f'{{{rail},state="leased"}}'] == 0 and lanes[f'{{{rail},state="open"}}'] >= 1
    slots = samples(one, "railgate_rdma_slots")
    assert slots == {f'{{{rail},state="{state}"}}': n for state, n in (("in-use", 0), ("condemned", 0), ("all", 128))}
    slab = samples(one, "railgate_rdma_slab_bytes")
    assert 0 < slab[f'{{{rail},state="resident"}}'] <= slab[f'{{{rail},state="mapped"}}'] == 128 * SLOT
    shown.update({"railgate_rdma_lanes": lanes, "railgate_rdma_slots": slots, "railgate_rdma_slab_bytes": slab})

    # Under way, and then broken: its client stands still for longer than the budget.
    client = stopped(one, tmp_path)
    leased, used = f'{{{rail},state="leased"}}', f'{{{rail},state="in-use"}}'
    assert samples(one, "railgate_rdma_lanes")[leased] == 1
    assert 1 <= samples(one, "railgate_rdma_slots")[used] <= 4
    deadline = time.monotonic() + 60
    while total(one, "railgate_rdma_failures_total") == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    client.kill()
    client.wait()
    nothing_left(one)
    failed = samples(one, "railgate_rdma_failures_total")
    assert failed == {f'{{{rail},cause="too-slow"}}': 1}

    # What takes a verbs NIC, or one that says no: there.
    elsewhere = {
        "railgate_rdma_completion_errors_total": ("tests/unit/gate/test_planes.c", "rg_planes_write_statuses"),
        "railgate_rdma_sessions": ("tests/rxe/test_sessions.py", "railgate_rdma_sessions"),
        "railgate_rdma_session_events_total": ("tests/rxe/test_sessions.py", "railgate_rdma_session_events_total"),
        "railgate_rdma_staging_bytes": ("tests/rxe/test_sessions.py", "railgate_rdma_staging_bytes"),
    }
    for name, (path, text) in elsewhere.items():
        assert holds(path, text), name
    assert sorted([*shown, *elsewhere]) == sorted(reference("metrics", "railgate_rdma_"))


# ---- What /-/ready says ----

def rdma_of(one, ready=200):
    status, text = one.admin("/-/ready")
    assert status == ready
    return json.loads(text)["rdma"]


def test_ready_says_how_rdma_stands(start, tmp_path):
    """Each rail with what is in use of it; the gateway is ready with RDMA and without."""
    one = start("--rdma-transports", "ofi", "--rdma-providers", "tcp", "--rdma-budget", "60s")
    railgate(one, "mb", "s3://rdma")
    rdma = rdma_of(one)
    assert rdma["state"] == "up"
    idle = {"path": "ofi:tcp", "device": "tcp;ofi_rxm", "address": "127.0.0.1", "up": True, "hardware": False,
            "lanes_leased": 0, "slots_in_use": 0, "slots": 128, "pinned_bytes": 0}
    assert rdma["rails"] == [idle]
    client = stopped(one, tmp_path)
    [busy] = rdma_of(one)["rails"]
    assert busy["lanes_leased"] == 1 and 1 <= busy["slots_in_use"] <= 4
    client.kill()
    client.wait()
    nothing_left(one)
    assert rdma_of(one)["rails"] == [idle]


@pytest.mark.parametrize("options, state", [(("--rdma", "off"), "off"),
                                            (("--rdma-transports", "rc", "--rdma-devices", "nosuch0"), "down")])
def test_ready_without_rdma(start, options, state):
    rdma = rdma_of(start(*options))
    assert rdma["state"] == state
    assert all(not rail["up"] and rail["reason"] for rail in rdma["rails"])
