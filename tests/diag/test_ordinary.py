"""Ordinary logs give no incident (cases/healthy), work that somebody ordered gives the mild true one
(cases/orderly); and what makes them ordinary does not hide what is not.
"""
import cluster
import pytest

from diagnosis import CASES, check, diagnose, diagnose_text, rows

HEALTHY = sorted(path.name for path in (CASES / "healthy").glob("*.log"))
STOPPED = dict(cause="TG-FAILOVER", planned=True, nature="planned", urgency="note", data="delayed")

ORDERLY = {
    "planned-failover.log": dict(STOPPED, scope="target", element_has="scr-OST0000"),
    # The clients alone know only that the target moved.
    "planned-failover-clients.log": dict(scope="server", nature="server", urgency="low", data="delayed",
                                         self_healed=True, headline_has="192.0.2.12@o2ib"),
    "mds-maintenance.log": dict(STOPPED, scope="server", element_has="mds1"),
    "evict-admin.log": dict(cause="EX-EVICT-ADMIN", planned=True, scope="target", urgency="low", data="lost"),
    "server-reboot.log": dict(cause="K-SHUTDOWN", planned=True, scope="server", element_has="oss1",
                              urgency="note", data="delayed", headline_has="on purpose"),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(name):
    found = diagnose(CASES / "healthy" / name)
    assert [one["headline"]["en"] for one in found["incidents"]] == []
    assert found["coverage"]["lines"] > 5 and found["coverage"]["matched"] > 0


def test_every_case_has_its_expectation():
    assert {path.name for path in (CASES / "orderly").glob("*.log")} == set(ORDERLY)


@pytest.mark.parametrize("name", sorted(ORDERLY))
def test_orderly(name):
    found = diagnose(CASES / "orderly" / name)["incidents"]
    assert len(found) == 1, [one["headline"]["en"] for one in found]
    check(found[0], **ORDERLY[name])


# ---- A port without link, while the node boots or is taken down. ----

def causes(text):
    return [one["cause"]["row"] for one in diagnose_text(text)["incidents"]]


NID = "192.0.2.11@o2ib"
DOWN = "mlx5_core 0000:3b:00.0 ens1f0np0: Link down"
UNPLUGGED = "mlx5_core 0000:3b:00.1: Port module event: module 1, Cable unplugged"
JOIN = "ib0: multicast join failed for ff12:401b:ffff:0000:0000:0000:0000:0001, status -22"
BOOT = "Linux version 6.1.0-26-amd64"


@pytest.mark.parametrize("line", [DOWN, UNPLUGGED, JOIN])
@pytest.mark.parametrize("before, after, incidents", [
    ([(0, BOOT)], 100, 0),
    ([(0, BOOT)], 200, 1),  # the node has long been up
    ([(0, "Lustre: Lustre: Build Version: 2.15.5")], 100, 1),  # no boot: modules were loaded
    ([(0, "LNet: Removed LNI 192.0.2.101@o2ib")], 100, 0),
    ([(0, "LNet: Removed LNI 192.0.2.101@o2ib")], 400, 1),
    ([(0, "systemd-logind[900]: System is rebooting.")], 20, 0),
    ([(150, "systemd-logind[900]: System is rebooting.")], 20, 1),  # it was the reason, perhaps
    ([], 100, 1),
])
def test_ports_at_rest(line, before, after, incidents):
    text = "".join(cluster.line("gpu01", at, words) for at, words in before)
    one = cluster.line("gpu01", after, line)
    text = one + text if before and before[0][0] > after else text + one
    assert len(diagnose_text(text)["incidents"]) == incidents


@pytest.mark.parametrize("line", [DOWN, UNPLUGGED, JOIN])
def test_seconds_since_boot_tell_it_too(line):
    assert diagnose_text(f"[  120.000001] {line}\n", "--node", "gpu01")["incidents"] == []
    assert len(diagnose_text(f"[  520.000001] {line}\n", "--node", "gpu01")["incidents"]) == 1
    # Once more, later: a flap that began with the boot.
    assert len(diagnose_text(f"[  120.000001] {line}\n[  520.000001] {line}\n", "--node", "gpu01")["incidents"]) == 1


@pytest.mark.parametrize("since_boot, incidents", [(36100, 1), (100, 0)])
def test_seconds_since_boot_are_those_of_the_node_itself(tmp_path, since_boot, incidents):
    """Two nodes' dmesg, laid side by side by what both say of a target: the second booted ten hours earlier."""
    back = f"Lustre: {cluster.client_device('scr-OST0000')}: Connection restored to {NID} (at {NID})"
    (tmp_path / "gpu01.log").write_text(f"[ 1500.000001] {back}\n")
    (tmp_path / "gpu02.log").write_text(f"[{since_boot}.000001] {DOWN}\n[37500.000001] {back}\n")
    found = diagnose(tmp_path / "gpu01.log", tmp_path / "gpu02.log")["incidents"]
    assert [one["cause"]["row"] for one in found] == ["NET-LINK"] * incidents


def test_another_boot_or_node_explains_no_port():
    down = cluster.line("gpu02", 20, DOWN)
    assert len(diagnose_text(cluster.line("gpu01", 0, BOOT) + down)["incidents"]) == 1
    assert len(diagnose_text(cluster.line("gpu01", 0, "LNet: Removed LNI 192.0.2.101@o2ib") + down)["incidents"]) == 1


def test_a_port_that_something_waits_for_is_told():
    boot = cluster.line("gpu01", 0, BOOT) + cluster.line("gpu01", 20, DOWN)
    boot += cluster.line("gpu01", 25, "LNet: Added LNI 192.0.2.101@o2ib [8/256/0/180]")
    incident = diagnose_text(boot + cluster.gone("gpu01", 60, "scr-OST0000", NID))["incidents"][0]
    check(incident, cause="NET-LINK", scope="node", element_has="gpu01")
    assert diagnose_text(boot + cluster.line("gpu01", 30, UNPLUGGED))["incidents"] == []
    # Of long after, or of another node, it is not the reason.
    found = diagnose_text(boot + cluster.gone("gpu01", 3000, "scr-OST0000", NID))["incidents"]
    assert [one["cause"]["row"] for one in found] == ["PT-EXPIRE-SLOW"]
    found = diagnose_text(boot + cluster.gone("gpu02", 60, "scr-OST0000", NID))["incidents"]
    assert [one["cause"]["row"] for one in found] == ["PT-EXPIRE-SLOW"]


# A server that was rebooted on purpose at -400, and whose port went down while it booted.
REBOOTED = (cluster.line("oss1", -4000, f"LNet: Added LNI {NID} [8/256/0/180]")
            + cluster.line("oss1", -400, "systemd-logind[900]: System is rebooting.")
            + cluster.line("oss1", -390, "reboot: Restarting system")
            + cluster.line("oss1", 0, BOOT) + cluster.line("oss1", 100, DOWN))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_port_of_a_server_that_is_missed_after_its_boot_is_told(ordered):
    before = REBOOTED
    if not ordered:
        before = REBOOTED[REBOOTED.index(cluster.line("oss1", 0, BOOT)):]
        before += cluster.line("oss1", 101, f"LNet: Added LNI {NID} [8/256/0/180]")
    missed = "".join(cluster.lost(f"gpu{i:02}", at, "scr-OST0000", NID)
                     for at in range(130, 10000, 900) for i in range(1, 4))
    found = diagnose_text(before + missed)["incidents"]
    check(found[0], cause="NET-LINK", element_has="oss1", planned=False)
    # Requests that still fail long after say it too.
    failing = "".join(cluster.timed_out("gpu01", at, "scr-OST0000", NID, xid=at) for at in range(130, 10000, 900))
    check(diagnose_text(before + failing)["incidents"][0], cause="NET-LINK", element_has="oss1", planned=False)


def test_the_port_keeps_a_server_away_that_was_rebooted_on_purpose():
    text = (cluster.line("oss1", -4000, f"LNet: Added LNI {NID} [8/256/0/180]")
            + cluster.line("oss1", -100, "systemd-logind[900]: System is rebooting.")
            + cluster.line("oss1", 0, BOOT) + cluster.line("oss1", 40, DOWN) + cluster.lost("gpu01", -95, "scr-OST0000", NID))
    later = cluster.line("gpu01", 3000, "nothing that matters")
    check(diagnose_text(text + later)["incidents"][0], cause="NET-LINK", element_has="oss1", planned=False)
    # The log ends while the node may yet be booting.
    for soon in ("", cluster.line("gpu01", 210, "nothing that matters")):
        check(diagnose_text(text + soon)["incidents"][0], cause="K-SHUTDOWN", planned=True)
    # So it does when the loss is told again.
    check(diagnose_text(text + cluster.lost("gpu01", 400, "scr-OST0000", NID))["incidents"][0], cause="NET-LINK", planned=False)
    # What a client says after a boot of its own tells nothing of what it misses.
    assert diagnose_text(text + cluster.line("gpu01", 900, BOOT) + later)["incidents"][0]["cause"]["row"] == "K-SHUTDOWN"
    back = cluster.restored("gpu01", 170, "scr-OST0000", NID)
    check(diagnose_text(text + back + later)["incidents"][0], cause="K-SHUTDOWN", planned=True)


def test_a_port_of_a_server_that_is_back_is_not_told():
    lost = "".join(cluster.lost(f"gpu{i:02}", -380, "scr-OST0000", NID) for i in range(1, 4))
    back = "".join(cluster.restored(f"gpu{i:02}", 170, "scr-OST0000", NID) for i in range(1, 4))
    up = cluster.line("oss1", 110, DOWN.replace("down", "up"))
    old = cluster.lost("gpu01", -9000, "scr-OST0000", NID)  # of a client that is long gone
    planned = dict(cause="K-SHUTDOWN", planned=True, element_has="oss1")
    for rest in (lost + back, up + lost):
        found = diagnose_text(REBOOTED + rest)["incidents"]
        assert len(found) == 1
        check(found[0], **planned)
    assert "NET-LINK" not in causes(REBOOTED + old)
    assert "NET-LINK" in causes(REBOOTED + lost)
    # Another port that came up, or this one before it went down, says nothing of it.
    for useless in (up.replace("ens1f0np0", "ens2f0np0"), cluster.line("oss1", 50, DOWN.replace("down", "up"))):
        assert "NET-LINK" in causes(REBOOTED + useless + lost)
    # A loss of later is another story; requests that fail while it boots are what a boot does.
    assert "NET-LINK" not in causes(REBOOTED + cluster.lost("gpu01", 1000, "scr-OST0000", NID))
    failing = "".join(cluster.timed_out("gpu01", at, "scr-OST0000", NID, xid=at) for at in range(-300, 200, 100))
    assert "NET-LINK" not in causes(REBOOTED + failing)
    # While it is down by order, nobody can know more.
    going = REBOOTED[:REBOOTED.index(cluster.line("oss1", 0, BOOT))] + cluster.line("oss1", -395, DOWN)
    check(diagnose_text(going + lost)["incidents"][0], **planned)


@pytest.mark.parametrize("hot", [
    "thermal thermal_zone0: critical temperature reached (105 C), shutting down",
    "thermal thermal_zone0: acpitz: critical temperature reached, shutting down",
    "reboot: HARDWARE PROTECTION shutdown (Temperature too high)",
])
def test_a_node_that_is_too_hot_was_not_shut_down_on_purpose(hot):
    text = cluster.line("oss1", -4000, f"LNet: Added LNI {NID} [8/256/0/180]") + cluster.line("oss1", 0, hot)
    text += cluster.line("oss1", 1, "systemd-logind[900]: System is powering down.")
    text += "".join(cluster.lost(f"gpu{i:02}", 20, "scr-OST0000", NID) for i in range(1, 4))
    found = diagnose_text(text)["incidents"]
    assert len(found) == 1
    check(found[0], cause="K-THERMAL", nature="hardware", planned=False, element_has="oss1")


def test_a_node_that_goes_down_says_so_until_it_is_down():
    order = "systemd-logind[900]: System is rebooting."
    again = cluster.line("gpu01", 0, order) + cluster.line("gpu01", 250, order)
    assert causes(again + cluster.line("gpu01", 500, DOWN)) == []
    assert causes(again + cluster.line("gpu01", 600, DOWN)) == ["NET-LINK"]


@pytest.mark.parametrize("ended", [False, True])
def test_a_port_is_missed_whatever_clock_the_others_have(tmp_path, ended):
    (tmp_path / "oss1.log").write_text(f"[   20.000001] LNet: Added LNI {NID} [8/256/0/180]\n[  100.000001] {DOWN}\n")
    lost = cluster.lost("gpu01", 0, "scr-OST0000", NID)
    (tmp_path / "gpu01.log").write_text(lost + (cluster.restored("gpu01", 30, "scr-OST0000", NID) if ended else ""))
    found = diagnose(tmp_path / "oss1.log", tmp_path / "gpu01.log")["incidents"]
    assert ("NET-LINK" in [one["cause"]["row"] for one in found]) == (not ended)


def test_lnet_that_is_stopped_again_explains_nothing_of_between():
    stop = "LNet: Removed LNI 192.0.2.101@o2ib"
    again = cluster.line("gpu01", 0, stop) + cluster.line("gpu01", 1500, stop)
    assert causes(again + cluster.line("gpu01", 200, DOWN)) == []
    assert causes(again + cluster.line("gpu01", 800, DOWN)) == ["NET-LINK"]


def test_a_damaged_module_is_told_at_boot_too():
    text = cluster.line("gpu01", 0, BOOT) + cluster.line(
        "gpu01", 20, "mlx5_core 0000:01:00.0: Port module event[error]: module 0, Cable error, High Temperature")
    check(diagnose_text(text)["incidents"][0], cause="ML-PORTMOD", scope="node")


def test_a_module_that_was_unplugged_and_is_damaged_is_told():
    """Both of one port, in the first minute of a boot."""
    bad = UNPLUGGED.replace("module 1, Cable unplugged", "module 1, Cable error, Bad or unsupported EEPROM")
    for first, second in ((UNPLUGGED, bad), (bad, UNPLUGGED)):
        text = cluster.line("gpu01", 0, BOOT) + cluster.line("gpu01", 20, first) + cluster.line("gpu01", 21, second)
        assert causes(text) == ["ML-PORTMOD"]
        assert causes(text + cluster.line("gpu01", 22, DOWN)) == ["ML-PORTMOD"]
    assert causes(cluster.line("gpu01", 0, BOOT) + cluster.line("gpu01", 400, UNPLUGGED)) == ["ML-UNPLUGGED"]


# ---- Disks. ----

def disk(node, at, *lines):
    return "".join(cluster.line(node, at, line) for line in lines)


READ = "blk_update_request: I/O error, dev {}, sector 0 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0"
STANDBY = "sd 8:0:0:1: [{}] tag#3 Add. Sense: Logical unit not accessible, target port in standby state"


def test_a_path_on_standby_is_no_broken_disk():
    assert diagnose_text(disk("oss1", 0, STANDBY.format("sdq"), READ.format("sdq")))["incidents"] == []
    for other in (
        disk("oss1", 0, READ.format("sdr")),  # another disk
        disk("oss2", 0, READ.format("sdq")),  # another node
        disk("oss1", 600, READ.format("sdq")),  # another time
        disk("oss1", 1, "sd 8:0:0:1: [sdq] tag#4 Sense Key : Medium Error [current]"),  # and broken
    ):
        found = diagnose_text(disk("oss1", 0, STANDBY.format("sdq")) + other)["incidents"]
        assert [one["cause"]["row"] for one in found] == ["BE-DISK"], other


def test_a_path_on_standby_hushes_no_more_than_its_own_minute():
    standby = STANDBY.format("sdq")
    read = READ.format("sdq")
    assert diagnose_text(disk("oss1", 0, read) + disk("oss1", 50, standby) + disk("oss1", 100, read))["incidents"] == []
    for hours in (
        disk("oss1", 0, standby) + "".join(disk("oss1", at, read) for at in range(0, 14400, 600)),
        "".join(disk("oss1", at, read) for at in range(0, 14400, 600)) + disk("oss1", 14400, standby),
    ):
        assert [one["cause"]["row"] for one in diagnose_text(hours)["incidents"]] == ["BE-DISK"]
    # Lines without a time are not known to be of one minute.
    found = diagnose_text(f"{standby}\n{read}\n", "--node", "oss1")["incidents"]
    assert [one["cause"]["row"] for one in found] == ["BE-DISK"]


@pytest.mark.parametrize("line", [
    "Buffer I/O error on dev sdq, logical block 1057, lost async page write",
    "Buffer I/O error on dev sdq, logical block 1057, lost sync page write",
    "lost page write due to I/O error on sdq",
    READ.format("sdq").replace("0x0:(READ)", "0x1:(WRITE)"),
    READ.format("sdq").replace("0x0:(READ)", "0x2:(FLUSH)"),
    "critical medium error, dev sdq, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
    "critical target error, dev sdq, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
])
def test_only_reads_fail_of_a_path_on_standby(line):
    text = disk("oss1", 0, STANDBY.format("sdq"), READ.format("sdq"), line)
    assert [one["cause"]["row"] for one in diagnose_text(text)["incidents"]] == ["BE-DISK"]


def test_a_path_that_is_unavailable_is_no_standby():
    gone = STANDBY.format("sdq").replace("standby", "unavailable")
    found = diagnose_text(disk("oss1", 0, gone, READ.format("sdq")))["incidents"]
    assert len(found) == 1 and found[0]["cause"]["row"] in ("BE-SCSI", "BE-DISK")
    check(diagnose_text(disk("oss1", 0, gone))["incidents"][0], cause="BE-SCSI", nature="storage")
    moves = "sd 8:0:0:1: [sdq] Add. Sense: Logical unit not accessible, asymmetric access state transition"
    assert diagnose_text(disk("oss1", 0, moves, READ.format("sdq")))["incidents"] == []


@pytest.mark.parametrize("line", [
    READ.format("sdq"),
    "blk_update_request: I/O error, dev sdq, sector 0",
    "Buffer I/O error on dev sdq, logical block 0, async page read",
    "Buffer I/O error on device sdq, logical block 0",
])
def test_reads_fail_of_a_path_on_standby(line):
    assert diagnose_text(disk("oss1", 0, STANDBY.format("sdq"), line))["incidents"] == []


@pytest.mark.parametrize("line", [
    READ.format("fd0"), READ.format("sr0"), "Buffer I/O error on dev fd0, logical block 0, async page read",
    "sr 7:0:0:0: [sr0] tag#0 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=0s",
    "sd 0:0:0:0: [sda] tag#12 Add. Sense: Invalid field in cdb",
    "critical target error, dev sda, sector 2048 op 0x9:(WRITE_ZEROES) flags 0x800 phys_seg 0 prio class 0",
    "nvme nvme0: I/O 24 QID 0 timeout, completion polled",
    "nvme nvme0: I/O tag 24 (1018) opcode 0x2 (I/O Cmd) QID 5 timeout, completion polled",
    "nvme0n1: Write Zeroes(0x8) @ LBA 2048, 8 blocks, Invalid Command Opcode (sct 0x0 / sc 0x1) DNR",
    "nvme0n1: I/O Cmd(0x9) @ LBA 0, 0 blocks, I/O Error (sct 0x0 / sc 0x2) DNR",
    "mpt3sas_cm0: log_info(0x31120303): originator(PL), code(0x12), sub_code(0x0303)",
])
def test_lines_of_disks_that_mean_nothing(line):
    found = diagnose_text(disk("oss1", 0, line))
    assert found["incidents"] == [] and rows(found) and found["coverage"]["error_looking"] == 0


@pytest.mark.parametrize("line, row", [
    (READ.format("sda"), "BE-DISK"), (READ.format("fdisk1"), "BE-DISK"),
    ("critical target error, dev sda, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 0", "BE-DISK"),
    ("nvme nvme0: I/O 24 QID 5 timeout, aborting", "BE-DISK"),
    ("nvme nvme0: I/O tag 12 (300c) opcode 0x2 (I/O Cmd) QID 3 timeout, aborting req_op:READ(0) size:4096", "BE-DISK"),
    ("nvme0n1: I/O Cmd(0x2) @ LBA 0, 8 blocks, I/O Error (sct 0x2 / sc 0x81) DNR", "BE-DISK"),
    ("nvme0n1: Write(0x1) @ LBA 8, 8 blocks, Write Fault (sct 0x2 / sc 0x80) DNR", "BE-DISK"),
    ("sd 0:0:18:0: [sdr] tag#4132 FAILED Result: hostbyte=DID_NO_CONNECT driverbyte=DRIVER_OK cmd_age=0s", "BE-SCSI"),
    ("mpt3sas_cm0: fault_state(0x265d)!", "BE-HBA"),
])
def test_lines_of_disks_that_mean_something(line, row):
    check(diagnose_text(disk("oss1", 0, line))["incidents"][0], cause=row, nature="storage")


@pytest.mark.parametrize("times, incidents", [
    ([0], 0), ([0, 40], 0),
    ([0, 0.1, 0.2, 0.3], 0),  # one lost interrupt, and all that waited for it
    ([0, 29, 29.5], 0), ([0, 30, 30.5], 1), ([0, 600, 1200], 1),
    ([0, 4000, 8000], 0),  # hours apart
])
def test_an_nvme_whose_interrupts_get_lost_again_and_again(times, incidents):
    polled = "nvme nvme0: I/O 24 QID 5 timeout, completion polled"
    found = diagnose_text("".join(disk("oss1", at, polled) for at in times))["incidents"]
    assert [one["cause"]["row"] for one in found] == ["BE-POLLED"] * incidents
    if found:
        check(found[0], nature="storage", element_has="nvme0")


@pytest.mark.parametrize("driver, incidents", [
    ("SENSE", 0), ("OK", 0), ("TIMEOUT", 1), ("HARD", 1), ("MEDIA", 1), ("ERROR", 1),
])
def test_what_the_driver_says_of_a_command(driver, incidents):
    failed = f"sd 0:0:18:0: [sdr] tag#4132 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_{driver} cmd_age=3s"
    assert causes(disk("oss1", 0, failed)) == ["BE-SCSI"] * incidents


# ---- Jobs and the kernel. ----

def test_a_job_at_its_own_limit_is_not_the_node_out_of_memory():
    asked = "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
    limit = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,task=python3,pid=40122,uid=0"
    job = "Memory cgroup out of memory: Killed process 40122 (python3) total-vm:2841232kB"
    assert diagnose_text(disk("gpu01", 0, asked, limit, job))["incidents"] == []
    node = "Out of memory: Killed process 4411 (python3) total-vm:98000000kB"
    check(diagnose_text(disk("gpu01", 0, asked, node))["incidents"][0], cause="K-OOM", scope="node")
    lost = cluster.gone("gpu01", 5, "scr-OST0000", NID)
    assert diagnose_text(disk("gpu01", 0, job) + lost)["incidents"][0]["cause"]["row"] == "PT-EXPIRE-SLOW"


MEMCG = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg={0},task_memcg={0},task={1},pid=4021,uid=0"


@pytest.mark.parametrize("line, incidents", [
    (MEMCG.format("/slurm/uid_1000/job_8812", "python3"), 0),
    # Slurm and container engines keep jobs beneath the services, in scopes of their own.
    (MEMCG.format("/system.slice/slurmstepd.scope/job_8812/step_0", "python3"), 0),
    (MEMCG.format("/system.slice/slurmd.service/job_8812", "python3"), 0),
    (MEMCG.format("/system.slice/docker-1f2e3d.scope", "python3"), 0),
    (MEMCG.format("/system.slice/chronyd.service", "chronyd"), 1),
    (MEMCG.format("/kubepods.slice/pod1", "minio"), 1),
    (MEMCG.format("/machine.slice", "pacemaker-based"), 1),
    ("Memory cgroup out of memory: Killed process 4021 (railgate) total-vm:2841232kB", 1),
    ("Memory cgroup out of memory: Killed process 4021 (corosync) total-vm:2841232kB", 1),
    ("Memory cgroup out of memory: Killed process 4021 (mount.lustre) total-vm:2841232kB", 1),
    ("Memory cgroup out of memory: Killed process 4021 (minions) total-vm:2841232kB", 0),
    ("Task in /system.slice/minio.service killed as a result of limit of /system.slice/minio.service", 1),
    ("Task in /slurm/uid_1000/job_1 killed as a result of limit of /slurm/uid_1000/job_1", 0),
])
def test_a_service_at_its_limit_is_a_fault(line, incidents):
    assert causes(disk("oss1", 0, line)) == ["K-OOM-DAEMON"] * incidents


@pytest.mark.parametrize("line, incidents", [
    ("traps: a.out[40400] general protection fault ip:401136 sp:7ffd error:0 in a.out[401000+1000]", 0),
    ("general protection fault, probably for non-canonical address 0xdead000000000108: 0000 [#1] PREEMPT SMP", 1),
    ("mce: [Hardware Error]: Machine check events logged", 0),
    ("mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400", 1),
])
def test_lines_of_the_kernel(line, incidents):
    assert len(diagnose_text(disk("gpu01", 0, line))["incidents"]) == incidents
