"""A real Lustre, broken on purpose (cases/lustre; INDEX.md there says what was done): the client's log
alone, the server's alone and both together give the true cause and scope, or say what cannot be told.
"""
import pytest

from diagnosis import LUSTRE, check, diagnose

NOTHING = []

OST_STOPPED = dict(cause="TG-FAILOVER", scope="target", element_has="lfs01-OST0000",
                   nature="planned", planned=True, data="delayed", urgency="note")
INJECTED = dict(cause="TG-INJECTED", nature="planned", planned=True)
CAME_BACK = dict(cause="CN-RECONNECTING", scope="unknown", urgency="low",
                 undecided_has="10.9.0.2@tcp")
TIMED_OUT = dict(cause="PT-EXPIRE-SLOW", scope="unknown", undecided_has="10.9.0.1@tcp")
PAIR = dict(cause="PT-EXPIRE-SLOW", scope="pair", nature="network", undecided_has="second client",
            next_has="timeout 5 lctl ping 10.9.0.1@tcp")

# case: (client alone, server alone, both)
EXPECTED = {
    "01-healthy-mount": (NOTHING, None, None),
    "02-ost-umount-during-write": (
        dict(cause="PT-STATUS", scope="unknown", data="delayed", self_healed=True,
             undecided_has="10.9.0.1@tcp", headline_has="does not know this client"),
        OST_STOPPED, OST_STOPPED),
    "04-mgs-gone-while-mounting": (
        dict(scope="mgs", element_has="10.9.0.1@tcp", urgency="low", undecided_has="stopped MGS"),
        dict(cause="TG-FAILOVER", scope="mgs", planned=True),
        dict(cause="TG-FAILOVER", scope="mgs", planned=True)),
    "06-mount-wrong-nid": (
        dict(scope="mgs", element_has="10.9.0.77@tcp", undecided_has="wrong NID",
             next_has="timeout 5 lctl ping 10.9.0.77@tcp"), None, None),
    "07-mount-o2ib-nid-without-o2ib": (
        dict(cause="LN-NOROUTE", scope="config", nature="config"), None, None),
    "10-client-evicted-by-ost-admin": (
        dict(scope="unknown", data="lost", headline_has="evicted", undecided_has="10.9.0.1@tcp"),
        dict(cause="EX-EVICT-ADMIN", scope="target", planned=True, data="lost"),
        dict(cause="EX-EVICT-ADMIN", scope="target", planned=True, data="lost")),
    "11-client-evicted-by-mdt-admin": (
        dict(scope="unknown", data="lost", headline_has="evicted", undecided_has="10.9.0.1@tcp",
             users_has="ls, stat, create"),
        dict(cause="EX-EVICT-ADMIN", scope="target", element_has="MDT0000", planned=True),
        dict(cause="EX-EVICT-ADMIN", scope="target", element_has="MDT0000", planned=True)),
    "13-firewall-drops-tcp988": (TIMED_OUT, CAME_BACK, PAIR),
    "14-lnet-drop-100-percent-ost-replies": (TIMED_OUT, CAME_BACK, PAIR),
    "15-lnet-drop-20-percent-both-ways": (TIMED_OUT, CAME_BACK, PAIR),
    "17-lnet-delay-10s": (
        dict(cause="IM-LOST-FAIL", scope="mgs", element_has="10.9.0.1@tcp", urgency="low"),
        CAME_BACK,
        dict(cause="IM-LOST-FAIL", scope="mgs", element_has="10.9.0.1@tcp", undecided_has="ping")),
    "19-ost-enospc-injected": (None, INJECTED, None),
    "20-bulk-checksum-error-on-write": (
        INJECTED, dict(cause="CK-WRITE", scope="pair", element_has="10.9.0.2@tcp",
                       undecided_has="10.9.0.2@tcp"), INJECTED),
    "21-bulk-checksum-error-on-read": (
        INJECTED, dict(cause="CK-READ", scope="pair", element_has="10.9.0.2@tcp",
                       undecided_has="10.9.0.2@tcp"), INJECTED),
    "23-ost-erofs-injected": (
        dict(cause="PT-REDO", scope="unknown", undecided_has="10.9.0.1@tcp"), INJECTED, INJECTED),
    "24-ost-write-bulk-fails": (
        dict(cause="PT-STATUS", scope="unknown", undecided_has="10.9.0.1@tcp"), INJECTED, INJECTED),
    "25-ost-object-missing": (None, INJECTED, None),
    "26-ost-deactivated-on-client": (
        dict(cause="PT-ADMIN-INACTIVE", scope="node", planned=True, data="lost"), CAME_BACK,
        dict(cause="PT-ADMIN-INACTIVE", scope="node", planned=True, data="lost")),
    "28-client-eth0-down": (
        dict(cause={"SK-CONN", "LN-RECSUM-LOCAL"}, scope="node", nature="network"), None, None),
    "29-client-reconnects-after-eth0-up": (
        dict(cause="IM-EVICTED", scope="unknown", data="lost", undecided_has="server"), None, None),
    "31-hung-task-client-io-while-ost-down": (
        dict(cause="K-HUNG", scope="unknown", undecided_has="servers that", users_has="state D"),
        OST_STOPPED, dict(OST_STOPPED, users_has="state D")),
    "32-umount-force-while-io": (
        dict(cause="PT-ADMIN-INACTIVE", scope="node", planned=True, data="lost"),
        dict(cause="SV-LATE", scope="server", confidence="low", undecided_has="10.9.0.2@tcp"),
        dict(cause="PT-ADMIN-INACTIVE", scope="node", planned=True, data="lost")),
    "40-o2ib-healthy-mount": (NOTHING, None, None),
    "42-o2ib-rxe-device-deleted-on-client": (
        dict(cause="IB-ASYNC", scope="node", nature="hardware"),
        dict(scope="node", element_has="10.9.0.12@o2ib", data="lost",
             undecided_has="10.9.0.12@o2ib"),
        dict(cause="IB-ASYNC", scope="node", nature="hardware", data="lost")),
    "44-umount-ost-after-its-disk-died": (
        dict(cause="PT-STATUS", scope="unknown", data="lost", undecided_has="10.9.0.11@o2ib"),
        dict(cause={"BE-DISK", "BE-RDONLY"}, scope="target", element_has="lfs02-OST0000",
             nature="storage"),
        dict(cause={"BE-DISK", "BE-RDONLY"}, scope="target", element_has="lfs02-OST0000",
             nature="storage")),
    "46-writeconf-after-address-change": (
        dict(cause="PT-STATUS", scope="server", element_has="10.9.0.21@o2ib",
             headline_has="before the servers were ready"),
        dict(cause={"MG-WRITECONF", "RC-DENY"}, planned=True),
        dict(cause={"MG-WRITECONF", "RC-DENY"}, planned=True)),
}


def logs(name, shape):
    client = LUSTRE / f"{name}.client{shape}.log"
    server = LUSTRE / f"{name}.server{shape}.log"
    return client, server


def test_every_case_has_its_expectation():
    names = {path.name.split(".")[0] for path in LUSTRE.glob("*.log")}
    assert names == set(EXPECTED)
    for name, (client, server, both) in EXPECTED.items():
        paths = logs(name, "")
        assert [path.exists() for path in paths] == [client is not None, server is not None]
        assert (both is not None) == all(path.exists() for path in paths)


SIDES = ("client", "server", "both")

# A side that logged nothing has no file, and no expectation.
CASES = [(name, side) for name in sorted(EXPECTED) for side, expected in zip(SIDES, EXPECTED[name]) if expected is not None]


@pytest.mark.parametrize("shape", ["", ".ctime"])
@pytest.mark.parametrize("name, side", CASES)
def test_case(name, side, shape):
    expected = dict(zip(SIDES, EXPECTED[name]))[side]
    client, server = logs(name, shape)
    given = {"client": [client], "server": [server], "both": [client, server]}[side]
    incidents = diagnose(*given)["incidents"]
    expected = [expected] if isinstance(expected, dict) else expected
    assert len(incidents) == len(expected), [i["headline"]["en"] for i in incidents]
    for incident, wanted in zip(incidents, expected):
        check(incident, **wanted)
