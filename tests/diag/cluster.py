"""Makes logs of clusters in which one thing broke."""

EPOCH = 1779423419  # 2026-05-22 04:16:59 UTC


def stamp(at):
    import datetime

    moment = datetime.datetime.fromtimestamp(EPOCH + at, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond:06d}+00:00"


def line(node, at, text):
    return f"{stamp(at)} {node} kernel: {text}\n"


def client_device(target):
    kind = "mdc" if "MDT" in target else "osc"
    return f"{target}-{kind}-ffff88100aa0000"


def timed_out(node, at, target, nid, kind="timed out for slow reply", opcode=400, xid=1):
    now = int(EPOCH + at)
    real = 0 if "sent delay" in kind else now - 14
    return line(
        node, at,
        "Lustre: 8465:0:(client.c:2310:ptlrpc_expire_one_request()) @@@ Request sent has "
        f"{kind}: [sent {now - 14}/real {real}]  req@ffff88103b8d9800 x{1471890494345888 + xid}/t0(0) "
        f"o{opcode}->{client_device(target)}@{nid}:28/4 lens 224/224 e 0 to 1 dl {now} ref 1 fl "
        "Rpc:XNQr/0/ffffffff rc 0/-1 job:''")


def lost(node, at, target, nid):
    return line(
        node, at,
        f"Lustre: {client_device(target)}: Connection to {target} (at {nid}) was lost; in progress "
        "operations using this service will wait for recovery to complete")


def restored(node, at, target, nid):
    return line(node, at, f"Lustre: {client_device(target)}: Connection restored to {nid} (at {nid})")


def evicted(node, at, target):
    return line(
        node, at,
        f"LustreError: 167-0: {client_device(target)}: This client was evicted by {target}; in "
        "progress operations using this service will fail.")


def healthy(node, at, target, nid):
    """The node speaks Lustre, knows the target, and complains of nothing."""
    return lost(node, at, target, nid) + restored(node, at + 1, target, nid)


def gone(node, at, target, nid, kind="timed out for slow reply", opcode=400, xid=1):
    return timed_out(node, at, target, nid, kind, opcode, xid) + lost(node, at + 0.001, target, nid)


def silent_client(node, at, target, uuid, nid):
    now = int(EPOCH + at)
    return line(
        node, at,
        f"Lustre: {target}: haven't heard from client {uuid} (at {nid}) in 227 seconds. I think it's "
        f"dead, and I am evicting it. exp ffff88, cur {now} expire {now - 150} last {now - 227}")
