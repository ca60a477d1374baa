"""What is kept of many lines of one kind: when, how often, in which order, and what of them is said."""
import cluster
from diagnosis import CASES, check, diagnose, diagnose_text, english
from test_scope import A, B, last

DOWN = "mlx5_core 0000:3b:00.0 ens1f0np0: Link down"
MOUNT = "LustreError: 4410:0:(osd_handler.c:8195:osd_mount()) scr-OST0008-osd: can't mount /dev/rbd1: "


def findings(text, row, *words):
    return [one for one in diagnose_text(text, *words)["findings"] if one["row"] == row]


def stampless(text):
    """The lines without their stamps, of gpu01."""
    return "".join(line.split(" kernel: ", 1)[1] + "\n" for line in text.splitlines())


def lost_and_back(at, target="scr-OST0000", nid=A):
    return cluster.lost("gpu01", at, target, nid) + cluster.restored("gpu01", at + 1, target, nid)


# ---- When. ----

def test_lines_out_of_order_are_of_the_time_they_say():
    for order in (0, 50, 100), (100, 50, 0), (50, 100, 0), (50, 0, 100):
        found = diagnose_text("".join(cluster.line("gpu01", at, DOWN) for at in order))
        incident, finding = found["incidents"][0], found["findings"][0]
        assert len(found["incidents"]) == len(found["findings"]) == 1 and finding["count"] == 3
        for told in incident, finding:
            assert (told["first"]["text"], told["last"]["text"]) == ("2026-05-22 04:16:59 UTC", "2026-05-22 04:18:39 UTC")


def test_half_an_hour_of_quiet_is_the_end_of_a_run():
    def parts(*at):
        return len(findings("".join(cluster.line("gpu01", one, DOWN) for one in at), "NET-LINK"))

    assert parts(0, 1800) == 1 == parts(1800, 0) and parts(0, 1801) == 2 == parts(1801, 0)
    assert parts(0, 1000, 2000, 3000) == 1


def test_a_line_without_a_stamp_is_of_no_run_with_stamps():
    found = findings(cluster.line("gpu01", 0, DOWN) + (DOWN + "\n") * 2, "NET-LINK", "--node", "gpu01")
    assert [(one["count"], one["first"] and one["first"]["clock"]) for one in found] == [(1, "utc"), (2, None)]


def test_without_stamps_the_order_of_lines_tells_what_was_first():
    lost, back = (stampless(one) for one in (cluster.lost("gpu01", 0, "scr-OST0000", A),
                                             cluster.restored("gpu01", 0, "scr-OST0000", A)))
    check(last(diagnose_text(lost + back, "--node", "gpu01")), open=False, data="delayed")
    check(last(diagnose_text(back + lost, "--node", "gpu01")), open=True, data="unknown")


def test_with_stamps_they_tell_it_whichever_line_comes_first():
    lost, back = cluster.lost("gpu01", 0, "scr-OST0000", A), cluster.restored("gpu01", 30, "scr-OST0000", A)
    for text in (lost + back, back + lost):
        check(last(diagnose_text(text)), open=False, data="delayed")
    early = cluster.restored("gpu01", -30, "scr-OST0000", A)
    for text in (lost + early, early + lost):
        check(last(diagnose_text(text)), open=True, data="unknown")


# ---- How long, and how often. ----

def test_losses_are_timed_where_lines_have_times():
    text = "".join(lost_and_back(10 * i) for i in range(3))
    assert "was lost and back 3 times, each time within 1 s" in english(last(diagnose_text(text))["evidence"])
    found = last(diagnose_text(stampless(text), "--node", "gpu01"))
    assert "lost and back" not in english(found["evidence"])
    # Where the clock has no fractions, too.
    text = text.replace(f"{cluster.stamp(21)}", f"{cluster.stamp(20)}")
    for longest in (text, "".join(lost_and_back(10 * i).replace(cluster.stamp(10 * i + 1), cluster.stamp(10 * i)) for i in range(3))):
        incident = last(diagnose_text(longest))
        assert "each time within 1 s" in english(incident["evidence"])
        assert "3 times, at the longest 1 s" in english(incident["data_reasons"])


def test_a_loss_that_is_told_again_is_one():
    text = "".join(cluster.lost("gpu01", at, "scr-OST0000", A) for at in range(5))
    incident = last(diagnose_text(text + cluster.restored("gpu01", 5, "scr-OST0000", A)))
    assert "lost and back" not in english(incident["evidence"])
    assert "after 5 s" in english(incident["data_reasons"])
    assert "lost and back" not in english(last(diagnose_text(text))["evidence"])


def test_an_ordinary_line_is_no_finding():
    found = diagnose(*sorted((CASES / "healthy").glob("*.log")))
    ordinary = [one for one in found["noise"] if one["row"]]
    assert ordinary and all(one["count"] > 0 for one in ordinary)
    assert {one["row"] for one in found["findings"]}.isdisjoint({one["row"] for one in ordinary})


# ---- What one line says of a host. ----

def test_the_version_is_what_lustre_itself_says_of_it():
    def version(*texts):
        return [node["lustre_version"] for node in
                diagnose_text("".join(cluster.line("oss1", at, text) for at, text in enumerate(texts)))["nodes"]]

    build = "Lustre: Lustre: Build Version: 2.15.5"
    assert version(build) == ["2.15.5"] == version(build, DOWN, "Linux version 6.1.0-26-amd64")
    assert version("Linux version 6.1.0-26-amd64") == [None] == version(DOWN)
    assert version(build, build.replace("15.5", "16.1")) == ["2.16.1"]


def test_a_ping_that_timed_out_first_says_so():
    def evidence(first, opcode):
        return english(last(diagnose_text(first + cluster.gone("gpu01", 1, "scr-OST0000", A, opcode=opcode)))["evidence"])

    refused = cluster.line("gpu01", 0, f"LustreError: 11-0: scr-OST0000-osc-ffff88100aa0000: operation obd_ping to node {A} "
                                       "failed: rc = -107")
    assert "Only pings" in evidence("", 400) and "Only pings" not in evidence("", 4)
    # What is no request is not the first of them.
    assert "Only pings" in evidence(cluster.lost("gpu01", 0, "scr-OST0001", A), 400)
    assert "Only pings" in evidence(refused, 400)


def test_a_mount_that_somebody_interrupted_is_no_fault_of_the_storage():
    check(last(diagnose_text(cluster.line("oss1", 0, MOUNT + "-5"))), nature="storage", scope="target")
    check(last(diagnose_text(cluster.line("oss1", 0, MOUNT + "-4"))), nature="unknown")
    # Of other things -4 says nothing of the kind.
    error = f"LustreError: 11-0: scr-OST0000-osc-ffff88100aa0000: operation ost_write to node {A} failed: rc = -4"
    check(last(diagnose_text(cluster.line("gpu01", 0, error))), headline_has="answered with an error")
    full = "LustreError: 1:0:(x.c:1:f()) scr-OST0000: rc = -4: failed to start transaction due to ENOSPC"
    check(last(diagnose_text(cluster.line("oss1", 0, full))), nature="storage")


def test_a_log_is_one_of_lustre_by_its_drivers_too():
    """Who could have complained and did not is well; a host without Lustre could not."""
    def healthy(text):
        lost = cluster.gone("gpu01", 0, "scr-OST0000", A) + cluster.healthy("gpu01", -86400, "scr-OST0002", B)
        found = diagnose_text(cluster.line("gpu02", -86400, text) + lost)
        return english(found["incidents"][-1]["healthy"])

    for text in (f"LNetError: 3122:0:(o2iblnd_cb.c:3386:kiblnd_check_conns()) Timed out RDMA with {A} (7): c: 6, oc: 0, rc: 8",
                 "LNet: Added LNI 192.0.2.102@o2ib [8/256/0/180]",
                 "Lustre: scr-OST0008: Will be in recovery for at least 2:30, or until 1 client reconnects"):
        assert "gpu02" in healthy(text), text
    for text in (DOWN, "Linux version 6.1.0-26-amd64", "INFO: task ls:4037 blocked for more than 120 seconds."):
        assert "gpu02" not in healthy(text), text


def test_who_complains_of_a_peer_is_not_the_peer():
    """One server NID without a host and one log that may be a server's: not where that log speaks of it as of another."""
    lost = cluster.gone("gpu01", 0, "scr-OST0000", A)
    timed_out = "LNetError: 3122:0:(o2iblnd_cb.c:3386:kiblnd_check_conns()) Timed out RDMA with {} (7): c: 6, oc: 0, rc: 8"
    found = diagnose_text(cluster.line("box", 0, timed_out.format(A)) + lost)
    assert {node["name"]: node["role"] for node in found["nodes"]}["box"] != "server"
    check(last(found), scope="server", element_has=A)
    assert set(last(found)["nodes"]) == {"box", "gpu01"}
    # A server complains of its clients.
    found = diagnose_text(cluster.line("box", -3600, timed_out.format("192.0.2.101@o2ib")) + lost)
    assert {node["name"]: node["role"] for node in found["nodes"]}["box"] == "server"
    # And of itself, when the address is its own.
    own = cluster.line("box", -3600, f"LNet: Added LNI {A} [8/256/0/180]")
    found = diagnose_text(own + cluster.line("box", 0, timed_out.format(A)) + lost)
    assert {node["name"]: node["role"] for node in found["nodes"]}["box"] == "server"


def test_what_is_no_trouble_goes_with_the_nearest_trouble():
    oom = "Out of memory: Killed process 4411 (python3) total-vm:98000000kB"

    def incidents(at, *more):
        text = cluster.line("oss1", 0, DOWN) + cluster.line("oss1", at, "Linux version 6.1.0-26-amd64")
        found = diagnose_text(text + "".join(cluster.line("oss1", one, oom) for one in more))
        return [[part["row"] for part in one["consequences"]] for one in found["incidents"]]

    assert incidents(150, 400) == [["K-BOOT"], []]
    assert incidents(250, 400) == [[], ["K-BOOT"]]
    # It may come long before, and a while after.
    assert incidents(-800) == [["K-BOOT"]] == incidents(290)
    assert incidents(-1000) == [[]] == incidents(600)
    assert incidents(-700, -1500) == [[], ["K-BOOT"]]
