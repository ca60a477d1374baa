"""Failures that became public, each with the cause that its source gives (cases/public; the log lines
are re-created). Every case states cause, scope and next step; what the logs cannot tell must be said.
"""
import pytest

from diagnosis import PUBLIC, check, diagnose, is_bounded

# name: what the one incident must say; a list when there are several
EXPECTED = {
    # Chronic: the first MGS of an HA pair has been down for days; the partner forgot the client once.
    "M-JADE": [
        dict(cause="IB-TXTIMEOUT-PEER", scope="mgs", element_has="192.0.2.87@o2ib", urgency="low",
             next_has="lctl ping 192.0.2.87@o2ib"),
        dict(cause="PT-STATUS", scope={"unknown", "server"}, data="delayed", urgency="low",
             self_healed=True, undecided_has="192.0.2.88@o2ib"),
    ],
    # The IB port of oss1 was disabled; the move of its targets is what followed.
    "M-IBPORT": dict(cause="CL-RING", scope="server", element_has="oss1", nature="network",
                     consequences_have="TG-FAILOVER", planned=False),
    # Page sizes of client and server differ: software on both ends, not the network.
    "M-CSCS": dict(cause="LN-TOOBIG", scope="software", nature="software",
                   element_has="192.0.2.43@tcp", headline_has="network is not at fault",
                   avoid_has="cables", evidence_has="the number of the same request"),
    "M-EVICTEDNS": dict(scope="unknown", data="lost", headline_has="evicted",
                        undecided_has="192.0.2.5@tcp"),
    "M-CORTX": dict(cause="MOD-SYMBOL", scope="node", nature="software", avoid_has="cables"),
    "M-RBD5": dict(cause={"BE-SCSI", "BE-MOUNT"}, scope="target", nature="storage",
                   element_has="st_nas-OST0008"),
    "M-SLOWCASC": dict(cause="PT-EXPIRE-SLOW", scope="unknown",
                       undecided_has="192.0.2.173@tcp", evidence_has="no reply came back"),
    "M-DENY112": dict(scope="fabric", data="lost", headline_has="None of the 112 clients",
                      undecided_has="any client"),
    "M-MGC5": dict(cause="MG-CONFFAIL", scope="mgs", element_has="90@kfi",
                   next_has="lctl ping 90@kfi"),
    "M-MAPMR": dict(cause="IB-MAP", scope="node", nature="software"),
    "M-ESTALE": dict(cause="PT-STATUS", scope="software", headline_has="race in software"),
    # -19 from the HA partner is normal; the first loss is what to look for.
    "M-ENODEVLOOP": dict(cause={"IM-LOST-WAIT", "IM-EVICTED"}, scope="unknown", data="lost",
                         undecided_has="192.0.2.21@o2ib", evidence_has="normal for the HA partner"),
    "M-ROCECM": dict(cause="IB-TXTIMEOUT-PEER", scope="server", element_has="192.0.2.9@o2ib",
                     next_has="lctl ping 192.0.2.9@o2ib"),
    "M-FW": dict(cause="PT-EXPIRE-NET", scope="mgs", element_has="192.0.2.47@tcp",
                 undecided_has="firewall", next_has="timeout 5 lctl ping 192.0.2.47@tcp"),
    "M-OSSOFF": dict(cause={"K-BOOT", "RC-START"}, scope="server", element_has="oss1",
                     nature="server", avoid_has="Do not reboot clients"),
    "M-EFA": dict(cause="EF-CANCEL", scope="node", nature="network", undecided_has="second client"),
    "M-FSXCHG": dict(scope="server", data="delayed", headline_has="192.0.2.7@tcp",
                     self_healed=True, urgency="low"),
    "M-FSXMAINT": dict(scope="server", element_has="192.0.2.10@tcp", data="lost",
                       users_has="fx1-OST0021 (index 33)", avoid_has="Do not reboot clients"),
    "M-BOOT16": dict(scope="server", element_has="192.0.2.20@tcp", urgency="low",
                     headline_has="before the servers were ready"),
    "M-BOOTRACE": dict(cause="MG-PROCFAIL", scope="mgs", element_has="192.0.2.251@o2ib",
                       urgency="low"),
    "M-ABORTRECOV": dict(cause="RC-DENY-MDT", scope="config", element_has="compute4", consequences_have="RC-START"),
    "M-WRONGKERNEL": [
        dict(cause="MOD-MISSING", scope={"node", "server"}, element_has="compute2",
             nature="software"),
        dict(scope="unknown", undecided_has="192.0.2.12@o2ib"),
    ],
    "M-ZPOOL": dict(cause={"BE-SCSI", "BE-DISK", "BE-ZPOOL"}, scope="target", nature="storage",
                    element_has="OST0015", avoid_has="zpool clear"),
    "M-NOIF": dict(cause="IB-STARTUP", scope="node", nature="config"),
    "M-ICFG": dict(cause="IM-LOST-FAIL", scope="mgs", element_has="192.0.2.1@tcp",
                   users_has="hung"),
    "M-MNT108": dict(cause="MT-USER", scope="mgs", undecided_has="lctl ping"),
    "M-MGSRUN": dict(cause="MT-USER", scope="mgs", undecided_has="lctl ping"),
    "M-ATMAX": dict(cause={"SV-INACTIVE", "CN-BUSY"}, scope="server", element_has="oss1",
                    data="lost", avoid_has="Do not reboot clients"),
    "M-ONENODE": dict(cause="PT-EXPIRE-SLOW", scope="unknown", undecided_has="second client",
                      users_has="a2wbl-OST0012 (index 18)",
                      next_has="timeout 5 lctl ping 192.0.2.105@o2ib"),
    "M-WAITCLIENTS": dict(cause="MG-NOMGSNID", scope="config"),
    "M-5477": dict(cause="ML-CMDENT", scope="node", nature="software"),
    "M-MCASTMAC": dict(cause={"ML-CMDERR", "IBC-GID"}, scope="node", nature="config"),
    "M-MACCHG": dict(cause="IBC-GID", scope="node", nature="config"),
    "M-CMDESTROY": dict(cause={"ML-TXTO", "IBC-CMDESTROY"}, scope="node", element_has="lab64"),
    "M-IRDMA401": dict(cause="IR-AE", scope="node", nature="software"),
    "M-IRDMARESET": dict(cause="IR-CRIT", scope="node", nature="hardware", consequences_have="K-PANIC"),
    "M-ICEBOND": dict(cause="ICE-BOND", scope="node", nature="config"),
    "M-BNXT": dict(cause="BN-QPLIB", scope="node", nature="hardware"),
    "M-CX7POWER": dict(cause="ML-CMDTO", scope="node", nature="hardware", consequences_have="ML-UNPLUGGED"),
    "M-GIDIDX": dict(cause="APP-WC", scope="pair"),
    "M-NFSRDMA": dict(cause={"MIB-CQE", "MIB-CQE-HEX"}, scope={"pair", "software"}),
    "M-BAR1": dict(cause="IB-UMEM", scope="node"),
    "M-MEMLOCK": dict(cause="IB-UMEM", scope="node"),
    "M-PEERMEM": dict(cause="NVPM", scope="node"),
    "M-MAXQP": dict(cause="ML-CMDERR", scope="node", nature="host"),
    "M-CQERR": dict(cause="MLX-CQERR", scope="node", nature="software"),
    "M-HVEJECT": dict(cause="ML-FWINIT", scope="node"),
    # Known noise.
    "M-ACCESSREG": [],
    "M-E810LLDP": [],
}


def test_every_case_has_its_expectation():
    assert {path.stem for path in PUBLIC.glob("*.log")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_case(name):
    expected = EXPECTED[name]
    expected = [expected] if isinstance(expected, dict) else expected
    incidents = diagnose(PUBLIC / f"{name}.log")["incidents"]
    assert len(incidents) == len(expected), [i["headline"]["en"] for i in incidents]
    for incident, wanted in zip(incidents, expected):
        check(incident, **wanted)


@pytest.mark.parametrize("name", sorted(name for name, wanted in EXPECTED.items() if wanted))
def test_every_incident_says_what_next(name):
    for incident in diagnose(PUBLIC / f"{name}.log")["incidents"]:
        assert incident["next"], incident["headline"]
        for step in incident["next"]:
            assert is_bounded(step["command"]), step["command"]
            assert "{" not in step["command"]
        assert incident["headline"]["ko"] != incident["headline"]["en"]
        assert incident["cause"]["lines"]


def test_a_time_of_two_clocks_is_reported():
    """M-SLOWCASC: the wall clock is 9 minutes off what the request's own deadline says."""
    found = diagnose(PUBLIC / "M-SLOWCASC.log")
    assert "clock" in " ".join(note["en"] for note in found["clocks"]).lower() or found["clocks"]


@pytest.mark.parametrize("name, nodes", [("M-WRONGKERNEL", ["compute2", "head1"]),
                                         ("M-BOOTRACE", ["compute6"]), ("M-ABORTRECOV", ["compute4"])])
def test_prefixes_without_a_stamp_are_nodes(name, nodes):
    found = diagnose(PUBLIC / f"{name}.log")
    assert [node["name"] for node in found["nodes"]] == nodes
    assert {node for incident in found["incidents"] for node in incident["nodes"]} == set(nodes)
