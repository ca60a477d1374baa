"""What a Korean guide for GPU operators says of "Lustre RDMA failure": its messages, causes, symptoms,
questions and both of its operator cases, each as the log lines it stands for.
"""
import cluster
import pytest
from diagnosis import check, commands, diagnose_text, english, rows, run

NID = "192.0.2.105@o2ib"
MDT, OST = "a2wbl-MDT0006", "a2wbl-OST0012"


def first(text, *words):
    return diagnose_text(text, *words)["incidents"][0]


# ---- 7: messages people see, with and without what usually surrounds them. ----

@pytest.mark.parametrize("text, row", [
    (cluster.timed_out("gpu01", 0, MDT, NID), "PT-EXPIRE-SLOW"),
    ("Lustre: ptlrpc_expire_one_request() @@@ Request sent has timed out\n", "PT-EXPIRE"),
    (cluster.lost("gpu01", 0, MDT, NID), "IM-LOST-WAIT"),
    (f"connection lost to {NID}\n", "IM-LOST"),
    ("LustreError: 11-0: a2wbl-OST0012-osc-ffff88: operation ost_read to node 192.0.2.105@o2ib "
     "failed: rc = -5\n", "PT-STATUS"),
    ("LNetError: 4021:0:(o2iblnd_cb.c:3438:kiblnd_check_conns()) Timed out RDMA with "
     "192.0.2.105@o2ib (51): c: 0, oc: 0, rc: 63\n", "IB-RDMATIMEOUT"),
])
def test_messages(text, row):
    assert row in rows(diagnose_text(text)), text


def test_minus_five_is_explained():
    incident = first("LustreError: 11-0: a2wbl-OST0012-osc-ffff88: operation ost_read to node "
                     "192.0.2.105@o2ib failed: rc = -5\n")
    status = [one for one in incident["statuses"] if one["number"] == -5]
    assert status and status[0]["name"] == "EIO"
    assert status[0]["meaning"]["en"] and status[0]["meaning"]["ko"] != status[0]["meaning"]["en"]


def test_a_bare_minus_five_is_not_dropped():
    """"LustreError: rc = -5" says nothing more: it is counted and shown."""
    found = diagnose_text("LustreError: rc = -5\n")
    assert found["coverage"]["error_looking"] == 1 or found["coverage"]["matched"] == 1


# ---- 8: causes. ----

def test_cause_port():
    found = diagnose_text("gpu01: State: Down\ngpu01: Physical state: Polling\n")
    if not found["incidents"]:
        found = diagnose_text("State: Down\nPhysical state: Polling\n", "--node", "gpu01")
    check(found["incidents"][0], cause="IB-PORT-STATE", layer="link", scope="node",
          next_has="ibstat")


@pytest.mark.parametrize("line, row", [
    ("mlx5_core 0000:3b:00.0: poll_health:825:(pid 0): device's health compromised - reached miss "
     "count", "ML-HEALTH"),
    ("mlx5_core 0000:01:00.0: wait_func_handle_exec_timeout:1062:(pid 88): cmd[3]: "
     "DESTROY_EQ(0x302) timeout. Will cause a leak of a command resource", "ML-CMDTO"),
    ("mlx5_core 0000:01:00.0: Port module event[error]: module 0, Cable error, Bus stuck",
     "ML-PORTMOD"),
])
def test_cause_hca(line, row):
    text = cluster.line("gpu01", 0, line) + cluster.gone("gpu01", 30, MDT, NID)
    check(first(text), cause=row, scope="node", element_has="gpu01", next_has=["ibstat", "mlx5"])


def test_cause_switch():
    text = ""
    for node in ("gpu01", "gpu02", "gpu03", "gpu04"):
        text += cluster.gone(node, 0, MDT, NID) + cluster.gone(node, 1, OST, "192.0.2.106@o2ib")
    check(first(text), scope="fabric", nature="network", avoid_has="Do not reboot clients")


def test_cause_slow_server():
    text = ""
    for node in ("gpu01", "gpu02", "gpu03"):
        text += cluster.gone(node, 0, OST, NID, opcode=4)
    text += cluster.line("oss1", 1, f"Lustre: {OST}: Client 939243e4-2f54-a96f-3cbb-9fcf55426e2e (at "
                                    "192.0.2.11@o2ib) refused connection, still busy with 5 references")
    text += cluster.line("oss1", 2, "Lustre: ll_ost_io01_012: service thread pid 40112 was inactive for "
                                    "62.125 seconds. The thread might be hung, or it might only be "
                                    "slow and will resume later. Dumping the stack trace for debugging "
                                    "purposes:")
    check(first(text), cause={"SV-INACTIVE", "CN-BUSY"}, scope={"server", "target"},
          headline_has="too slow")


def test_cause_overload():
    text = ""
    for node in ("gpu01", "gpu02"):
        text += cluster.gone(node, 0, MDT, NID, opcode=101)
    text += cluster.line("mds1", 1, f"Lustre: {MDT}: Client 939243e4-2f54-a96f-3cbb-9fcf55426e2e (at "
                                    "192.0.2.11@o2ib) reconnecting")
    text += cluster.line("mds1", 2, "Lustre: mdt: This server is not able to keep up with request "
                                    "traffic (cpu-bound).")
    check(first(text), cause="SV-CPUBOUND", scope={"server", "target"}, element_has="mds1")


# ---- 9: symptoms. ----

def test_symptoms():
    text = cluster.gone("gpu01", 0, MDT, NID)
    text += cluster.line("gpu01", 130, "INFO: task ls:4037 blocked for more than 120 seconds.")
    text += cluster.line("gpu01", 131, " ptlrpc_queue_wait+0x7d/0x230 [ptlrpc]")
    incident = first(text)
    check(incident, users_has="ls, stat, create", data="unknown", open=True,
          avoid_has="timeout 5")
    assert "state D on gpu01" in english(incident["users"])
    incident = first(cluster.gone("gpu01", 0, OST, NID))
    check(incident, users_has="reads and writes")
    incident = first(cluster.evicted("gpu01", 0, OST) + "ls: cannot access '/mnt/ddn/x': Cannot send "
                     "after transport endpoint shutdown\n", "--node", "gpu01")
    check(incident, data="lost")


# ---- 10 and 13: one node, or everybody. ----

def one_node():
    text = ""
    for node in ("gpu01", "gpu02", "gpu03"):
        text += cluster.healthy(node, -86400, MDT, NID)
        text += cluster.healthy(node, -86400, OST, "192.0.2.106@o2ib")
    text += cluster.gone("gpu02", 0, MDT, NID, "timed out for sent delay")
    return text + cluster.gone("gpu02", 1, OST, "192.0.2.106@o2ib", "timed out for sent delay")


def test_case_one_node():
    incident = diagnose_text(one_node())["incidents"][-1]
    check(incident, scope="node", element_has="gpu02",
          next_has=["ibstat", "ibdev2netdev", "mlx5", f"timeout 5 lctl ping {NID}"])


def many_nodes():
    text = ""
    for index in range(8):
        text += cluster.gone(f"gpu{index:02}", 0, MDT, NID)
        text += cluster.gone(f"gpu{index:02}", 1, OST, NID)
    return text


def test_case_many_nodes():
    incident = first(many_nodes())
    check(incident, scope="server", element_has="192.0.2.105", avoid_has="Do not reboot clients")
    assert "8 nodes report it" in english(incident["evidence"])


# ---- 11: commands, each bounded. ----

def test_commands():
    every = commands(diagnose_text(one_node())["incidents"][-1])
    for command in every.split(" ; "):
        assert command.startswith("timeout "), command


# ---- 12: the five questions. ----

def test_five_questions():
    incident = first(many_nodes())
    assert incident["nodes"] == [f"gpu{index:02}" for index in range(8)]
    assert incident["first"]["text"] == "2026-05-22 04:16:59 UTC"
    assert incident["targets"] == [MDT, OST]
    assert incident["nids"] == [NID]
    assert {"PT-EXPIRE-SLOW", "IM-LOST-WAIT"} <= {
        incident["cause"]["row"], *(part["row"] for part in incident["consequences"])}
    labels = {target["label"] for target in diagnose_text(many_nodes())["targets"]}
    assert f"{OST} (index 18)" in labels


# ---- 14: the form of the report. ----

def test_report_in_korean():
    report = run("--markdown", "--lang", "ko", "-", stdin=many_nodes().encode()).stdout.decode()
    for part in ("장애 보고서", "근본 원인", "사용자 영향", "다음 점검 명령", "하지 말아야 할 것", MDT, NID,
                 "2026-05-22 04:16:59 UTC", "Lustre 서버 측"):
        assert part.replace("-", "\\-").replace("_", "\\_") in report or part in report, part
    report = run("--markdown", "--lang", "ko", "-", stdin=one_node().encode()).stdout.decode()
    assert "단일 노드에서 발생한 장애" in report and "우선 확인해야 합니다" in report


def test_report_in_english():
    report = run("--markdown", "-", stdin=many_nodes().encode()).stdout.decode()
    for part in ("# Lustre and RDMA incident report", "Root cause", "What to check next",
                 "What not to do", NID):
        assert part in report, part
