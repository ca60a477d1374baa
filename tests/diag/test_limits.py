"""Where each rule of correlation ends: the same story without the one thing that makes it a story."""
import cluster

from diagnosis import check, diagnose_text, english
from test_scope import A, B, C, HOSTS, OLD, known, last, lost_by, with_hosts

DOWN = "mlx5_core 0000:3b:00.0 ens1f0np0: Link down"
BOOT = "Linux version 6.1.0-26-amd64"
HUNG = "INFO: task ls:4037 blocked for more than 120 seconds."
STOPPING = "Lustre: Failing over scr-OST0000"
OWN_A = "LNet: Added LNI 192.0.2.11@o2ib [8/256/0/180]"
COMES_BACK = ("Lustre: scr-OST0000: Client 939243e4-2f54-a96f-3cbb-9fcf55426e2e (at 192.0.2.101@o2ib) "
              "reconnecting")


def lines(node, at, *texts):
    return "".join(cluster.line(node, at, text) for text in texts)


def causes(text, *words):
    return [one["cause"]["row"] for one in diagnose_text(text, *words)["incidents"]]


# ---- What is one story. ----

def test_hung_tasks_are_of_what_is_near():
    assert causes(lines("gpu01", 0, DOWN) + lines("gpu01", 100, HUNG)) == ["NET-LINK"]
    assert causes(lines("gpu01", 0, DOWN) + lines("gpu01", 3000, HUNG)) == ["NET-LINK", "K-HUNG"]
    trouble = lines("oss1", 0, "LustreError: 1:0:(x.c:1:f()) scr-OST0000: failed to start transaction due to ENOSPC")
    assert causes(trouble + lines("gpu01", 100, HUNG)) == ["BE-ENOSPC"]
    assert causes(trouble + lines("gpu01", 3000, HUNG)) == ["BE-ENOSPC", "K-HUNG"]


def test_hung_tasks_are_not_of_other_nodes_ports():
    assert causes(lines("gpu02", 0, DOWN) + lines("gpu01", 100, HUNG)) == ["NET-LINK", "K-HUNG"]


def test_hung_tasks_are_of_the_nearest_trouble():
    full = "LustreError: 1:0:(x.c:1:f()) scr-OST000{}: failed to start transaction due to ENOSPC"
    two = lines("oss1", 0, full.format(0)) + lines("oss2", 250, full.format(1))
    for at, nearest in (("20", 0), ("240", 1)):
        found = diagnose_text(two + lines("gpu01", int(at), HUNG))["incidents"]
        assert [one["cause"]["row"] for one in found] == ["BE-ENOSPC"] * 2
        assert ["state D on gpu01" in english(one["users"]) for one in found] == [nearest == 0, nearest == 1]


def test_two_file_systems_have_two_managers():
    def gone(node, nid):
        return lines(node, 0, f"LustreError: 166-1: MGC{nid}: Connection to MGS (at {nid}) was lost; in progress "
                              "operations using this service will fail")

    found = diagnose_text(gone("gpu01", A) + gone("gpu02", B))["incidents"]
    assert sorted((one["scope"], one["element"]) for one in found) == [("mgs", A), ("mgs", B)]
    assert len(diagnose_text(gone("gpu01", A) + gone("gpu02", A))["incidents"]) == 1


def test_clients_that_come_back_are_told_unless_something_near_says_why():
    back = lines("oss1", 0, COMES_BACK)
    disk = "blk_update_request: I/O error, dev sdr, sector 11721045128 op 0x0:(READ)"
    assert causes(back) == ["CN-RECONNECTING"]
    assert causes(back + lines("oss1", 2000, disk)) == ["CN-RECONNECTING", "BE-DISK"]
    assert causes(lines("oss1", -60, disk) + back) == ["BE-DISK"]
    own = lines("gpu09", OLD, "LNet: Added LNI 192.0.2.109@o2ib [8/256/0/180]")
    # Nor need it be the same node: the target, or who came back.
    assert "CN-RECONNECTING" not in causes(back + cluster.gone("gpu09", 5, "scr-OST0000", A))
    assert "CN-RECONNECTING" in causes(known("gpu09") + own + back + cluster.gone("gpu09", 5, "scr-OST0007", B))
    # The start of a port is no reason.
    assert causes(back + lines("oss1", 5, DOWN.replace("down", "up"))) == ["CN-RECONNECTING"]


def test_the_slow_death_of_a_device_is_one_story():
    hour = 3600
    assert causes(lines("gpu01", 0, DOWN) + lines("gpu01", 3 * hour, DOWN)) == ["NET-LINK"]
    assert causes(lines("gpu01", 0, DOWN) + lines("gpu01", 5 * hour, DOWN)) == ["NET-LINK"] * 2
    # Another device, or another boot, is another story.
    assert causes(lines("gpu01", 0, DOWN) + lines("gpu01", 3 * hour, DOWN.replace("ens1f0np0", "ens2"))) == \
        ["NET-LINK"] * 2
    assert causes(lines("gpu01", 0, DOWN) + lines("gpu01", hour, BOOT) + lines("gpu01", 3 * hour, DOWN)) == \
        ["NET-LINK"] * 2


def test_a_node_whose_link_failed_long_ago_is_a_witness():
    """gpu01 loses the server too: so it is not gpu02's own link."""
    lost = cluster.gone("gpu01", 5, "scr-OST0000", A) + cluster.gone("gpu02", 5, "scr-OST0000", A)
    both = lines("gpu02", 0, DOWN) + lines("gpu01", -1, DOWN.replace("ens1", "ens9")) + lost
    assert causes(known("gpu01", "gpu02") + both)[-1:] == ["NET-LINK"]
    long_ago = known("gpu01", "gpu02") + lines("gpu01", -7200, DOWN.replace("ens1", "ens9"))
    found = diagnose_text(long_ago + lines("gpu02", 0, DOWN) + lost)["incidents"]
    assert [one["cause"]["row"] for one in found][-2:] == ["NET-LINK", "PT-EXPIRE-SLOW"]
    check(found[-1], scope="target")
    rebooted = known("gpu01", "gpu02") + lines("gpu01", -200, DOWN.replace("ens1", "ens9")) + lines("gpu01", -190, BOOT)
    found = diagnose_text(rebooted + lines("gpu02", 0, DOWN) + lost)["incidents"]
    assert [one["cause"]["row"] for one in found][-2:] == ["NET-LINK", "PT-EXPIRE-SLOW"]


def test_a_slow_server_waits_for_a_client_that_broke_just_then():
    broke = lines("gpu05", -2990, "LNet: Added LNI 192.0.2.105@o2ib [8/256/0/180]")
    broke += lines("gpu05", 0, "Out of memory: Killed process 4411 (python3) total-vm:98000000kB")
    busy = ("Lustre: scr-OST0000: Client 939243e4-2f54-a96f-3cbb-9fcf55426e2e (at 192.0.2.105@o2ib) refused "
            "connection, still busy with 5 references")
    assert causes(broke + lines("oss1", 20, busy)) == ["K-OOM"]
    assert causes(broke + lines("oss1", 2000, busy)) == ["K-OOM", "CN-BUSY"]


def test_servers_that_answer_are_not_lost_with_those_that_do_not():
    text = known("gpu01", "gpu02")
    text += cluster.gone("gpu01", 0, "scr-OST0000", A) + cluster.gone("gpu01", 0, "scr-OST0002", B)
    check(last(diagnose_text(text)), scope="node", element_has="gpu01")
    answered = f"LustreError: 11-0: scr-OST0003-osc-ffff88100aa0000: operation obd_ping to node {B} failed: rc = -107"
    answer = lines("gpu01", 1, answered)
    found = [one for one in diagnose_text(text + answer)["incidents"] if not one["self_healed"]]
    assert len(found) == 2 and {one["scope"] for one in found} <= {"pair", "unknown", "server"}
    # A while later it may be back.
    found = diagnose_text(text + lines("gpu01", 40, answered))["incidents"]
    check([one for one in found if not one["self_healed"]][0], scope="node", element_has="gpu01")
    # One answer is enough, whatever else it does not answer.
    found = diagnose_text(text + answer + cluster.lost("gpu01", 3, "scr-OST0003", B))["incidents"]
    assert len([one for one in found if not one["self_healed"]]) == 2


def test_evictions_far_apart_are_two_stories():
    def evicted(at, nid):
        return cluster.silent_client("oss1", at, "scr-OST0000", f"9392430{at}-2f54", nid)

    assert len(causes(evicted(0, "192.0.2.101@o2ib") + evicted(10, "192.0.2.102@o2ib"))) == 1
    assert len(causes(evicted(0, "192.0.2.101@o2ib") + evicted(1000, "192.0.2.102@o2ib"))) == 2


# ---- What is a cause. ----

def server_restarts(at):
    return lines("oss1", OLD, OWN_A) + lines("oss1", at, BOOT) + lines("oss1", at + 1, OWN_A)


def test_a_start_explains_what_was_away_until_then():
    lost = cluster.gone("gpu01", 0, "scr-OST0000", A) + cluster.gone("gpu02", 0, "scr-OST0000", A)
    check(last(diagnose_text(server_restarts(600) + lost)), cause="K-BOOT", scope="server", element_has="oss1")
    # Before, and up since.
    assert causes(server_restarts(-600) + lost)[-1] == "PT-EXPIRE-SLOW"
    # So late that it is another story.
    assert causes(server_restarts(2 * 86400) + lost)[-1] == "PT-EXPIRE-SLOW"


def test_an_order_explains_what_begins_with_it():
    def at(seconds):
        text = lines("oss1", OLD, OWN_A) + lines("oss1", seconds, STOPPING)
        return causes(text + cluster.gone("gpu01", 0, "scr-OST0000", A))[-1]

    assert at(-60) == at(10) == "TG-FAILOVER"
    assert at(-600) == at(60) == "PT-EXPIRE-SLOW"
    # On the same node, whose clock is the same, it comes first.
    inactive = ("Lustre: setting import scr-OST0000_UUID INACTIVE by administrator request")
    lost = cluster.gone("gpu01", 0, "scr-OST0000", A)
    assert causes(lines("gpu01", 1, inactive) + lost) == ["PT-ADMIN-INACTIVE"]
    assert causes(lines("gpu01", 12, inactive) + lost) == ["PT-EXPIRE-SLOW"]


# ---- Scopes. ----

def test_a_client_that_restarted():
    text = lines("gpu01", OLD, "LNet: Added LNI 192.0.2.101@o2ib [8/256/0/180]")
    text += cluster.silent_client("oss1", 0, "scr-OST0000", "939243e4-2f54", "192.0.2.101@o2ib")
    text += lines("gpu01", 100, BOOT, "LNet: Added LNI 192.0.2.101@o2ib [8/256/0/180]")
    check(last(diagnose_text(text)), cause="K-BOOT", scope="node", element_has="gpu01", data="lost")


def test_one_target_that_was_mounted_again():
    text = lines("oss1", OLD, OWN_A) + cluster.gone("gpu01", 0, "scr-OST0000", A)
    text += lines("oss1", 60, "Lustre: scr-OST0000: Will be in recovery for at least 2:30, or until 1 client reconnects")
    check(last(diagnose_text(text)), cause="RC-START", scope="target", element_has="scr-OST0000")
    text += cluster.gone("gpu01", 1, "scr-OST0001", A)
    check(last(diagnose_text(text)), cause="RC-START", scope="server", element_has="oss1")


def test_an_administrator_evicts_from_several_targets():
    text = "".join(lines("oss1", index, "Lustre: 4217:0:(genops.c:1714:obd_export_evict_by_uuid()) "
                         f"scr-OST000{index}: evicting 939243e4-2f54-a96f-3cbb-9fcf55426e2e at adminstrative request")
                   for index in range(2))
    check(last(diagnose_text(text)), cause="EX-EVICT-ADMIN", scope="server", element_has="oss1",
          headline_has="ordered oss1 to evict")


def test_nobody_back_means_really_nobody():
    def over(clients, back, evicted):
        return last(diagnose_text(lines("mds1", 0, f"Lustre: scr-MDT0000: Recovery over after 5:00, of {clients} "
                                                   f"clients {back} recovered and {evicted} were evicted.")))

    incident = over(10, 0, 10)
    check(incident, scope="fabric", headline_has="None of the 10 clients", data="lost")
    assert "10 of 10 clients were evicted" in english(incident["data_reasons"])
    assert "3 of 10 clients were evicted" in english(over(10, 7, 3)["data_reasons"])
    assert over(10, 7, 3)["scope"] != "fabric" and over(1, 0, 1)["scope"] != "fabric"


def test_a_server_that_lost_others():
    text = known("gpu01", "gpu02")
    for index, nid in enumerate((A, B)):
        text += cluster.gone("mds1", index, f"scr-OST000{index * 2}", nid).replace("-osc-ffff88100aa0000", "-osc-MDT0000")
    check(last(diagnose_text(text)), scope="server", element_has="mds1", nature="network")


def test_processes_that_hang_in_the_rdma_stack():
    frames = (" ib_get_eth_speed+0x65/0x190 [ib_core]", " ptlrpc_queue_wait+0x7d/0x230 [ptlrpc]")
    incident = last(diagnose_text(lines("gpu01", 0, HUNG, frames[0])))
    check(incident, cause="K-HUNG", scope="node", element_has="gpu01", nature="host",
          headline_has="inside its own RDMA drivers")
    check(last(diagnose_text(lines("gpu01", 0, HUNG, *frames))), cause="K-HUNG", scope="unknown")
    check(last(diagnose_text(lines("gpu01", 0, HUNG))), scope="unknown")


def test_only_a_log_with_something_of_lustre_may_be_the_servers():
    """The one log that is no client's is the server's, by elimination: not any log."""
    lost = cluster.gone("gpu01", 0, "scr-OST0000", A)

    def role(text):
        found = diagnose_text(lost + text)
        return {node["name"]: node["role"] for node in found["nodes"]}["box"], [one["cause"]["row"] for one in found["incidents"]]

    disk = lines("box", -1, "blk_update_request: I/O error, dev sdr, sector 11721045128 op 0x0:(READ)")
    assert role(disk) == ("server", ["BE-DISK"])
    assert role(lines("box", 60, "Lustre: Lustre: Build Version: 2.15.5")) == ("server", ["K-BOOT"])
    # What keeps servers in pairs runs on servers.
    for line in ("corosync[2981]:   [TOTEM ] Marking ringid 1 interface 192.0.2.14 FAULTY",
                 "pengine[3549]:   notice: LogActions: Move    ost00#011(Started oss1 -> oss2)"):
        assert role(lines("box", 60, line))[0] == "server", line
    assert role(lines("box", 60, "Lustre: Lustre: Build Version: 2.15.5", BOOT))[0] == "server"
    for line in (DOWN, BOOT, "nfs: server 198.51.100.7 not responding, still trying"):
        told, rows_told = role(lines("box", 60, line))
        assert told != "server" and "PT-EXPIRE-SLOW" in rows_told, line


def test_nfs_of_another_time_or_node_accuses_nobody():
    nfs = "nfs: server 198.51.100.7 not responding, still trying"
    lost = cluster.gone("gpu01", 0, "scr-OST0000", A)

    def lustre(text):
        return next(one for one in diagnose_text(text)["incidents"] if one["cause"]["row"] != "NFS-NR")

    check(lustre(lines("gpu01", 2, nfs) + lost), scope="node")
    check(lustre(lines("gpu01", -200, nfs) + lost), scope="unknown")
    check(lustre(lines("gpu02", 2, nfs) + lost), scope="unknown")
    text = known("gpu01", "gpu02", "gpu03") + lost
    check(last(diagnose_text(text)), scope="pair")
    found = diagnose_text(text + lines("gpu01", 2, nfs))["incidents"]
    assert [one["scope"] for one in found if one["cause"]["row"] == "PT-EXPIRE-SLOW"][-1] == "node"


def test_a_client_that_reads_damaged_data():
    bad = ("LustreError: 133-1: scr-OST0000-osc-ffff88: BAD READ CHECKSUM: from 192.0.2.11@o2ib inode "
           "[0x200000401:0x5:0x0] object 0x0:1234 extent [0-1048575], client aa/aa, server bb, cksum_type 4")
    incident = last(diagnose_text(lines("gpu01", 0, bad)))
    check(incident, cause="CK-READ", scope="unknown", confidence="low", data="delayed", headline_has="hecksum")


def test_an_answer_where_the_log_of_the_server_is_here():
    error = lines("gpu01", 0, f"LustreError: 11-0: scr-OST0000-osc-ffff88100aa0000: operation ost_write to node {A} "
                              "failed: rc = -5")
    check(last(diagnose_text(error)), scope="unknown", undecided_has="192.0.2.11@o2ib")
    server = lines("oss1", OLD, OWN_A)
    check(last(diagnose_text(server + error)), scope="server", element_has="oss1", nature="server")


def test_one_rack_of_clients_that_servers_complain_of(tmp_path):
    def gone(servers, clients):
        return "".join(cluster.silent_client(server, 0, f"scr-OST000{server[-1]}", f"9392430{client}-2f54",
                                             f"192.0.2.10{client}@o2ib")
                       for server in servers for client in clients)

    quiet = lines("gpu03", OLD, "LNet: Added LNI 192.0.2.103@o2ib [8/256/0/180]") + cluster.healthy("gpu03", OLD, "scr-OST0000", A)
    check(last(with_hosts(tmp_path, quiet + gone(("oss1", "oss2"), (1, 2)))), scope="rack", element_has="r7",
          evidence_has="gpu03")
    check(last(with_hosts(tmp_path, quiet + gone(("oss1", "oss2"), (1, 2, 3)))), scope="fabric")
    assert last(with_hosts(tmp_path, quiet + gone(("oss1",), (1, 2))))["scope"] != "rack"


def test_no_rack_where_one_is_unknown(tmp_path):
    text = known("gpu01", "gpu02", "gpu03") + lost_by(("gpu01", "gpu02"))
    check(last(with_hosts(tmp_path, text)), scope="rack", urgency="critical", data="unknown")
    check(last(with_hosts(tmp_path, text, HOSTS.replace("gpu02 client r7", "gpu02 client"))), scope="fabric")
    # One server that a rack lost is that server's, or what is between it and them.
    one = last(with_hosts(tmp_path, known("gpu01", "gpu02", "gpu03") + lost_by(("gpu01", "gpu02"), (A,))))
    assert one["scope"] in ("server", "target")
    # The witness must have had Lustre to complain of, and a rack.
    check(last(with_hosts(tmp_path, text, HOSTS.replace("gpu03 client r8", "gpu03 client"))), scope="fabric")
    silent = known("gpu01", "gpu02") + lines("gpu03", OLD, "usb 1-1: new device") + lost_by(("gpu01", "gpu02"))
    check(last(with_hosts(tmp_path, silent)), scope="fabric", undecided_has="r7")


def test_the_same_hour_is_told_of_the_same_trouble_only():
    def day(index, target, nid):
        return cluster.gone("gpu01", index * 86400, target, nid) + cluster.restored("gpu01", index * 86400 + 90, target, nid)

    same = "".join(day(index, "scr-OST0000", A) for index in range(3))
    other = "".join(day(index, f"scr-OST000{index}", (A, B, C)[index]) for index in range(3))
    assert "time of day" in english(last(diagnose_text(same))["evidence"])
    assert "time of day" not in english(last(diagnose_text(other))["evidence"])


# ---- One fault of many, and how much a verdict is worth. ----

def test_the_same_fault_on_many_nodes_is_something_shared():
    def ports(*nodes):
        text = known("gpu01", "gpu02", "gpu03")
        return text + "".join(lines(node, 0, DOWN) for node in nodes) + lost_by(nodes, (A,))

    incident = last(diagnose_text(ports("gpu01", "gpu02", "gpu03")))
    check(incident, cause="NET-LINK", scope="fabric", evidence_has="3 nodes report it")
    incident = last(diagnose_text(ports("gpu01", "gpu02")))
    check(incident, cause="NET-LINK", scope="node")
    assert "2 nodes have the same fault" in english(incident["contrary"])
    assert "have the same fault" not in english(last(diagnose_text(ports("gpu01")))["contrary"])
    # Processors of three nodes share no switch.
    oom = "Out of memory: Killed process 4411 (python3) total-vm:98000000kB"
    text = known("gpu01", "gpu02", "gpu03") + lost_by(("gpu01", "gpu02", "gpu03"), (A,))
    text += "".join(lines(node, -1, oom) for node in ("gpu01", "gpu02", "gpu03"))
    assert not [one for one in diagnose_text(text)["incidents"] if one["cause"]["row"] == "K-OOM" and one["scope"] == "fabric"]


def test_of_two_causes_of_one_rank_the_earlier_counts():
    down = lines("gpu01", 10, DOWN)
    damaged = "mlx5_core 0000:3b:00.0: Port module event[error]: module 0, Cable error, High Temperature"
    assert causes(lines("gpu01", 0, damaged) + down) == ["ML-PORTMOD"]
    assert causes(down + lines("gpu01", 20, damaged)) == ["NET-LINK"]
    assert causes(lines("gpu01", 20, damaged) + down) == ["NET-LINK"]  # as the clock says, not the file


def test_other_causes_are_told_likeliest_first_whichever_came_first():
    failed = ("LNetError: 659:0:(lib-move.c:2157:lnet_handle_find_routed_path()) peer 10.9.0.1@o2ib has no available nets",
              "Lustre: 3438:0:(ldlm_lib.c:560:client_obd_setup()) MGC10.9.0.1@o2ib: config has no valid NIDs, force dynamic NIDs",
              "LustreError: 3438:0:(import.c:491:import_select_connection()) MGC10.9.0.1@o2ib: no connections available: rc = -22",
              "LustreError: 3438:0:(obd_mount.c:523:lustre_start_mgc()) connect failed -22")
    for order in (0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1):
        incident = last(diagnose_text("".join(lines("gpu01", at, failed[index]) for at, index in enumerate(order))))
        check(incident, cause="LN-NOROUTE")
        assert [one["row"] for one in incident["other_causes"]] == ["MG-NONIDS", "IM-NOCONN", "MG-MGCFAIL"]


def test_an_undecided_scope_is_never_said_with_confidence():
    text = cluster.line("oss1", -2990, OWN_A) + lines("oss1", 30, COMES_BACK)
    evicted = cluster.evicted("gpu01", 0, "scr-OST0000") + cluster.lost("gpu01", 0, "scr-OST0000", A)
    for one in diagnose_text(evicted)["incidents"] + diagnose_text(text)["incidents"]:
        if one["scope"] == "unknown":
            assert one["confidence"] == "low" and one["undecided"], one["headline"]
    check(last(diagnose_text(evicted)), scope="unknown", confidence="low")


def test_a_full_target_loses_nothing():
    full = "LustreError: 1:0:(x.c:1:f()) scr-OST0000: failed to start transaction due to ENOSPC"
    check(last(diagnose_text(lines("oss1", 0, full))), cause="BE-ENOSPC", scope="target", data="untouched")
    failed = "blk_update_request: I/O error, dev sdr, sector 11721045128 op 0x0:(READ)"
    incident = last(diagnose_text(lines("oss1", 0, failed)))
    check(incident, cause="BE-DISK", data="unknown", open=False)
    assert "do not say what became of writes to sdr" in english(incident["data_reasons"])
    # What only timed out waits; what nobody waited for is not touched.
    incident = last(diagnose_text(cluster.timed_out("gpu01", 0, "scr-OST0000", A)))
    check(incident, data="unknown", open=True)
    assert "Operations wait for scr-OST0000" in english(incident["data_reasons"])
    incident = last(diagnose_text(lines("gpu01", 0, DOWN)))
    check(incident, data="untouched", open=False)
    assert "Nothing in these logs says" in english(incident["data_reasons"])


def test_an_error_of_the_server_is_called_one():
    text = lines("gpu01", 0, f"LustreError: 11-0: scr-OST0000-osc-ffff88100aa0000: operation ost_write to node {A} "
                             "failed: rc = -5")
    check(last(diagnose_text(text)), headline_has="answered with an error")
    check(last(diagnose_text(text.replace("rc = -5", "rc = -107"))), headline_has="does not know this client")


def test_a_write_that_failed_is_not_untouched():
    def answer(operation, rc=-5):
        return lines("gpu01", 0, f"LustreError: 11-0: scr-OST0000-osc-ffff88100aa0000: operation {operation} to node {A} "
                                 f"failed: rc = {rc}")

    incident = last(diagnose_text(answer("ost_write")))
    check(incident, data="unknown", urgency="high")
    assert "a write to scr-OST0000 with an error" in english(incident["data_reasons"])
    assert last(diagnose_text(answer("ost_read")))["data"] == "untouched"


def failed_write(rc, target="scr-OST0000", node="gpu01", at=0):
    return lines(node, at, f"LustreError: 11-0: {target}-osc-ffff88100aa0000: operation ost_write to node {A} failed: rc = {rc}")


def write_again(rc, target="scr-OST0000", node="gpu01", at=1):
    return lines(node, at, f"LustreError: 2106:0:(osc_request.c:2245:osc_brw_redo_request()) @@@ redo for recoverable error {rc}  "
                 f"req@ffff88 x1849/t0(0) o4->{target}-osc-ffff88100aa0000@{A}:6/4 lens 488/416 e 0 to 0 dl 0 ref 2 fl "
                 f"Interpret:ReMQU/600/0 rc {rc}/{rc}")


FAILED_WRITE = "The server answered a write to scr-OST0000 with an error"


def test_a_connection_that_is_back_does_not_mend_a_write_that_failed():
    back = cluster.healthy("gpu01", 1, "scr-OST0000", A)
    for text in (failed_write(-28) + back, failed_write(-5) + back, failed_write(-5) + write_again(-5) + back + failed_write(-28, at=3),
                 failed_write(-28) + cluster.healthy("gpu01", 1, "scr-OST0001", A)):
        incident = last(diagnose_text(text))
        check(incident, data="unknown", urgency="high", self_healed=False, open=False)
        reasons = {part: " ".join(phrase[part] for phrase in incident["data_reasons"]) for part in ("en", "ko")}
        assert "went on after 1 s; nothing was evicted" in reasons["en"] and FAILED_WRITE in reasons["en"]
        assert "대기한 후 재개되었으며" in reasons["ko"] and "쓰기에 오류로 응답했습니다" in reasons["ko"]
    # Lustre sends it again by itself after those, once it is connected.
    for rc in (-107, -19):
        incident = last(diagnose_text(failed_write(rc) + back))
        check(incident, data="delayed", urgency="low", self_healed=True)
        assert FAILED_WRITE not in english(incident["data_reasons"])
        check(last(diagnose_text(failed_write(rc))), data="unknown")
    # A read and a write that fail alike are told together.
    read = failed_write(-5).replace("ost_write", "ost_read")
    for both in (read + failed_write(-5), failed_write(-5) + read):
        check(last(diagnose_text(both)), data="unknown")
        check(last(diagnose_text(both + back)), data="unknown", urgency="high", self_healed=False)
    incident = last(diagnose_text(read + back))
    check(incident, data="delayed", urgency="low", self_healed=True)
    # Where operations still wait, both are so; what is lost is lost.
    incident = last(diagnose_text(failed_write(-28) + cluster.lost("gpu01", 1, "scr-OST0000", A)))
    check(incident, data="unknown", urgency="high", open=True)
    assert "Operations wait for scr-OST0000" in english(incident["data_reasons"]) and FAILED_WRITE in english(incident["data_reasons"])
    check(last(diagnose_text(failed_write(-28) + cluster.evicted("gpu01", 1, "scr-OST0000"))), data="lost", urgency="critical")


def test_a_request_that_is_sent_again_mends_no_other_that_failed():
    # That very write: that says what became of it.
    for rc in (-5, -30):
        incident = last(diagnose_text(failed_write(rc) + write_again(rc)))
        check(incident, data="delayed")
        assert english(incident["data_reasons"]) == "Lustre sent the data again by itself."
    old = lines("gpu01", 0, f"LustreError: 11-0: an error occurred while communicating with {A}. The ost_write operation failed with -5")
    check(last(diagnose_text(old + write_again(-5))), data="delayed")
    damaged = lines("gpu01", 1, f"LustreError: 133-1: scr-OST0000-osc-ffff88: BAD {{}} CHECKSUM: from {A} inode "
                                "[0x200000401:0x5:0x0] object 0x0:1234 extent [0-1048575], client aa/aa, server bb, cksum_type 4")
    bulk = lines("oss1", 1, "Lustre: scr-OST0000: Bulk IO write error with 939243e4-2f54 (at 192.0.2.105@o2ib), client will retry: rc = -110")
    # Another error, another target, another client, another request; before the write failed once more.
    for text in (failed_write(-28) + write_again(-5), failed_write(-5) + write_again(-5, "scr-OST0001"),
                 failed_write(-5) + write_again(-5, node="gpu02"), failed_write(-28) + damaged.format("READ"),
                 failed_write(-28) + damaged.format("WRITE"), failed_write(-28) + bulk,
                 failed_write(-5) + write_again(-5) + failed_write(-5, at=2)):
        incident = last(diagnose_text(text))
        check(incident, data="unknown", urgency="high", self_healed=False)
        assert "sent the data again by itself" in english(incident["data_reasons"])
        assert FAILED_WRITE in english(incident["data_reasons"])


def test_each_wait_is_told_and_the_longest_of_them():
    def waits(*waited):
        text = ""
        for index, (target, at, seconds) in enumerate(waited):
            text += cluster.lost("gpu01", at, target, A) + cluster.restored("gpu01", at + seconds, target, A)
        incident = last(diagnose_text(text))
        check(incident, data="delayed", open=False)
        return english(incident["data_reasons"])

    assert "after 30 s" in waits(("scr-OST0000", 0, 30))
    assert "after 30 s" in waits(("scr-OST0000", 0, 30), ("scr-OST0001", 5, 10))
    assert "after 30 s" in waits(("scr-OST0001", 5, 10), ("scr-OST0000", 0, 30))
    assert "up to 2 times, at the longest 40 s" in waits(("scr-OST0000", 0, 40), ("scr-OST0000", 100, 20))
    assert "up to 2 times, at the longest 40 s" in waits(("scr-OST0000", 0, 20), ("scr-OST0000", 100, 40))
    # Of several targets the worst, in both.
    for first, second in (("scr-OST0000", "scr-OST0001"), ("scr-OST0001", "scr-OST0000")):
        assert "up to 2 times, at the longest 60 s" in waits((first, 0, 10), (second, 5, 60), (first, 100, 20))


def test_pages_that_were_thrown_away_are_lost():
    discarded = "LustreError: 2201:0:(llite_lib.c:3100:ll_dirty_page_discard_warn()) scr: dirty page discard: 192.0.2.1@tcp:/scr/fid: [0x1:0x2:0x0]/ may get corrupted (rc -108)"
    text = cluster.gone("gpu01", 0, "scr-OST0000", A) + lines("gpu01", 2, discarded)
    incident = last(diagnose_text(text))
    check(incident, data="lost", urgency="critical")
    assert "thrown away on gpu01" in english(incident["data_reasons"])


def test_a_client_without_an_address_counts_as_one():
    text = cluster.silent_client("oss1", 0, "scr-OST0000", "939243e4-2f54-a96f-3cbb-9fcf55426e2e", "0@lo")
    assert "evicted 1 client" in english(last(diagnose_text(text))["data_reasons"])


def test_a_route_that_nobody_needs_is_no_fault():
    """The server is spoken with on another network; unless something wanted that very address."""
    def told(*texts):
        return causes(cluster.healthy("gpu01", -86400, "scr-OST0000", A) + lines("gpu01", 0, *texts))[1:]

    nowhere = "LNetError: 4021:0:(lib-move.c:2302:lnet_handle_find_routed_path()) no route to {} from <?>"
    tcp = A.replace("o2ib", "tcp")
    assert told(nowhere.format(tcp)) == []
    assert told(nowhere.format("192.0.2.99@tcp")) == ["LN-NOROUTE"]
    wanted = f"LustreError: 166-1: MGC{tcp}: Connection to MGS (at {tcp}) was lost; in progress operations using this service will fail"
    assert "LN-NOROUTE" in told(nowhere.format(tcp), wanted)
    # What another node wanted of it is not this one's.
    other = cluster.healthy("gpu02", -86400, "scr-OST0000", A) + lines("gpu02", 0, wanted)
    mine = cluster.healthy("gpu01", -86400, "scr-OST0000", A) + lines("gpu01", 0, nowhere.format(tcp))
    assert "LN-NOROUTE" not in causes(mine + other)


def test_users_are_told_what_each_target_does_to_them():
    def users(text):
        return [one["en"] for one in last(diagnose_text(text))["users"]]

    data = "scr-OST0012 (index 18): reads and writes of files that lie on it wait or fail; df may hang."
    names = "scr-MDT0001 (index 1): ls, stat, create, rename and remove wait or fail."
    assert users(cluster.lost("gpu01", 0, "scr-OST0012", A)) == [data]
    assert users(cluster.lost("gpu01", 0, "scr-MDT0001", A)) == [names]
    assert users(cluster.lost("gpu01", 0, "scr-MDT0001", A) + cluster.lost("gpu01", 1, "scr-OST0012", A)) == [names, data]
    manager = f"LustreError: 166-1: MGC{A}: Connection to MGS (at {A}) was lost; in progress operations using this service will fail"
    assert users(lines("gpu01", 0, manager)) == ["MGS: new mounts and configuration changes fail; I/O on mounts in place goes on."]
    assert users(lines("gpu01", 0, DOWN)) == ["Applications on gpu01 that use RDMA or Lustre are affected."]
    assert users(lines("gpu01", 0, HUNG)) == ["Processes hung in state D on gpu01; not even SIGKILL ends them while it lasts."]
    stopping = lines("gpu01", 0, "Lustre: setting import scr-OST0012_UUID INACTIVE by administrator request")
    assert users(stopping) == [data]


def test_why_a_verdict_is_worth_so_much():
    def reasons(text):
        return english(last(diagnose_text(text))["confidence_reasons"])

    lost = cluster.gone("gpu01", 0, "scr-OST0000", A)
    assert "Only one side's log" in reasons(lost) and "Both" not in reasons(lost) and "both sides" not in reasons(lost)
    both = reasons(lines("oss1", OLD, OWN_A) + lost)
    assert "both sides agree" in both and "Only one side's log" not in both
    own = reasons(lines("gpu01", 0, DOWN))
    assert "A lower layer of gpu01 names the fault itself." in own and "Only one side's log" not in own
    assert "Some evidence speaks against it" in reasons(lost)  # that there is no log of anybody else
    assert "3 nodes agree" in reasons(known("gpu01", "gpu02", "gpu03") + lost_by(("gpu01", "gpu02", "gpu03"), (A,)))
    assert "An order by an administrator" in reasons(lines("oss1", 0, STOPPING) + lost)


def test_what_is_well_is_named_and_nothing_else():
    text = known("gpu01", "gpu02") + lines("gpu03", OLD, DOWN) + cluster.gone("gpu01", 0, "scr-OST0000", A)
    healthy = english(last(diagnose_text(text))["healthy"])
    assert "gpu02" in healthy and "gpu01" not in healthy and "gpu03" not in healthy
    assert "scr-OST0001" in healthy and "scr-OST0005" in healthy and "scr-OST0000" not in healthy
    errors = last(diagnose_text(text + lines("gpu01", 5, *(
        f"LustreError: 11-0: scr-OST000{target}-osc-ffff88100aa0000: operation ost_{what} to node {A} failed: rc = {rc}"
        for target, what, rc in ((0, "read", -5), (1, "read", -5), (0, "statfs", -107), (0, "read", -2))))))["statuses"]
    assert [(one["kind"], one["number"]) for one in errors] == [("errno", -5), ("errno", -107), ("errno", -2)]


def test_how_many_logs_make_a_pair():
    timed_out = lines("gpu01", 0, f"LNetError: 2431:0:(o2iblnd_cb.c:3414:kiblnd_check_conns()) Timed out tx for {A}: 12 seconds")
    alone = cluster.healthy("gpu01", OLD, "scr-OST0000", A)
    check(last(diagnose_text(alone + timed_out)), scope="server", undecided_has="second client")
    check(last(diagnose_text(known("gpu01", "gpu02") + timed_out)), scope="pair")
    lost = cluster.gone("gpu01", 0, "scr-OST0000", A)
    check(last(diagnose_text(known("gpu01", "gpu02") + lost)), scope="pair")
    own = lines("oss1", OLD, OWN_A)
    check(last(diagnose_text(known("gpu01") + own + lost)), scope="pair", undecided_has="second client")
    assert "second client" not in english(last(diagnose_text(known("gpu01", "gpu02", "gpu03") + own + lost))["undecided"])


def test_one_target_of_several_or_the_server():
    nodes = ("gpu01", "gpu02", "gpu03")
    text = known(*nodes) + cluster.healthy("gpu01", OLD, "scr-OST0006", A)
    one = "".join(cluster.gone(node, 0, "scr-OST0000", A) for node in nodes)
    check(last(diagnose_text(text + one)), scope="target", element_has="scr-OST0000", nature="storage")
    two = one + "".join(cluster.gone(node, 1, "scr-OST0001", A) for node in nodes)
    check(last(diagnose_text(text + two)), scope="server", element_has=A, nature="unknown")
    # Of two servers at once it is what is between.
    check(last(diagnose_text(known(*nodes) + lost_by(nodes, (A, B)))), scope="fabric", nature="network")
    # A server that answers with an error is there.
    error = "LustreError: 11-0: scr-OST000{}-osc-ffff88100aa0000: operation ost_statfs to node {} failed: rc = -107"
    text += "".join(lines(node, 0, error.format(index, A)) for node in nodes for index in (0, 1))
    check(last(diagnose_text(text)), scope="server", nature="server")


def test_a_server_that_is_silent_is_not_told_to_have_forgotten():
    forgot = lines("gpu01", 0, f"LustreError: 11-0: scr-OST0000-osc-ffff88100aa0000: operation ost_statfs to node {A} failed: rc = -107")
    check(last(diagnose_text(forgot)), headline_has="does not know this client")
    headline = last(diagnose_text(forgot + cluster.timed_out("gpu01", 1, "scr-OST0001", A)))["headline"]["en"]
    assert "does not know" not in headline and "answered with an error" not in headline


def test_racks_of_those_who_are_well(tmp_path):
    clients = known("gpu01", "gpu02", "gpu03") + lost_by(("gpu01", "gpu02"))
    assert last(with_hosts(tmp_path, clients, HOSTS.replace("gpu01 client r7", "gpu01 client")))["scope"] == "fabric"
    assert last(with_hosts(tmp_path, clients, HOSTS.replace("gpu03 client r8", "gpu03 client r7")))["scope"] == "fabric"
    servers = known("gpu01", "gpu02", "gpu03") + lost_by(("gpu01", "gpu02", "gpu03"), (A, B))
    check(last(with_hosts(tmp_path, servers)), scope="rack", element_has="r1")
    assert last(with_hosts(tmp_path, servers, HOSTS.replace("oss3 oss r2", "oss3 oss r1")))["scope"] == "fabric"
