"""Who is at fault, told from who complains of whom: one row of the scope table a test."""
import cluster
import pytest
from diagnosis import check, commands, diagnose, diagnose_text, english, rows, run

A, B, C = "192.0.2.11@o2ib", "192.0.2.12@o2ib", "192.0.2.13@o2ib"
OLD = -86400  # a day earlier: makes nodes and targets known without being part of the incident


def known(*nodes):
    """All nodes have seen all servers, long before."""
    text = ""
    for node in nodes:
        for index, nid in enumerate((A, B, C)):
            text += cluster.healthy(node, OLD + index, f"scr-OST000{index * 2}", nid)
            text += cluster.healthy(node, OLD + index, f"scr-OST000{index * 2 + 1}", nid)
    return text


def last(found):
    return found["incidents"][-1]


def test_one_node_many_servers():
    text = known("gpu01", "gpu02", "gpu03")
    for index, nid in enumerate((A, B, C)):
        text += cluster.gone("gpu01", index, f"scr-OST000{index * 2}", nid, "timed out for sent delay")
    check(last(diagnose_text(text)), scope="node", element_has="gpu01", nature="network",
          evidence_has="Of 3 nodes", next_has=["ibstat", "ibdev2netdev"])


def test_one_node_one_server():
    text = known("gpu01", "gpu02", "gpu03") + cluster.gone("gpu01", 0, "scr-OST0000", A)
    check(last(diagnose_text(text)), scope="pair", element_has="gpu01", nature="network",
          next_has=f"timeout 5 lctl ping {A}")


def test_many_nodes_one_server():
    text = known("gpu01", "gpu02", "gpu03")
    for node in ("gpu01", "gpu02", "gpu03"):
        text += cluster.gone(node, 0, "scr-OST0000", A) + cluster.gone(node, 1, "scr-OST0001", A)
    check(last(diagnose_text(text)), scope="server", element_has="192.0.2.11",
          avoid_has="Do not reboot clients", undecided_has=A)


def test_all_lines_of_a_cause_are_counted():
    lines = "".join(f"Nov 28 03:12:1{i} gpu0{i} kernel: LustreError: 3122:0:(o2iblnd_cb.c:3386:kiblnd_check_conns()) "
                    f"Timed out RDMA with {A} (7): c: 6, oc: 0, rc: 8\n" for i in (1, 2, 3))
    incident = last(diagnose_text(lines))
    assert incident["cause"]["row"] == "IB-RDMATIMEOUT" and incident["cause"]["count"] == 3


def test_many_nodes_one_target():
    text = known("gpu01", "gpu02", "gpu03")
    for node in ("gpu01", "gpu02", "gpu03"):
        text += cluster.gone(node, 0, "scr-OST0000", A, opcode=4)
    check(last(diagnose_text(text)), scope="target", element_has="scr-OST0000", nature="storage",
          evidence_has="scr-OST0001", avoid_has="Do not reboot clients")


def test_everything_at_once():
    text = known("gpu01", "gpu02", "gpu03")
    for node in ("gpu01", "gpu02", "gpu03"):
        for index, nid in enumerate((A, B, C)):
            text += cluster.gone(node, index, f"scr-OST000{index * 2}", nid)
    check(last(diagnose_text(text)), scope="fabric", nature="network", urgency="critical", data="unknown",
          avoid_has="Do not reboot clients", next_has=["sminfo", "ibqueryerrors"])


def test_one_node_only_given():
    text = cluster.gone("gpu01", 0, "scr-OST0000", A)
    check(last(diagnose_text(text)), scope="unknown", undecided_has="second client",
          confidence="low")


def test_a_client_that_died():
    text = ""
    for index, server in enumerate(("oss1", "oss2")):
        text += cluster.silent_client(server, index, f"scr-OST000{index}",
                                      "939243e4-2f54-a96f-3cbb-9fcf55426e2e", "192.0.2.105@o2ib")
    check(last(diagnose_text(text)), scope="node", element_has="192.0.2.105", data="lost",
          undecided_has="192.0.2.105", next_has="timeout 5 lctl ping 192.0.2.105@o2ib")


def test_many_clients_of_one_server():
    text = cluster.silent_client("oss2", OLD, "scr-OST0009", "0" * 8 + "-1", "192.0.2.99@o2ib")
    for index in range(5):
        text += cluster.silent_client("oss1", index, "scr-OST0000", f"9392430{index}-2f54-a96f",
                                      f"192.0.2.{100 + index}@o2ib")
    check(last(diagnose_text(text)), scope="server", element_has="oss1", data="lost")


def test_many_clients_of_many_servers():
    text = ""
    for server in ("oss1", "oss2", "oss3"):
        for index in range(5):
            text += cluster.silent_client(server, index, f"scr-OST000{server[-1]}",
                                          f"9392430{index}-2f54-a96f", f"192.0.2.{100 + index}@o2ib")
    check(last(diagnose_text(text)), scope="fabric", data="lost")


def test_a_nodes_own_fault_explains_what_follows():
    text = known("gpu01", "gpu02", "gpu03")
    text += cluster.line("gpu01", 0, "mlx5_core 0000:3b:00.0 ens1f0np0: Link down")
    for index, nid in enumerate((A, B, C)):
        text += cluster.gone("gpu01", 20 + index, f"scr-OST000{index * 2}", nid)
    check(last(diagnose_text(text)), cause="NET-LINK", layer="link", scope="node",
          element_has="gpu01", confidence="high")


def test_every_port_of_a_cause_is_named():
    text = cluster.line("gpu01", 0, "mlx5_core 0000:3b:00.0 ens1f0np0: Link down")
    text += cluster.line("gpu01", 1, "ice 0000:41:00.0 ens2f0: NIC Link is Down")
    incident = last(diagnose_text(text))
    check(incident, cause="NET-LINK", next_has="timeout 5 ethtool ens1f0np0")
    assert incident["cause"]["subject"] == "ens1f0np0, ens2f0" and incident["cause"]["count"] == 2
    incident = last(diagnose_text(cluster.line("gpu01", 0, "mlx5_core 0000:3b:00.0: Link down")))
    check(incident, next_has="timeout 5 ethtool $(ls /sys/bus/pci/devices/0000:3b:00.0/net)")


def test_lower_layers_come_first():
    text = cluster.line(
        "gpu01", 0, "pcieport 0000:b8:01.0: pciehp: Slot(3): Link Down")
    text += cluster.line("gpu01", 1, "mlx5_core 0000:3b:00.0: poll_health:825:(pid 0): device's health "
                                     "compromised - reached miss count")
    text += cluster.line("gpu01", 2, "mlx5_core 0000:3b:00.0 ens1f0np0: Link down")
    text += cluster.gone("gpu01", 20, "scr-OST0000", A)
    text += cluster.gone("gpu01", 21, "scr-OST0004", C)
    incident = last(diagnose_text(text))
    check(incident, cause="PCI-HP", layer="hardware", scope="node")
    assert {part["row"] for part in incident["consequences"]} & {"PT-EXPIRE-SLOW", "IM-LOST-WAIT"}


def test_out_of_memory_makes_lustre_lines_collateral():
    text = cluster.line("gpu01", 0, "Out of memory: Killed process 4411 (python3) total-vm:98000000kB")
    text += cluster.gone("gpu01", 5, "scr-OST0000", A)
    check(last(diagnose_text(text)), cause="K-OOM", scope="node", nature="host")


def test_failover_is_told_from_the_new_address():
    text = ""
    for node in ("gpu01", "gpu02"):
        text += cluster.gone(node, 0, "scr-OST0000", A)
        text += cluster.restored(node, 60, "scr-OST0000", B)
    incident = last(diagnose_text(text))
    check(incident, scope="server", nature="server", data="delayed", self_healed=True,
          headline_has="192.0.2.12")


TIMED_OUT = "LNetError: 3122:0:(o2iblnd_cb.c:3386:kiblnd_check_conns()) Timed out RDMA with {} (5): c: 6, oc: 0, rc: 8"


def test_the_only_client_is_not_the_one_it_complains_of():
    """To an OSS, an MDS is a client, too."""
    mds = "192.0.2.20@o2ib"
    seen = cluster.healthy("gpu01", OLD, "scr-OST0000", A)
    dead = cluster.silent_client("oss1", 5, "scr-OST0001", "scr-MDT0000-mdtlov_UUID", mds)
    found = diagnose_text(seen + cluster.line("gpu01", 0, TIMED_OUT.format(mds)) + dead)
    assert f"{mds} is taken to be" not in english(found["assumptions"])
    check(last(found), scope="pair", element_has=mds)
    assert "fault of its own" not in last(found)["headline"]["en"]
    # Of somebody else: nothing speaks against it.
    found = diagnose_text(seen + cluster.line("gpu01", 0, TIMED_OUT.format(B)) + dead)
    assert f"{mds} is taken to be gpu01" in english(found["assumptions"])


def test_a_target_that_was_taken_over_was_not_lost_at_its_new_server():
    lost = cluster.gone("gpu01", 0, "scr-OST0001", A)
    started = cluster.line("oss2", 30, "Lustre: scr-OST0001: Will be in recovery for at least 2:30, or until 1 client reconnects")
    own = cluster.line("oss1", OLD, f"LNet: Added LNI {A} [8/256/0/180]")
    # The new server complains of the old one, however long before; or the old one's own log says whose address it is.
    for before in (cluster.line("oss2", 3, TIMED_OUT.format(A)), cluster.line("oss2", OLD, TIMED_OUT.format(A)),
                   own + cluster.line("oss2", 3, TIMED_OUT.format(A)), own):
        found = diagnose_text(before + lost + started)
        assert "is taken to be" not in english(found["assumptions"])
        incident = last(found)
        check(incident, cause="RC-START", scope="server", element_has=A, nature="server", next_has=f"timeout 5 lctl ping {A}",
              headline_has=f"scr-OST0001 moved from {A} to oss2")
        assert f"{A}에서 oss2" in incident["headline"]["ko"]
    # It complains of nobody, or of another: the address is its own as far as anybody knows.
    for before in ("", cluster.line("oss2", OLD, TIMED_OUT.format(B))):
        found = diagnose_text(before + lost + started)
        assert f"{A} is taken to be oss2" in english(found["assumptions"])
        check(last(found), scope="target", element_has="scr-OST0001", headline_has="scr-OST0001 restarted or was mounted again")
    # Another target was lost there.
    found = diagnose_text(own + lost + started.replace("OST0001", "OST0002"))
    assert "moved" not in last(found)["headline"]["en"]


def test_two_faults_at_once_are_two_incidents():
    text = known("gpu01", "gpu02", "gpu03", "gpu04")
    for node in ("gpu02", "gpu03", "gpu04"):
        text += cluster.gone(node, 0, "scr-OST0000", A, opcode=4)
    text += cluster.line("gpu01", 2, "mlx5_core 0000:3b:00.0 ens1f0np0: Link down")
    text += cluster.gone("gpu01", 10, "scr-OST0002", B)
    found = [incident for incident in diagnose_text(text)["incidents"]
             if not incident["self_healed"]]
    assert {incident["scope"] for incident in found} == {"target", "node"}


def test_the_same_trouble_days_apart_is_two_incidents():
    text = cluster.gone("gpu01", 0, "scr-OST0000", A) + cluster.restored("gpu01", 30, "scr-OST0000", A)
    later = 3 * 86400
    text += cluster.gone("gpu01", later, "scr-OST0000", A)
    text += cluster.restored("gpu01", later + 30, "scr-OST0000", A)
    assert len(diagnose_text(text)["incidents"]) == 2


def test_evicted_is_lost_and_waiting_is_not():
    waited = cluster.gone("gpu01", 0, "scr-OST0000", A) + cluster.restored("gpu01", 30, "scr-OST0000", A)
    incident = last(diagnose_text(waited))
    check(incident, data="delayed", self_healed=True, open=False)
    assert "nothing was evicted" in english(incident["data_reasons"])
    incident = last(diagnose_text(waited + cluster.evicted("gpu01", 29, "scr-OST0000")))
    check(incident, data="lost", urgency="critical")


def test_boots_are_not_one_story():
    """The same boot-relative second before and after a reboot has nothing in common."""
    text = "[   50.000001] Linux version 6.1.0-57-amd64\n"
    text += "[  100.000001] mlx5_core 0000:3b:00.0 ens1f0np0: Link down\n"
    text += "[    0.000000] Linux version 6.1.0-57-amd64\n"
    text += ("[  101.000001] Lustre: scr-OST0000-osc-ffff88100aa0000: Connection to scr-OST0000 (at "
             "192.0.2.11@o2ib) was lost; in progress operations using this service will wait for "
             "recovery to complete\n")
    found = diagnose_text(text, "--node", "gpu01")
    assert len(found["incidents"]) == 2
    assert found["incidents"][-1]["cause"]["row"] != "NET-LINK"


@pytest.mark.parametrize("nid", ["192.0.2.5@tcp;reboot", "$(reboot)@o2ib", "`id`@tcp", "-x@tcp"])
def test_nothing_from_a_log_reaches_a_command(nid):
    incident = last(diagnose_text(cluster.gone("gpu01", 0, "scr-OST0000", nid)))
    for bad in (";", "$(reboot)", "`", " -x@"):
        assert bad not in commands(incident).replace(" ; ", "").replace("$(hostname)", "")


# ---- Patterns in time, and what else fails. ----

def test_lost_and_back_at_once_is_no_link():
    text = ""
    for index in range(6):
        text += cluster.gone("gpu01", index * 203, "scr-OST003a", A, opcode=4, xid=index)
        text += cluster.restored("gpu01", index * 203 + 0.4, "scr-OST003a", A)
    incident = last(diagnose_text(text))
    check(incident, nature="server", evidence_has="back 6 times, each time within 1 s", avoid_has="cables",
          data="delayed", self_healed=True)
    assert "6 times, at the longest 1 s" in english(incident["data_reasons"])
    # Two of them, or longer ones, say nothing of the kind; each wait is still told by itself.
    text = ""
    for index in range(3):
        text += cluster.gone("gpu01", index * 250, "scr-OST003a", A)
        text += cluster.restored("gpu01", index * 250 + 40 + index, "scr-OST003a", A)
    incident = last(diagnose_text(text))
    assert "each time within" not in english(incident["evidence"])
    assert "3 times, at the longest 42 s" in english(incident["data_reasons"])


def test_a_link_that_broke_is_no_failed_request():
    text = ""
    for index in range(4):
        text += cluster.line("gpu01", index * 100, "mlx5_core 0000:3b:00.0 ens1f0np0: Link down")
        text += cluster.line("gpu01", index * 100 + 1, "mlx5_core 0000:3b:00.0 ens1f0np0: Link up")
        text += cluster.gone("gpu01", index * 100 + 2, "scr-OST0000", A)
        text += cluster.restored("gpu01", index * 100 + 3, "scr-OST0000", A)
    incident = last(diagnose_text(text))
    check(incident, cause="NET-LINK", nature="network", evidence_has="ens1f0np0 went down 4 times")
    assert "each time within" not in english(incident["evidence"])


def test_nfs_in_the_same_minute_accuses_the_nodes_network():
    nfs = cluster.line("gpu01", 2, "nfs: server 198.51.100.7 not responding, still trying")
    lost = cluster.gone("gpu01", 0, "scr-OST0000", A)
    check(last(diagnose_text(lost)), scope="unknown")
    incident = next(one for one in diagnose_text(nfs + lost)["incidents"] if one["cause"]["row"] != "NFS-NR")
    check(incident, scope="node", element_has="gpu01", nature="network", evidence_has="NFS server 198.51.100.7")
    later = cluster.line("gpu01", 200, "nfs: server 198.51.100.7 not responding, still trying")
    found = diagnose_text(lost + later)["incidents"]
    check(found[0], scope="unknown")
    check(found[1], headline_has="NFS server 198.51.100.7", next_has="ping -c 2 198.51.100.7")


def test_the_log_of_a_lost_server_that_says_nothing():
    text = cluster.line("oss1", -3000, "Lustre: Lustre: Build Version: 2.15.5")
    text += cluster.line("oss1", -2990, "LNet: Added LNI 192.0.2.11@o2ib [8/256/0/180]")
    text += lost_by(("gpu01", "gpu02"), (A,))
    check(last(diagnose_text(text)), scope="server", undecided_has="is here and says nothing of it")
    text += cluster.line("oss1", 1, "Lustre: scr-OST0000: Client 939243e4-2f54-a96f-3cbb-9fcf55426e2e (at "
                                    "192.0.2.101@o2ib) reconnecting")
    assert "says nothing" not in english(last(diagnose_text(text))["undecided"])


def test_the_same_hour_of_several_days():
    def at(days):
        return "".join(cluster.gone("gpu01", day * 86400 + 60 * day, "scr-OST0000", A) +
                       cluster.restored("gpu01", day * 86400 + 60 * day + 90, "scr-OST0000", A) for day in days)

    check(last(diagnose_text(at((0, 7, 14)))), evidence_has="3 incidents like this began at about the same time of day")
    assert "time of day" not in english(last(diagnose_text(at((0, 7))))["evidence"])
    assert "time of day" not in english(last(diagnose_text(at((0, 7.2, 14.5))))["evidence"])


def test_corrected_errors_are_a_warning_only_at_a_high_rate():
    def flood(count, apart):
        return "".join(cluster.line("gpu01", index * apart, "pcieport 0000:b9:01.0: AER: Corrected error received: "
                                    "0000:bb:00.0") for index in range(count))

    check(last(diagnose_text(flood(400, 1))), cause="PCI-AER-CORRECTED", scope="node", urgency="low",
          data="untouched", evidence_has="400 such messages in 6 min 39 s", users_has="Nothing says")
    assert diagnose_text(flood(400, 30))["incidents"] == [] and diagnose_text(flood(50, 1))["incidents"] == []
    # It explains nothing else on the node.
    assert last(diagnose_text(flood(200, 1) + cluster.gone("gpu01", 10, "scr-OST0000", A)))["cause"]["row"] != \
        "PCI-AER-CORRECTED"


def damaged(client, router):
    via = f" via {router}" if router else ""
    return cluster.line("oss1", client, f"LustreError: 168-f: scr-OST0012: BAD WRITE CHECKSUM: from "
                        f"12345-192.0.2.10{client}@o2ib{via} inode [0x200000401:0x5:0x0] object 0x0:1234 extent "
                        "[0-1048575]: client csum aa, server csum bb")


def test_damage_of_many_through_one_router():
    text = "".join(damaged(client, "192.0.2.251@tcp") for client in (1, 2, 3))
    check(last(diagnose_text(text)), scope="router", element_has="192.0.2.251", data="delayed",
          evidence_has="192.0.2.102@o2ib")
    assert last(diagnose_text(text + damaged(4, "")))["scope"] == "server"
    assert last(diagnose_text(text + damaged(4, "192.0.2.252@tcp")))["scope"] == "server"
    assert last(diagnose_text(damaged(1, "192.0.2.251@tcp")))["scope"] != "router"


def test_flushed_requests_are_no_cause():
    tx = ("LNet: 4021:0:(o2iblnd_cb.c:1072:kiblnd_tx_complete()) Tx -> 192.0.2.11@o2ib cookie 0x4a{} sending 1 "
          "waiting 0: failed {}")
    text = "".join(cluster.line("gpu01", index * 0.01, tx.format(index, 5)) for index in range(5))
    text += cluster.line("gpu01", 0.1, tx.format(9, 12)) + cluster.gone("gpu01", 3, "scr-OST0000", A)
    incident = last(diagnose_text(text))
    check(incident, cause="IB-TXFAIL", consequences_have="IB-TXFAIL")
    assert incident["cause"]["count"] == 1 and "failed 12" in incident["cause"]["lines"][0]


# ---- What the evidence says, each sentence where its rule holds and not where it does not. ----

def says(incident, field, sentence):
    return sentence in english(incident[field])


@pytest.mark.parametrize("kind, sentence", [("timed out for sent delay", "never left gpu01"),
                                            ("failed due to network error", "network error for 192.0.2.11@o2ib"),
                                            ("timed out for slow reply", "left gpu01 and no reply")])
def test_three_endings_of_a_request_are_three_sentences(kind, sentence):
    text = cluster.gone("gpu01", 0, "scr-OST0000", A, kind)
    every = ("never left gpu01", "network error for 192.0.2.11@o2ib", "left gpu01 and no reply")
    evidence = english(last(diagnose_text(text))["evidence"])
    assert [one for one in every if one in evidence] == [sentence]


def test_pings_first_means_that_it_began_earlier():
    ping = cluster.gone("gpu01", 0, "scr-OST0000", A, opcode=400)
    write = cluster.gone("gpu01", 0, "scr-OST0000", A, opcode=4)
    assert says(last(diagnose_text(ping)), "evidence", "30 s older")
    assert not says(last(diagnose_text(write)), "evidence", "30 s older")


def test_servers_that_nobody_lost_speak_against_the_fabric():
    nodes = ("gpu01", "gpu02", "gpu03")
    incident = last(diagnose_text(known(*nodes) + lost_by(nodes, (A, B))))
    check(incident, scope="fabric")
    assert says(incident, "contrary", f"not lost by anybody: {C}")
    assert not says(last(diagnose_text(known(*nodes) + lost_by(nodes))), "contrary", "not lost by anybody")


def test_only_one_target_of_a_server_is_known():
    text = "".join(cluster.gone(node, 0, "scr-OST0000", A) for node in ("gpu01", "gpu02", "gpu03"))
    incident = last(diagnose_text(text))
    check(incident, scope="server", undecided_has="whether other targets of")
    assert says(incident, "contrary", "Only one target of")


RECONNECTING = ("Lustre: scr-OST0000: Client 939243e4-2f54-a96f-3cbb-9fcf55426e2e (at 192.0.2.101@o2ib) "
                "reconnecting")


def test_a_server_that_took_a_client_back_was_up():
    text = cluster.line("oss1", -2990, "LNet: Added LNI 192.0.2.11@o2ib [8/256/0/180]")
    text += known("gpu02", "gpu03") + cluster.gone("gpu01", 0, "scr-OST0000", A)
    assert not says(last(diagnose_text(text)), "evidence", "so it was up")
    incident = last(diagnose_text(text + cluster.line("oss1", 1, RECONNECTING)))
    check(incident, scope="pair")
    assert says(incident, "evidence", "so it was up")


def test_one_fault_of_many_nodes():
    """Each lost its own link, and all of them lost the same server: it is not the server."""
    def down(*ill, well=()):
        text = "".join(cluster.line(node, 0, "mlx5_core 0000:3b:00.0 ens1f0np0: Link down") for node in ill)
        return text + "".join(cluster.gone(node, 10, "scr-OST0000", A) for node in (*ill, *well))

    incident = last(diagnose_text(down("gpu01", "gpu02", "gpu03", "gpu04")))
    check(incident, cause="NET-LINK", scope="fabric", evidence_has="4 nodes report it")
    incident = last(diagnose_text(down("gpu01", "gpu02")))
    check(incident, cause="NET-LINK", scope="node")
    assert says(incident, "contrary", "2 nodes have the same fault")
    # Nodes that are well and lost it too accuse the server.
    incident = last(diagnose_text(down("gpu01", well=("gpu02", "gpu03"))))
    check(incident, scope="server", element_has="192.0.2.11")


def test_stopped_on_purpose_after_its_disk_failed():
    text = cluster.line("oss1", 0, "LDISKFS-fs (dm-3): Remounting filesystem read-only")
    text += cluster.line("oss1", 60, "Lustre: Failing over scr-OST0000")
    text += cluster.gone("gpu01", 65, "scr-OST0000", A)
    incident = diagnose_text(text)["incidents"][0]
    check(incident, cause="BE-RDONLY", nature="storage", planned=False)
    assert says(incident, "contrary", "stopped on purpose too")


def test_one_server_alone_cannot_tell_itself_from_its_clients():
    text = "".join(cluster.silent_client("oss1", index, "scr-OST0000", f"9392430{index}-2f54-a96f",
                                         f"192.0.2.{100 + index}@o2ib") for index in range(5))
    check(last(diagnose_text(text)), scope="unknown", undecided_has="any second server", confidence="low")


def test_one_request_may_wait_for_its_client():
    late = ("Lustre: 7781:0:(service.c:2344:ptlrpc_server_handle_request()) @@@ Request took longer than estimated "
            "(109/12s); client may timeout  req@ffff88 x{}/t0(0) o4->939243e4-2f54-a96f-3cbb-9fcf55426e2e@"
            "192.0.2.105@o2ib:6/4 lens 488/448 e 0 to 0 dl 1736957913 ref 1 fl Complete:/0/0 rc 0/0")
    incident = last(diagnose_text(cluster.line("oss1", 0, late.format(1))))
    assert says(incident, "contrary", "one request of 192.0.2.105@o2ib")
    text = "".join(cluster.line("oss1", index, late.format(index)) for index in range(1, 6))
    assert not says(last(diagnose_text(text)), "contrary", "one request of")


def test_a_slow_server_that_waits_for_a_broken_client():
    text = cluster.line("gpu05", -2990, "LNet: Added LNI 192.0.2.105@o2ib [8/256/0/180]")
    text += cluster.line("gpu05", 0, "Out of memory: Killed process 4411 (python3) total-vm:98000000kB")
    text += cluster.line("oss1", 20, "Lustre: scr-OST0000: Client 939243e4-2f54-a96f-3cbb-9fcf55426e2e (at "
                                     "192.0.2.105@o2ib) refused connection, still busy with 5 references")
    found = diagnose_text(text)
    assert len(found["incidents"]) == 1
    check(last(found), cause="K-OOM", element_has="gpu05")


def test_evictions_of_one_server_at_once_are_one_story():
    text = "".join(cluster.silent_client("oss1", index, f"scr-OST000{index}", f"9392430{index}-2f54-a96f",
                                         f"192.0.2.{100 + index}@o2ib") for index in range(3))
    assert len(diagnose_text(text)["incidents"]) == 1


def test_a_limiter_swallowed_the_end_of_a_loss():
    """Two targets of one server came back; the line of one was skipped, and counted."""
    text = cluster.gone("gpu01", 0, "scr-OST0000", A) + cluster.gone("gpu01", 0.1, "scr-OST0001", A)
    text += cluster.restored("gpu01", 30, "scr-OST0000", A)
    incident = last(diagnose_text(text))
    check(incident, open=True, data="unknown")
    text += cluster.line("gpu01", 31, "Lustre: Skipped 1 previous similar message")
    check(last(diagnose_text(text)), open=False, data="delayed")


# ---- With a table of hosts. ----

HOSTS = f"""# NID HOST ROLE [RACK]
{A}  oss1 oss r1
{B}  oss2 OSS r1   # the next shelf
{C}  oss3 oss r2

192.0.2.101@o2ib gpu01 client r7
192.0.2.102@o2ib gpu02 client r7
192.0.2.103@o2ib gpu03 client r8
192.0.2.251@o2ib rtr1 router
"""


def with_hosts(tmp_path, text, hosts=HOSTS):
    path = tmp_path / "hosts.txt"
    path.write_text(hosts)
    return diagnose_text(text, "--hosts", path)


def lost_by(nodes, servers=(A, B, C)):
    return "".join(cluster.gone(node, index, f"scr-OST000{index * 2}", nid)
                   for node in nodes for index, nid in enumerate(servers))


def test_nids_get_the_names_of_hosts(tmp_path):
    text = known("gpu01", "gpu02", "gpu03")
    for node in ("gpu01", "gpu02", "gpu03"):
        text += cluster.gone(node, 0, "scr-OST0000", A) + cluster.gone(node, 1, "scr-OST0001", A)
    check(last(with_hosts(tmp_path, text)), scope="server", element_has=f"oss1 ({A})")


def test_one_rack(tmp_path):
    text = known("gpu01", "gpu02", "gpu03") + lost_by(("gpu01", "gpu02"))
    check(last(with_hosts(tmp_path, text)), scope="rack", element_has="r7", nature="network",
          evidence_has="gpu03", headline_has="r7", avoid_has="Do not reboot clients",
          next_has="ibqueryerrors")
    # Without the table, or when a host of another rack complains too, it is the fabric.
    check(last(diagnose_text(text)), scope="fabric")
    text += lost_by(("gpu03",))
    check(last(with_hosts(tmp_path, text)), scope="fabric")


def test_one_rack_needs_a_log_from_elsewhere(tmp_path):
    text = known("gpu01", "gpu02") + lost_by(("gpu01", "gpu02"))
    check(last(with_hosts(tmp_path, text)), scope="fabric", undecided_has="r7")


def test_one_rack_of_servers(tmp_path):
    text = known("gpu01", "gpu02", "gpu03") + lost_by(("gpu01", "gpu02", "gpu03"), (A, B))
    check(last(with_hosts(tmp_path, text)), scope="rack", element_has="r1", evidence_has="oss3")
    elsewhere = HOSTS.replace("oss2 OSS r1", "oss2 OSS r3")
    check(last(with_hosts(tmp_path, text, elsewhere)), scope="fabric")


def router_fails(node, nid):
    return cluster.line(node, 0, "LNetError: 2210:0:(o2iblnd_cb.c:3319:kiblnd_check_conns()) Timed out RDMA "
                                 f"with {nid} (5): c: 8, oc: 0, rc: 8")


def test_a_router(tmp_path):
    text = known("gpu01", "gpu02", "gpu03")
    text += "".join(router_fails(node, "192.0.2.251@o2ib") for node in ("gpu01", "gpu02", "gpu03"))
    text += lost_by(("gpu01", "gpu02", "gpu03"))
    check(last(with_hosts(tmp_path, text)), scope="router", element_has="rtr1 (192.0.2.251@o2ib)",
          nature="network", evidence_has="is a router", avoid_has="Do not reboot clients")
    # A server named on the wire as well: not only the router.
    text += router_fails("gpu01", A)
    assert last(with_hosts(tmp_path, text))["scope"] != "router"


@pytest.mark.parametrize("line, says", [
    ("nonsense", "is no NID"), ("192.0.2.1@o2ib", "is no host name"), ("192.0.2.1@o2ib oss1", "the role is"),
    ("192.0.2.1@o2ib oss1 boss", "the role is"), ("192.0.2.1@o2ib oss1 oss r1 r2", "more than NID"),
    ("192.0.2.1@o2ib oss1 oss\0", "not a text file")])
def test_tables_that_are_wrong(tmp_path, line, says):
    path = tmp_path / "hosts.txt"
    path.write_text("# a comment\n" + line + "\n")
    done = run("--hosts", path, "-", stdin=b"", expect=(2,))
    assert says in done.stderr.decode() and str(path) in done.stderr.decode()
    assert "\0" in line or ":2:" in done.stderr.decode()


def test_names_of_the_table_are_hidden(tmp_path):
    path = tmp_path / "hosts.txt"
    path.write_text(HOSTS.replace("oss1", "storagebox").replace("r7", "basement"))
    text = known("gpu01", "gpu02", "gpu03") + lost_by(("gpu01", "gpu02"))
    done = run("--hosts", path, "--anonymise", "-", stdin=text.encode())
    assert b"storagebox" in run("--hosts", path, "-", stdin=text.encode()).stdout
    assert b"storagebox" not in done.stdout and b"basement" not in done.stdout


# ---- With pasted state. ----

def imports(targets):
    """What `lctl get_param *.*.import` prints of them."""
    text = ""
    for target, nid, partner in targets:
        text += (f"osc.{target}-osc-ffff88100aa0000.import=\nimport:\n    name: {target}-osc-ffff88100aa0000\n"
                 f"    target: {target}_UUID\n    state: FULL\n    connect_flags: [ write_grant ]\n    connection:\n"
                 f"       failover_nids: [ \"{nid}\", \"{partner}\" ]\n       current_connection: \"{nid}\"\n"
                 "       connection_attempts: 1\n")
    return text


def test_pasted_imports_tell_a_target_from_its_server():
    text = "".join(cluster.healthy(node, OLD, "scr-MDT0000", C) for node in ("gpu01", "gpu02", "gpu03"))
    lost = "".join(cluster.gone(node, 0, "scr-OST0000", A, opcode=4) for node in ("gpu01", "gpu02", "gpu03"))
    check(last(diagnose_text(text + lost)), scope="server", undecided_has="192.0.2.11")
    state = imports((("scr-OST0000", A, B), ("scr-OST0001", A, B)))
    found = diagnose_text(text + state + lost)
    check(last(found), scope="target", element_has="scr-OST0000", nature="storage",
          evidence_has="scr-OST0001")
    nids = {target["name"]: target["nids"] for target in found["targets"]}
    assert set(nids["scr-OST0001"]) == {A, B}
    assert len(found["incidents"]) == len(diagnose_text(text + lost)["incidents"])


def test_pieces_of_state_are_nothing():
    found = diagnose_text("    target: nonsense\n    current_connection: 192.0.2.11@o2ib\n"
                          "    current_connection: 192.0.2.12@o2ib\n    target: scr-OST0000_UUID\n"
                          + cluster.line("gpu01", 0, "usb 1-1: text") +
                          "    current_connection: 192.0.2.13@o2ib\n")
    assert found["targets"] == [] and found["incidents"] == []


NET = """net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
    - net type: o2ib
      local NI(s):
        - nid: {own}
          status: {status}
          interfaces:
              0: ib0
          statistics:
              send_count: 12
              drop_count: 3
          health stats:
              fatal_error: {fatal}
              network timeout: 3
              error: 9
              health value: 1000
          tunables:
              peer_timeout: 180
              lnd tunables:
                  peercredits_hiw: 4
          dev cpt: 0
          CPT: "[0,1]"
"""
PEERS = """peer:
    - primary nid: {a}
      Multi-Rail: True
      peer ni:
        - nid: {a}
          state: up
        - nid: {b}
          state: down
          max_ni_tx_credits: 8
          health stats:
              health value: 0
    - primary nid: 192.0.2.77@o2ib
      Multi-Rail: False
      peer ni:
        - nid: 192.0.2.77@o2ib
          state: NA
"""
ROUTES = """route:
    - net: tcp1
      gateway: {router}
      hop: -1
      priority: 0
      health_sensitivity: 1
      state: {state}
      type: single-hop
"""
DF = """UUID                   1K-blocks        Used   Available Use% Mounted on
scr-MDT0000_UUID         1165900       10140     1050984   1% /mnt/scr[MDT:0]
scr-OST0000_UUID         3865944     3865900          44 100% /mnt/scr[OST:0]
OST0001             : inactive device
scr-OST0002_UUID    : Resource temporarily unavailable
scr-OST0003_UUID         3865944       44000     3600000   2% /mnt/scr[OST:3]

filesystem_summary:      7731888     3909900     3600044  52% /mnt/scr

"""


def states(found):
    return {(state["kind"], state["subject"], state["state"], state["bad"]) for state in found["states"]}


def test_dumps_of_lnet_are_read_and_quoted():
    lost = cluster.gone("gpu01", 0, "scr-OST0000", A) + cluster.gone("gpu01", 1, "scr-MDT0000", C)
    dumps = (NET.format(own="192.0.2.101@o2ib", status="down", fatal=0)
             + PEERS.format(a=A, b="198.51.100.11@o2ib1")
             + ROUTES.format(router="192.0.2.251@o2ib", state="down"))
    found = diagnose_text(lost + dumps, "--node", "gpu01")
    assert states(found) == {("net", "192.0.2.101@o2ib", "down", True), ("peer", A, "up", False),
                             ("peer", "198.51.100.11@o2ib1", "down", True),
                             ("route", "192.0.2.251@o2ib", "down", True)}
    one = last(found)
    check(one, evidence_has="its own NID 192.0.2.101@o2ib is “down”")
    check(one, evidence_has="the peer NID 198.51.100.11@o2ib1 is “down”")
    check(one, evidence_has="the router 192.0.2.251@o2ib is “down”")
    check(one, evidence_has="standard input:")
    assert "“up”" not in english(one["evidence"])
    # Never an event: nothing of it counts as an error-looking line or as an incident of its own.
    plain = diagnose_text(lost, "--node", "gpu01")
    assert len(found["incidents"]) == len(plain["incidents"]) and one["cause"] == last(plain)["cause"]
    assert found["coverage"]["error_looking"] == plain["coverage"]["error_looking"]
    assert diagnose_text(dumps, "--node", "gpu01")["incidents"] == []
    done = run("--node", "gpu01", "-", stdin=dumps.encode())
    assert b"State among the inputs" in done.stdout and b"192.0.2.251@o2ib" in done.stdout
    for words in ["--markdown"], ["--markdown", "--lang", "ko"]:
        assert b"192.0.2.251@o2ib" in run(*words, "--node", "gpu01", "-", stdin=dumps.encode()).stdout
    hidden = run("--anonymise", "--json", "--node", "gpu01", "-", stdin=(lost + dumps).encode()).stdout
    assert b"192.0.2" not in hidden and b"198.51.100" not in hidden


def behind_prefixes(outputs):
    """What pdsh prints of several nodes: their lines in turn, each behind the node's name."""
    lines = {node: text.splitlines() for node, text in outputs.items()}
    longest = max(map(len, lines.values()))
    return "".join(f"{node}: {some[index]}\n" for index in range(longest)
                   for node, some in lines.items() if index < len(some))


def test_dumps_behind_prefixes_are_of_their_nodes():
    net = {f"gpu0{i}": NET.format(own=f"192.0.2.10{i}@o2ib", status="down" if i == 2 else "up", fatal=0)
           for i in range(1, 5)}
    found = diagnose_text(behind_prefixes(net))
    assert {(state["node"], state["subject"], state["state"]) for state in found["states"]} == {
        (f"gpu0{i}", f"192.0.2.10{i}@o2ib", "down" if i == 2 else "up") for i in range(1, 5)}
    assert {node["name"] for node in found["nodes"]} == set(net) and found["incidents"] == []
    mixed = {"gpu01": DF, "gpu02": imports((("scr-OST0000", A, B),)).replace("FULL", "DISCONN"),
             "gpu03": PEERS.format(a=A, b="198.51.100.11@o2ib1"),
             "gpu04": ROUTES.format(router="192.0.2.251@o2ib", state="down")}
    found = diagnose_text(behind_prefixes(mixed))
    assert {(state["node"], state["kind"], state["subject"]) for state in found["states"] if state["bad"]} == {
        ("gpu01", "df", "scr-OST0000"), ("gpu01", "df", "scr-OST0001"), ("gpu01", "df", "scr-OST0002"),
        ("gpu02", "import", "scr-OST0000"), ("gpu03", "peer", "198.51.100.11@o2ib1"),
        ("gpu04", "route", "192.0.2.251@o2ib")}


def test_logs_between_prefixed_dumps():
    """One node's log does not end the dump of another; its own does."""
    dump = ROUTES.format(router="192.0.2.251@o2ib", state="down").splitlines()
    log = "gpu02: [ 5000.000001] usb 1-1: new device\n"
    found = diagnose_text("".join(f"gpu01: {line}\n{log}" for line in dump))
    assert states(found) == {("route", "192.0.2.251@o2ib", "down", True)}
    cut = "".join(f"gpu01: {line}\n" for line in dump[:3]) + log.replace("gpu02", "gpu01")
    assert states(diagnose_text(cut + "".join(f"gpu01: {line}\n" for line in dump[3:]))) == set()


def test_a_key_is_no_prefix():
    """"status: up" of a dump without prefixes is of no node called status, whatever else is there."""
    text = (NET.format(own="192.0.2.101@o2ib", status="down", fatal=0)
            + "gpu07: State: Down\ngpu08: net:\n" + cluster.line("oss1", 0, "usb 1-1: text"))
    found = diagnose_text(text, "--node", "gpu01")
    assert {node["name"] for node in found["nodes"]} <= {"gpu01", "gpu08", "oss1"}
    assert states(found) == {("net", "192.0.2.101@o2ib", "down", True)}


def test_ibstat_behind_prefixes():
    port = "CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: {}\n\t\tPhysical state: {}\n"
    text = behind_prefixes({"gpu01": port.format("Active", "LinkUp"), "gpu02": port.format("Down", "Polling")})
    incident = last(diagnose_text(text))
    check(incident, cause="IB-PORT-STATE", scope="node", element_has="gpu02")


def test_healthy_dumps_say_nothing():
    found = diagnose_text(NET.format(own="192.0.2.101@o2ib", status="up", fatal=0)
                          + ROUTES.format(router="192.0.2.251@o2ib", state="up"), "--node", "gpu01")
    assert found["incidents"] == [] and not any(state["bad"] for state in found["states"])
    assert b"State among" not in run("--node", "gpu01", "-", stdin=NET.format(
        own="192.0.2.101@o2ib", status="up", fatal=0).encode()).stdout
    fatal = diagnose_text(NET.format(own="192.0.2.101@o2ib", status="up", fatal=1), "--node", "gpu01")
    assert ("net", "192.0.2.101@o2ib", "fatal_error", True) in states(fatal)


@pytest.mark.parametrize("dump", [
    NET.format(own="192.0.2.11@o2ib", status="up", fatal=0),
    "oss1# lctl list_nids\n192.0.2.11@o2ib\n198.51.100.11@tcp\n",
])
def test_own_nids_say_whose_log_is_which(dump, tmp_path):
    """A server's log names no NID of its own; with the dump the clients' NID and its log are one host."""
    clients = "".join(cluster.gone(node, 0, "scr-OST0000", A, opcode=4) for node in ("gpu01", "gpu02", "gpu03"))
    clients += "".join(cluster.gone(node, 0.5, "scr-OST0005", B, opcode=4) for node in ("gpu01", "gpu02", "gpu03"))
    other = cluster.line("oss1", -3000, "Lustre: Lustre: Build Version: 2.15.5")
    other += cluster.line("oss2", -3000, "Lustre: Lustre: Build Version: 2.15.5")
    (tmp_path / "clients.log").write_text(clients)
    (tmp_path / "servers.log").write_text(other)
    (tmp_path / "oss1.txt").write_text(dump)
    found = diagnose(tmp_path)
    told = {node["name"]: node for node in found["nodes"]}
    assert told["oss1"]["role"] == "server"
    (tmp_path / "oss1.txt").unlink()
    assert {node["name"]: node for node in diagnose(tmp_path)["nodes"]}["oss1"]["role"] != "server"


def test_lfs_df_names_targets_that_are_missing_or_full():
    found = diagnose_text(cluster.gone("gpu01", 0, "scr-OST0002", A) + DF, "--node", "gpu01")
    assert states(found) == {("df", "scr-OST0000", "full", True), ("df", "scr-OST0001", "inactive device", True),
                             ("df", "scr-OST0002", "Resource temporarily unavailable", True)}
    check(last(found), evidence_has="lfs df on gpu01: scr-OST0002 is")
    assert "scr-OST0000" not in english(last(found)["evidence"])


def test_imports_that_are_not_connected():
    state = imports((("scr-OST0000", A, B),)).replace("state: FULL", "state: DISCONN")
    found = diagnose_text(state + cluster.gone("gpu01", 0, "scr-OST0000", A), "--node", "gpu01")
    assert states(found) == {("import", "scr-OST0000", "DISCONN", True)}
    check(last(found), evidence_has="the connection to scr-OST0000 is DISCONN")


def test_state_within_a_log_does_not_swallow_it():
    """A dump ends where the log goes on, with and without stamps."""
    text = (ROUTES.format(router="192.0.2.251@o2ib", state="up")
            + "LustreError: 166-1: MGC192.0.2.5@o2ib: Connection to MGS (at 192.0.2.5@o2ib) was lost; in progress "
              "operations using this service will fail\n" + DF.replace("filesystem_summary", "x")
            + cluster.gone("gpu01", 0, "scr-OST0002", A))
    found = diagnose_text(text, "--node", "gpu01")
    assert {"IM-LOST-FAIL", "IM-LOST-WAIT"} <= rows(found)
