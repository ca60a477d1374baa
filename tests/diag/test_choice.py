"""What decides between two scopes that both have something for them."""
import pytest

import cluster
from diagnosis import check, diagnose_text, english
from test_scope import A, B, HOSTS, OLD, known, last, lost_by, router_fails, with_hosts

DOWN = "mlx5_core 0000:3b:00.0 ens1f0np0: Link down"


def recovers(*evicted):
    """oss1 has the target again, and nobody came back to it."""
    text = cluster.line("oss1", 0, "Lustre: scr-OST0000: Will be in recovery for at least 5:00, or until 2 clients reconnect")
    return text + cluster.line("oss1", 200, "Lustre: scr-OST0000: Recovery over after 3:20, of 2 clients 0 recovered and 2 were "
                                            "evicted.")


def test_nobody_came_back_says_nothing_where_a_client_says_why():
    check(last(diagnose_text(recovers())), scope="fabric", headline_has="None of the 2 clients")
    incident = last(diagnose_text(known("gpu01", "gpu02") + cluster.gone("gpu01", -5, "scr-OST0000", A) + recovers()))
    check(incident, scope="target", element_has="scr-OST0000", headline_has="restarted", consequences_have="RC-OVER-EVICTED")


def test_one_silent_server_of_two_is_not_a_node_that_is_cut_off():
    answered = cluster.line("gpu01", 1, f"LustreError: {cluster.client_device('scr-OST0000')}: operation ost_write to node {B} "
                                        "failed: rc = -5")
    text = known("gpu01", "gpu02") + cluster.gone("gpu01", 0, "scr-OST0000", A)
    check(last(diagnose_text(text + answered)), scope="unknown", nature="server", undecided_has=B)
    check(last(diagnose_text(text + cluster.gone("gpu01", 1, "scr-OST0002", B))), scope="node", element_has="gpu01",
          evidence_has="gpu01 lost 2 servers")


@pytest.mark.parametrize("second, scope", [(251, "router"), (252, "fabric")])
def test_two_routers_are_no_one_router(tmp_path, second, scope):
    nodes = ("gpu01", "gpu02", "gpu03")
    text = known(*nodes) + lost_by(nodes)
    text += "".join(router_fails(node, f"192.0.2.{nid}@o2ib") for node, nid in zip(nodes, (251, second, 251)))
    check(last(with_hosts(tmp_path, text, HOSTS + "192.0.2.252@o2ib rtr2 router\n")), scope=scope)


@pytest.mark.parametrize("late, storage", [(1, True), (19, True), (25, False), (250, False)])
def test_storage_that_failed_long_after_the_loss_is_not_what_was_lost_by_it(late, storage):
    """cause_late_sec is 20."""
    disk = cluster.line("oss1", late, "blk_update_request: I/O error, dev sdb, sector 1234 op 0x1:(WRITE) flags 0x0 phys_seg 1 "
                                      "prio class 0")
    disk += cluster.line("oss1", late + 0.1, "LustreError: 1:0:(x.c:1:f()) scr-OST0000: rc = -5: failed to start transaction")
    known_as = cluster.line("oss1", OLD, "Lustre: scr-OST0000: Connection restored to 192.0.2.101@o2ib (at 192.0.2.101@o2ib)")
    incident = last(diagnose_text(known("gpu01", "gpu02") + known_as + cluster.lost("gpu01", 0, "scr-OST0000", A) + disk))
    check(incident, scope="target" if storage else "server", nature="storage" if storage else "server")


@pytest.mark.parametrize("late, own", [(-5, True), (19, True), (25, False), (100, False)])
def test_a_link_that_failed_long_after_the_loss_is_not_what_it_was_lost_by(late, own):
    incident = last(diagnose_text(known("gpu01", "gpu02") + cluster.lost("gpu01", 0, "scr-OST0000", A)
                                  + cluster.line("gpu01", late, DOWN)))
    assert (incident["scope"] == "node") == own, incident["scope"]


@pytest.mark.parametrize("operation, rc, partner", [("ost_connect", -19, True), ("ost_connect", -16, False),
                                                    ("ost_write", -19, False)])
def test_an_answer_of_the_ha_partner_is_one(operation, rc, partner):
    """A client that looks for a lost target asks where it may be, and is told that it is not there."""
    asked = cluster.line("gpu01", 5, f"LustreError: {cluster.client_device('scr-OST0000')}: operation {operation} to node {B} "
                                     f"failed: rc = {rc}")
    incident = last(diagnose_text(known("gpu01", "gpu02") + cluster.gone("gpu01", 0, "scr-OST0000", A) + asked))
    assert ("HA partner" in english(incident["evidence"])) == partner


def test_cables_are_spared_where_they_are_not_it():
    def spared(incident):
        return "Do not replace cables" in english(incident["avoid"])

    route = "LNetError: 4021:0:(lib-move.c:2302:lnet_handle_find_routed_path()) no route to 198.51.100.9@o2ib1 from <?>"
    config = last(diagnose_text(cluster.line("gpu01", 0, route)))
    assert config["nature"] == "config" and spared(config)
    network = last(diagnose_text(known("gpu01", "gpu02") + cluster.line("gpu01", 0, DOWN)
                                 + cluster.gone("gpu01", 1, "scr-OST0000", A)))
    assert network["nature"] == "network" and not spared(network)


def test_three_clients_are_pinged_and_no_more():
    gone = "".join(cluster.silent_client("oss1", i, "scr-OST0000", f"{i:08x}-1111-2222-3333-444444444444", f"192.0.2.10{i}@o2ib")
                   for i in range(1, 6))
    incident = last(diagnose_text(gone))
    pings = [step["command"] for step in incident["next"] if "lctl ping" in step["command"]]
    assert len(incident["nids"]) == 5 and len(pings) == 3
