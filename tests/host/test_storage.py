"""Lustre, LNet, the gateway's own needs and AIStor: healthy machines, and one change for every check,
which turns that check and no other."""

import ctypes
import json
import os
import struct
import subprocess
import time

import pytest

import forest
from forest import Link, limits, listening, meminfo, mutate, status

MOUNTS = ("/dev/sda1 / xfs rw,relatime 0 0\n"
          "172.16.44.40@o2ib:/lmcfs /mnt/lustre lustre rw,flock,checksum,lazystatfs,{xattr},verbose 0 0\n")
FSTAB = ("# <file system>\nUUID=1 / xfs defaults 0 0\n"
         "172.16.44.40@o2ib:/lmcfs /mnt/lustre lustre "
         "flock,user_xattr,_netdev,x-systemd.requires=lnet.service 0 0\n"
         "//nas/x /x cifs user=a,password=hunter2 0 0\n")
TREE = ("open 0\ntype 198183888\nblock_bytes 4096\nblocks 1000000\nblocks_free 900000\nread_only 0\n"
        "get {get}\nreplace {replace}\nwrite 0\n")
ENODATA, EOPNOTSUPP, EACCES = 61, 95, 13
WELL = TREE.format(get=ENODATA, replace=ENODATA)


def import_text(target, state="FULL", nid="172.16.44.40@o2ib", version="2.15.8.0"):
    return (f"import:\n    name: {target}-osc-ffff8f\n    target: {target}_UUID\n"
            f"    state: {state}\n    connect_flags: [ write_grant, server_lock, version ]\n"
            f"    connect_data:\n       flags: 0xa0425af2e3440078\n       instance: 3\n"
            f"       target_version: {version}\n    import_flags: [ replayable, pingable ]\n"
            f"    connection:\n       failover_nids: [ {nid} ]\n"
            f"       current_connection: {nid}\n       connection_attempts: 1\n")


NET_SHOW = """net:
    - net type: lo
      local NI(s):
        - nid: 0@lo
          status: up
          statistics:
              send_count: 0
              recv_count: 0
              drop_count: 0
    - net type: o2ib
      local NI(s):
        - nid: {address}@o2ib
          status: {status}
          interfaces:
              0: ib0
          statistics:
              send_count: {sent}
              recv_count: 33000
              drop_count: 0
          health stats:
              fatal_error: 0
              health value: {health}
              interrupts: 0
          tunables:
              peer_timeout: 180
              peer_credits: {credits}
          lnd tunables:
              peercredits_hiw: 4
              map_on_demand: 1
              conns_per_peer: 1
"""
TCP_NET = """    - net type: tcp
      local NI(s):
        - nid: {address}@tcp
          status: up
          interfaces:
              0: ib0
          statistics:
              send_count: 50000
"""
CONF = """net:
    - net type: o2ib
      local NI(s):
        - nid: 172.16.44.41@o2ib
          interfaces:
              0: ib0
"""


def net_show(address="172.16.44.41", state="up", health=1000, credits=8, sent=33000):
    return NET_SHOW.format(address=address, status=state, health=health, credits=credits, sent=sent)


def lnet():
    return {
        "/sys/module/lnet/": "",
        "/sys/module/ko2iblnd/parameters/peer_credits": "8",
        "/sys/module/ko2iblnd/parameters/peer_credits_hiw": "4",
        "/sys/module/ko2iblnd/parameters/conns_per_peer": "1",
        "/sys/kernel/debug/lnet/printk": "warning error emerg console neterror",
        "/.railgate/lnet/net": net_show(),
        "/.railgate/lnet/peer":
            "peer:\n    - primary nid: 172.16.44.40@o2ib\n      Multi-Rail: True\n      peer ni:\n"
            "        - nid: 172.16.44.40@o2ib\n          state: NA\n",
        "/.railgate/lnet/route": "route:\n    - net: o2ib5\n      gateway: 172.16.44.9@o2ib\n"
                                 "      state: up\n",
        "/etc/lnet.conf": CONF,
        "/usr/lib/systemd/system/lnet.service":
            "[Unit]\nAfter=network-online.target rdma.service\n[Service]\n",
        "/etc/systemd/system/multi-user.target.wants/lnet.service": "[Service]\n",
        "/etc/rc.d/rc.local": "#!/bin/sh\nlnetctl net add --net o2ib --if ib0\n",
    }


def modules_dep():
    base = "/lib/modules/5.14.0-427.el9.x86_64/modules.dep"
    return {base: "extra/lustre-client/fs/lustre.ko: extra/lustre-client/net/lnet.ko\n"}


def lustre_client():
    tree = {**forest.system(), **forest.switch(), **forest.connectx(), **lnet(), **modules_dep()}
    tree.update({
        "/proc/mounts": MOUNTS.format(xattr="user_xattr"),
        "/etc/fstab": FSTAB,
        "/.railgate/lustre/mount-0": TREE.format(get=ENODATA, replace=ENODATA),
        "/.railgate/lustre/layout-lmcfs": layout(2),
        "/.railgate/lustre/space": "lmcfs-OST0000 1000000 900000\nlmcfs-OST0001 1000000 800000\n",
        "/sys/fs/lustre/version": "2.15.8",
        "/sys/fs/lustre/dump_on_eviction": "0",
        "/sys/fs/lustre/dump_on_timeout": "0",
        "/proc/fs/lustre/mgc/MGC172.16.44.40@o2ib/import": import_text("MGS"),
        "/proc/fs/lustre/mdc/lmcfs-MDT0000-mdc-ffff8f/import": import_text("lmcfs-MDT0000"),
        "/proc/fs/lustre/osc/lmcfs-OST0000-osc-ffff8f/import": import_text("lmcfs-OST0000"),
        "/proc/fs/lustre/osc/lmcfs-OST0001-osc-ffff8f/ost_server_uuid": "lmcfs-OST0001_UUID\tIDLE\n",
    })
    return tree


def layout(stripes):
    """A plain layout of so many stripes, as the xattr lustre.lov has it."""
    head = struct.pack("<IIQQIHH", 0x0BD10BD0, 1, 0x40, 0x20000402, 1 << 22, stripes, 0xFFFF)
    return head.hex()


def zfs_rows(mgs):
    rows = []
    for dataset, name, flags in (("lustre-mdt0/mdt0", "lmcfs-MDT0000", "37"),
                                 ("lustre-ost0/ost0", "lmcfs-OST0000", "34"),
                                 ("lustre-ost1/ost1", "lmcfs-OST0001", "34")):
        rows += [(dataset, "lustre:svname", name), (dataset, "lustre:flags", flags),
                 (dataset, "compression", "lz4")]
        if "ost" in dataset:
            rows.append((dataset, "lustre:mgsnode", mgs))
    return "".join(f"{d}\t{p}\t{v}\tlocal\n" for d, p, v in rows)


def llog(nid):
    return ("- { index: 1, event: marker, flags: 0x01, version: 2.15.8.0, type: start }\n"
            f"- {{ index: 4, event: add_uuid, nid: {nid}(0x50000ac102c29), node: {nid} }}\n"
            "- { index: 5, event: attach, device: lmcfs-MDT0000-mdc, type: mdc }\n"
            f"- {{ index: 6, event: setup, device: lmcfs-MDT0000-mdc, UUID: x, node: {nid} }}\n")


def lustre_server():
    """The node of MGS, MDT0000 and two OSTs, all on ZFS."""
    tree = {**forest.system(), **forest.switch(), **forest.connectx(), **lnet(), **modules_dep()}
    mounts = "".join(f"lustre-{t}/{t} /mnt/{t} lustre_tgt rw,svname=x 0 0\n"
                     for t in ("mdt0", "ost0", "ost1"))
    tree.update({
        "/proc/mounts": "/dev/sda1 / xfs rw 0 0\n" + mounts,
        "/sys/module/zfs/": "",
        "/sys/fs/lustre/version": "2.15.8",
        "/sys/fs/lustre/mgs/MGS/": "",
        "/.railgate/lustre/zfs": zfs_rows("172.16.44.41@o2ib"),
        "/.railgate/lustre/llog": llog("172.16.44.41@o2ib"),
        "/.railgate/lustre/space": "",
        "/proc/fs/lustre/mdt/lmcfs-MDT0000/recovery_status":
            "status: COMPLETE\nrecovery_start: 1\nrecovery_duration: 3\ncompleted_clients: 4/4\n",
        "/proc/fs/lustre/osp/lmcfs-OST0000-osc-MDT0000/import":
            import_text("lmcfs-OST0000", nid="172.16.44.41@o2ib"),
    })
    return tree


TUNEFS = """checking for existing Lustre data: found

   Read previous values:
Target:     {name}
Index:      {index}
Lustre FS:  lmcfs
Mount type: ldiskfs
Flags:      {flags}
              ({words})
Persistent mount opts: {options}
Parameters:{parameters}


   Permanent disk data:
Target:     {name}
Index:      {index}
Lustre FS:  lmcfs
Mount type: ldiskfs
Flags:      {flags}
              ({words})
Persistent mount opts: {options}
Parameters:{parameters}

exiting before disk write.
"""


def tunefs(name, parameters="", flags="0x2"):
    return TUNEFS.format(name=name, index=int(name[-4:], 16), flags=flags, words="OST ",
                         options="user_xattr,errors=remount-ro", parameters=parameters)


MDT_DISK = "/.railgate/lustre/tunefs-dev-mapper-mdt0"
OST_DISK = "/.railgate/lustre/tunefs-dev-sdb"


def ldiskfs_server():
    """The same on ldiskfs: MGS and MDT0000 on one device, one OST."""
    tree = lustre_server()
    del tree["/.railgate/lustre/zfs"], tree["/sys/module/zfs/"]
    tree.update({
        "/proc/mounts": "/dev/sda1 / xfs rw 0 0\n/dev/mapper/mdt0 /mnt/mdt0 lustre_tgt rw 0 0\n"
                        "/dev/sdb /mnt/ost0 lustre rw 0 0\n",
        MDT_DISK: tunefs("lmcfs-MDT0000", " mdt.identity_upcall=/usr/sbin/l_getidentity", "0x5"),
        OST_DISK: tunefs("lmcfs-OST0000", " mgsnode=172.16.44.41@o2ib failover.node=172.16.44.42@o2ib"),
    })
    return tree


CLIENT = ["--for", "lustre-client"]
SERVER = ["--for", "lustre-server"]


def test_client_is_well(tmp_path):
    report = forest.judge(lustre_client(), tmp_path, *CLIENT)
    assert forest.bad(report) == {}, [forest.worst(report, i) for i in forest.bad(report)]
    skipped = {i for i, v in forest.verdicts(report).items() if v == "skip"}
    lustre = {"MNT", "RESP", "IMPORT", "XATTR-MODE", "XATTR-PROBE", "FLOCK", "LAYOUT", "SPACE",
              "VERSION", "FSTAB", "DUMP", "LN-MOD", "LN-NI", "LN-IP", "LN-CFG", "LN-CONF-IF",
              "LN-SPELL", "LN-SVC", "LN-PEER", "LN-ROUTE", "LN-TUN", "PRINTK"}
    assert lustre & skipped == set()


def test_server_is_well(tmp_path):
    report = forest.judge(lustre_server(), tmp_path, *SERVER)
    assert forest.bad(report) == {}, [forest.worst(report, i) for i in forest.bad(report)]
    assert forest.verdicts(report)["ZFS-PROP"] == "ok"
    assert forest.verdicts(report)["CFGLOG"] == "ok"
    assert forest.verdicts(report)["RECOVERY"] == "ok"


OSC = "/proc/fs/lustre/osc/lmcfs-OST0000-osc-ffff8f/import"
HANG = {"/.railgate/lustre/mount-0": None, "/.railgate/errors": "110 /.railgate/lustre/mount-0\n"}

CLIENT_MUTATIONS = [
    ("MNT", "fail", {"/etc/fstab": FSTAB + "172.16.44.40@o2ib:/lmcfs /scratch lustre "
                     "user_xattr,_netdev,x-systemd.requires=lnet.service 0 0\n"}, ()),
    ("RESP", "fail", HANG, ("XATTR-PROBE", "LAYOUT")),
    ("IMPORT", "warn", {OSC: import_text("lmcfs-OST0000", "DISCONN")}, ()),
    ("IMPORT", "warn", {"/proc/fs/lustre/osc/lmcfs-OST0001-osc-ffff8f/ost_server_uuid":
                        "lmcfs-OST0001_UUID\tFULL\tDEACTIVATED\n"}, ()),
    ("XATTR-MODE", "warn", {"/proc/mounts": MOUNTS.format(xattr="nouser_xattr")}, ()),
    ("XATTR-MODE", "skip", {"/proc/mounts": MOUNTS.format(xattr="nolock")}, ()),
    ("XATTR-PROBE", "fail", {"/.railgate/lustre/mount-0":
                             TREE.format(get=EOPNOTSUPP, replace=EOPNOTSUPP)}, ()),
    ("XATTR-PROBE", "fail", {"/.railgate/lustre/mount-0":
                             TREE.format(get=EOPNOTSUPP, replace=EACCES)}, ()),
    ("ODIRECT", "ok", {"/.railgate/lustre/mount-0": WELL + "direct 0\nunaligned 22\n"}, ()),
    ("ODIRECT", "fail", {"/.railgate/lustre/mount-0": WELL + "direct 22\n"}, ()),
    ("ODIRECT", "fail", {"/.railgate/lustre/mount-0": WELL + "direct 5\nunaligned 0\n"}, ()),
    ("REFLINK", "ok", {"/.railgate/lustre/mount-0": WELL + "tmpfile 95\nclone 95\n"}, ()),
    ("REFLINK", "warn", {"/.railgate/lustre/mount-0": WELL + "tmpfile 95\nclone 5\n"}, ()),
    ("REFLINK", "warn", {"/.railgate/lustre/mount-0": WELL + "tmpfile 28\nclone 95\n"}, ()),
    ("FALLOC", "ok", {"/.railgate/lustre/mount-0": WELL + "allocate 95\n"}, ()),
    ("FALLOC", "warn", {"/.railgate/lustre/mount-0": WELL + "allocate 28\n"}, ()),
    ("FLOCK", "warn", {"/proc/mounts": MOUNTS.format(xattr="user_xattr").replace("flock",
                                                                                 "localflock")}, ()),
    ("FLOCK", "warn", {"/proc/mounts": MOUNTS.format(xattr="user_xattr").replace("flock",
                                                                                 "noflock")}, ()),
    ("LAYOUT", "warn", {"/.railgate/lustre/layout-lmcfs": layout(1)}, ()),
    ("LAYOUT", "skip", {"/.railgate/lustre/layout-lmcfs": "00"}, ()),
    ("SPACE", "fail", {"/.railgate/lustre/space":
                       "lmcfs-OST0000 1000000 900\nlmcfs-OST0001 1000000 800000\n"}, ()),
    ("SPACE", "warn", {"/.railgate/lustre/space":
                       "lmcfs-OST0000 1000000 90000\nlmcfs-OST0001 1000000 800000\n"}, ()),
    ("SPACE", "skip", {"/.railgate/lustre/space": "lmcfs-OST0000 much\n"}, ("LAYOUT",)),
    ("VERSION", "warn", {"/sys/fs/lustre/version": "2.10.8"}, ()),
    ("FSTAB", "warn", {"/etc/fstab": FSTAB.replace("_netdev,", "")}, ()),
    ("FSTAB", "warn", {"/etc/fstab": FSTAB.replace("user_xattr,", "")}, ()),
    ("FSTAB", "warn", {"/etc/fstab": FSTAB.replace("172.16.44.40@", "172.16.44.1@")}, ()),
    ("DUMP", "skip", {"/sys/fs/lustre/dump_on_eviction": None}, ()),
    ("LN-MOD", "fail", {"/sys/module/ko2iblnd": None}, ()),
    ("LN-NI", "fail", {"/.railgate/lnet/net": net_show(state="down")}, ()),
    ("LN-NI", "warn", {"/.railgate/lnet/net": net_show(health=700)}, ()),
    ("LN-IP", "fail", {"/.railgate/lnet/net": net_show(address="172.16.44.1")}, ()),
    ("LN-CFG", "warn", {"/etc/modprobe.d/lnet.conf": "options lnet networks=\"o2ib(ib0)\"\n"}, ()),
    ("LN-CFG", "warn", {"/.railgate/lnet/net": net_show() +
                        TCP_NET.format(address="172.16.44.41")}, ("LN-RAIL",)),
    ("LN-CFG", "warn", {"/etc/lnet.conf": CONF + CONF.replace("net:\n", "").replace("o2ib", "o2ib1")},
     ()),
    ("LN-CONF-IF", "fail", {"/etc/lnet.conf": CONF.replace("ib0", "ib1")}, ("LN-CFG",)),
    ("LN-SPELL", "fail", {"/etc/rc.d/rc.local":
                          "modprobe lnet\nlnetctl net add --net o2ib --interface ib0\n"}, ()),
    ("LN-SVC", "warn", {"/etc/systemd/system/multi-user.target.wants/lnet.service": None}, ()),
    ("LN-SVC", "warn", {"/usr/lib/systemd/system/lnet.service": "[Unit]\nAfter=basic.target\n"}, ()),
    ("LN-PEER", "warn", {"/.railgate/lnet/peer":
                         lnet()["/.railgate/lnet/peer"].replace("state: NA", "state: down")}, ()),
    ("LN-ROUTE", "fail", {"/.railgate/lnet/route":
                          lnet()["/.railgate/lnet/route"].replace("up", "down")}, ()),
    ("LN-TUN", "warn", {"/.railgate/lnet/net": net_show(credits=128)}, ()),
    ("LN-RAIL", "warn", {"/.railgate/lnet/net": net_show(sent=0) +
                         TCP_NET.format(address="172.16.44.41"),
                         "/etc/lnet.conf": CONF + "    - net type: tcp\n      local NI(s):\n"
                         "        - interfaces:\n              0: ib0\n"}, ()),
    ("PRINTK", "warn", {"/sys/kernel/debug/lnet/printk": "warning error emerg console"}, ()),
]


@pytest.mark.parametrize("check, verdict, changes, also", CLIENT_MUTATIONS,
                         ids=[f"{m[0]}-{m[1]}-{i}" for i, m in enumerate(CLIENT_MUTATIONS)])
def test_client_mutation(tmp_path, check, verdict, changes, also):
    forest.assert_turns(lustre_client(), tmp_path, CLIENT, check, verdict, changes, also)


def test_ping_needs_active(tmp_path):
    tree = lustre_client()
    quiet = forest.worst(forest.judge(tree, tmp_path, *CLIENT), "LN-PING")
    assert quiet["verdict"] == "skip" and "--active" in quiet["summary"]
    ping = "/.railgate/lnet/ping-172.16.44.40@o2ib"
    answered = mutate(tree, {ping: "12345-172.16.44.40@o2ib"})
    assert forest.worst(forest.judge(answered, tmp_path, *CLIENT, "--active"),
                        "LN-PING")["verdict"] == "ok"
    silent = mutate(tree, {"/.railgate/errors": f"110 {ping}\n"})
    assert forest.worst(forest.judge(silent, tmp_path, *CLIENT, "--active"),
                        "LN-PING")["verdict"] == "fail"


def test_active_tries_a_real_file(tmp_path):
    """ENODATA without a file, refused on one: the server switched user xattrs off."""
    tree = mutate(lustre_client(), {"/.railgate/lustre/mount-0":
                                    TREE.format(get=ENODATA, replace=ENODATA) + "file 95\n"})
    report = forest.judge(tree, tmp_path, *CLIENT, "--active")
    assert forest.verdicts(report)["XATTR-PROBE"] == "fail"
    root = tmp_path / "live"
    root.mkdir()
    done = forest.run("doctor", "--for", "gateway", "--root", str(root), "--active", "--interval",
                      "0", "--json")
    finding = forest.worst(json.loads(done.stdout), "GW-TREE")
    assert finding["verdict"] in ("ok", "warn") and "not tried" not in finding["value"]
    assert list(root.iterdir()) == []


def test_remedy_for_xattrs_never_remounts(tmp_path):
    tree = mutate(lustre_client(), {
        "/proc/mounts": MOUNTS.format(xattr="nouser_xattr"),
        "/.railgate/lustre/mount-0": TREE.format(get=EOPNOTSUPP, replace=EOPNOTSUPP)})
    report = forest.judge(tree, tmp_path, *CLIENT)
    for check in ("XATTR-MODE", "XATTR-PROBE"):
        lines = forest.worst(report, check)["remedy"].splitlines()
        assert lines[0] == "umount /mnt/lustre"
        assert lines[1] == "mount -t lustre -o user_xattr 172.16.44.40@o2ib:/lmcfs /mnt/lustre"
        assert not any("remount" in line for line in lines if not line.startswith("#"))


def test_hung_mount_names_the_targets(tmp_path):
    tree = mutate(lustre_client(), {**HANG, OSC: import_text("lmcfs-OST0000", "CONNECTING")})
    finding = forest.worst(forest.judge(tree, tmp_path, *CLIENT), "RESP")
    assert "hangs" in finding["summary"] and "lmcfs-OST0000 CONNECTING" in finding["summary"]


def test_a_server_uuid_serves_where_import_cannot_be_read(tmp_path):
    tree = mutate(lustre_client(), {OSC: None, "/sys/fs/lustre/osc/lmcfs-OST0000-osc-ffff8f/"
                                    "ost_server_uuid": "lmcfs-OST0000_UUID\tDISCONN\n"})
    report = forest.judge(tree, tmp_path, *CLIENT)
    assert forest.worst(report, "IMPORT")["subject"] == "lmcfs-OST0000"


# ---- Servers ----

STALE = "172.16.44.1@o2ib"

SERVER_MUTATIONS = [
    ("ZFS-PROP", "fail", {"/.railgate/lustre/zfs": zfs_rows(STALE)}, ()),
    ("ZFS-PROP", "ok", {"/.railgate/lustre/zfs": zfs_rows(STALE + ":172.16.44.41@o2ib")}, None),
    ("CFGLOG", "fail", {"/.railgate/lustre/llog": llog(STALE)}, ()),
    ("CFGLOG", "warn", {"/.railgate/lustre/llog": llog("172.16.44.41@o2ib") + llog(STALE)}, ()),
    ("CFGLOG", "skip", {"/.railgate/lustre/llog": None}, ()),
    ("RECOVERY", "warn", {"/proc/fs/lustre/mdt/lmcfs-MDT0000/recovery_status":
                          "status: WAITING_FOR_CLIENTS\nconnected_clients: 1/4\n"}, ()),
]


@pytest.mark.parametrize("check, verdict, changes, also", SERVER_MUTATIONS,
                         ids=[f"{m[0]}-{m[1]}-{i}" for i, m in enumerate(SERVER_MUTATIONS)])
def test_server_mutation(tmp_path, check, verdict, changes, also):
    if also is None:
        report = forest.judge(mutate(lustre_server(), changes), tmp_path, *SERVER)
        assert forest.verdicts(report)[check] == verdict
    else:
        forest.assert_turns(lustre_server(), tmp_path, SERVER, check, verdict, changes, also)


def test_the_mending_procedure_is_whole_and_in_order(tmp_path):
    tree = mutate(lustre_server(), {"/.railgate/lustre/zfs": zfs_rows(STALE)})
    remedy = forest.worst(forest.judge(tree, tmp_path, *SERVER), "ZFS-PROP")["remedy"]
    steps = ["umount -a -t lustre_tgt", "zfs set lustre:mgsnode=172.16.44.41@o2ib lustre-ost0/ost0",
             "zfs set lustre:mgsnode=172.16.44.41@o2ib lustre-ost1/ost1",
             "tunefs.lustre --writeconf lustre-mdt0/mdt0", "tunefs.lustre --writeconf lustre-ost1/ost1",
             "mount -t lustre lustre-mdt0/mdt0 /mnt/mdt0", "mount -t lustre lustre-ost0/ost0 /mnt/ost0",
             "lctl --device lmcfs-MDT0000 abort_recovery",
             "mount -t lustre -o user_xattr 172.16.44.41@o2ib:/lmcfs"]
    places = [remedy.index(step) for step in steps]
    assert places == sorted(places)
    assert "zfs set lustre:mgsnode=172.16.44.41@o2ib lustre-mdt0" not in remedy


DISK_MUTATIONS = [
    ("fail", {OST_DISK: tunefs("lmcfs-OST0000", " mgsnode=" + STALE)}),
    ("fail", {OST_DISK: tunefs("lmcfs-OST0000", f" mgsnode={STALE}:172.16.44.2@o2ib")}),
    ("warn", {OST_DISK: tunefs("lmcfs-OST0000")}),
    ("skip", {OST_DISK: None, MDT_DISK: "tunefs.lustre: command failed"}),
    ("skip", {OST_DISK: None, MDT_DISK: None,
              "/.railgate/errors": f"110 {OST_DISK}\n13 {MDT_DISK}\n"}),
]


@pytest.mark.parametrize("verdict, changes", DISK_MUTATIONS, ids=range(len(DISK_MUTATIONS)))
def test_ldiskfs_mutation(tmp_path, verdict, changes):
    report = forest.judge(ldiskfs_server(), tmp_path, *SERVER)
    assert forest.bad(report) == {} and forest.verdicts(report)["MGSNODE"] == "ok"
    forest.assert_turns(ldiskfs_server(), tmp_path, SERVER, "MGSNODE", verdict, changes)


def test_one_right_address_is_enough_on_ldiskfs(tmp_path):
    tree = mutate(ldiskfs_server(), {OST_DISK: tunefs(
        "lmcfs-OST0000", f" mgsnode={STALE},172.16.44.1@tcp:172.16.44.41@o2ib")})
    assert forest.verdicts(forest.judge(tree, tmp_path, *SERVER))["MGSNODE"] == "ok"


def test_ldiskfs_is_mended_in_order_and_keeps_its_parameters(tmp_path):
    tree = mutate(ldiskfs_server(), {OST_DISK: tunefs(
        "lmcfs:OST0000", f" mgsnode={STALE} failover.node=172.16.44.2@o2ib ost.quota_type=ug")})
    remedy = forest.worst(forest.judge(tree, tmp_path, *SERVER), "MGSNODE")["remedy"]
    steps = ["umount -a -t lustre_tgt",
             "tunefs.lustre --erase-params --mgsnode=172.16.44.41@o2ib --param "
             "failover.node=172.16.44.2@o2ib --param ost.quota_type=ug /dev/sdb", "failover.node names",
             "tunefs.lustre --writeconf /dev/mapper/mdt0", "tunefs.lustre --writeconf /dev/sdb",
             "mount -t lustre /dev/mapper/mdt0 /mnt/mdt0", "mount -t lustre /dev/sdb /mnt/ost0",
             "lctl --device lmcfs-MDT0000 abort_recovery",
             "mount -t lustre -o user_xattr 172.16.44.41@o2ib:/lmcfs"]
    places = [remedy.index(step) for step in steps]
    assert places == sorted(places), remedy
    assert "--erase-params --mgsnode=172.16.44.41@o2ib /dev/mapper" not in remedy
    # What no shell takes as it is, is not put onto a line.
    tree[OST_DISK] = tunefs("lmcfs-OST0000", f" mgsnode={STALE} x=$(reboot) y=1")
    remedy = forest.worst(forest.judge(tree, tmp_path, *SERVER), "MGSNODE")["remedy"]
    assert "reboot)" not in remedy and "--param y=1" in remedy and "more parameters" in remedy


def test_addresses_of_one_mgs_stand_between_commas(tmp_path):
    tree = mutate(ldiskfs_server(), {
        OST_DISK: tunefs("lmcfs-OST0000", " mgsnode=" + STALE),
        "/.railgate/lnet/net": net_show() + TCP_NET.format(address="172.16.44.41")})
    remedy = forest.worst(forest.judge(tree, tmp_path, *SERVER), "MGSNODE")["remedy"]
    assert "--mgsnode=172.16.44.41@o2ib,172.16.44.41@tcp /dev/sdb" in remedy


def test_the_mgs_is_mounted_before_other_targets(tmp_path):
    """Whatever the order of the mounts is."""
    tree = mutate(ldiskfs_server(), {
        "/proc/mounts": "/dev/sda1 / xfs rw 0 0\n/dev/sdb /mnt/ost0 lustre_tgt rw 0 0\n"
                        "/dev/mapper/mdt1 /mnt/mdt1 lustre_tgt rw 0 0\n"
                        "/dev/mapper/mdt0 /mnt/mdt0 lustre_tgt rw 0 0\n",
        "/.railgate/lustre/tunefs-dev-mapper-mdt1":
            tunefs("lmcfs-MDT0001", " mgsnode=" + STALE, "0x1")})
    remedy = forest.worst(forest.judge(tree, tmp_path, *SERVER), "MGSNODE")["remedy"]
    places = [remedy.index(f"mount -t lustre /dev/{d}") for d in ("mapper/mdt0", "mapper/mdt1", "sdb")]
    assert places == sorted(places), remedy


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_targets_are_asked_live(tmp_path, user):
    """A tunefs.lustre that answers, one that hangs, one that wants root: with a name space of its own for
    the mounts."""
    if os.geteuid() != 0:
        pytest.skip("a mount name space needs root")
    script = tmp_path / "tunefs.lustre"
    (tmp_path / "ok").write_text(tunefs("lmcfs-OST0000", " mgsnode=" + STALE))
    (tmp_path / "mounts").write_text("/dev/sdb /mnt/ost0 lustre_tgt rw 0 0\n"
                                     "/dev/sdc /mnt/ost1 lustre_tgt rw 0 0\n")
    script.write_text(f"#!/bin/sh\necho \"$@\" >>{tmp_path}/calls\n[ $2 = /dev/sdc ] && sleep 60\n"
                      f"cat {tmp_path}/ok\n")
    script.chmod(0o755)
    drop = ""
    if user == "nobody":
        script.write_text("#!/bin/sh\necho 'tunefs.lustre: Unable to open' >&2\nexit 1\n")
        drop = "setpriv --reuid 65534 --regid 65534 --clear-groups"
    command = (f"mount -t tmpfs none /usr/local/sbin && cp {script} /usr/local/sbin/ && "
               f"mkdir {tmp_path}/proc && mount -t tmpfs none {tmp_path}/proc && cd {tmp_path}/proc && "
               f"mkdir real && mount --bind /proc real && ln -s real/self real/sys real/meminfo . && "
               f"cp {tmp_path}/mounts . && mount --rbind . /proc && "
               f"exec {drop} {forest.BINARY} doctor --for lustre-server --json --interval 0")
    begun = time.monotonic()
    done = subprocess.run(["unshare", "-m", "sh", "-c", command], capture_output=True, text=True,
                          timeout=60)
    if not done.stdout:
        pytest.skip(f"no mount name space: {done.stderr}")
    assert time.monotonic() - begun < 15
    found = {f["subject"]: f for f in forest.findings(json.loads(done.stdout), "MGSNODE")}
    if user == "nobody":
        assert {f["verdict"] for f in found.values()} == {"skip"}
        assert "root could" in found["/dev/sdb"]["summary"], found
        return
    assert "timed out" in found["/dev/sdc"]["summary"].lower(), found
    assert found["/dev/sdb"]["where"] == "tunefs.lustre --dryrun /dev/sdb"
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["--dryrun /dev/sdb", "--dryrun /dev/sdc"]


def test_another_server_judges_by_the_connected_mgs(tmp_path):
    """An OSS: it knows the MGS only by the connection it has."""
    tree = mutate(lustre_server(), {"/sys/fs/lustre/mgs": None, "/.railgate/lustre/llog": None,
                                    "/.railgate/lustre/zfs": zfs_rows(STALE)})
    finding = forest.worst(forest.judge(tree, tmp_path, *SERVER), "ZFS-PROP")
    assert finding["verdict"] == "skip" and "not known" in finding["summary"]
    tree["/proc/fs/lustre/mgc/MGC172.16.44.40@o2ib/import"] = import_text("MGS")
    assert forest.worst(forest.judge(tree, tmp_path, *SERVER), "ZFS-PROP")["verdict"] == "fail"


def test_a_drop_in_orders_the_service(tmp_path):
    tree = mutate(lustre_client(), {
        "/usr/lib/systemd/system/lnet.service": "[Unit]\n",
        "/etc/systemd/system/lnet.service.d/order.conf": "[Unit]\nAfter=network-online.target\n"})
    assert forest.verdicts(forest.judge(tree, tmp_path, *CLIENT))["LN-SVC"] == "ok"


# ---- Without lnetctl ----

def test_the_kernels_table_serves_without_lnetctl(tmp_path):
    tree = mutate(lustre_client(), {
        "/.railgate/lnet/net": None,
        "/sys/kernel/debug/lnet/nis":
            "nid                      status alive refs peer  rtr   max    tx   min\n"
            "0@lo                         up     0    2    0    0     0     0     0\n"
            "172.16.44.41@o2ib            up    -1    1    8    0   256   256   255\n"})
    found = forest.verdicts(forest.judge(tree, tmp_path, *CLIENT))
    assert found["LN-NI"] == found["LN-IP"] == found["LN-CFG"] == "ok"


def test_lnet_over_tcp_meets_the_firewall(tmp_path):
    tree = mutate(lustre_client(), {
        "/.railgate/lnet/net": net_show() + TCP_NET.format(address="172.16.44.41"), NFT: CLOSED})
    finding = forest.worst(forest.judge(tree, tmp_path, *CLIENT), "FW")
    assert finding["verdict"] == "fail" and "988" in finding["summary"]
    assert "--add-port=988/tcp" in finding["remedy"]
    tree = mutate(tree, {NFT: CLOSED.replace("22", "988")})
    assert forest.verdicts(forest.judge(tree, tmp_path, *CLIENT))["FW"] == "ok"


# ---- The gateway ----

def gateway():
    tree = {**forest.system(), **forest.switch(), **forest.connectx()}
    group = "/sys/fs/cgroup/system.slice/railgate.service"
    tree.update({
        "/usr/lib/systemd/system/railgate.service":
            "[Service]\nUser=railgate\nExecStart=/usr/bin/railgate serve\nLimitMEMLOCK=infinity\n",
        f"{group}/cgroup.procs": "900\n",
        "/proc/900/limits": limits("unlimited"),
        "/proc/900/status": status("0000000000000000"),
        "/etc/railgate/railgate.conf": "# ours\nport = 9000\nrdma-memory = 1G\n",
        "/proc/net/tcp": listening(9000, 9001),
        "/.railgate/gateway/tree": TREE.format(get=ENODATA, replace=ENODATA),
    })
    return tree


GATEWAY = ["--for", "gateway", "--root", "/srv/s3"]

NFT = "/.railgate/cmd/nft-list-ruleset"
IPTABLES = "/.railgate/cmd/iptables-save"
CLOSED = ("table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy "
          "drop;\n\t\tct state established,related accept\n\t\ttcp dport 22 accept\n\t}\n}")

GATEWAY_MUTATIONS = [
    ("GW-SETTINGS", "fail", {"/etc/railgate/railgate.conf": "port = 90000\n"},
     ("GW-PORT", "GW-PIN")),
    ("GW-SETTINGS", "fail", {"/etc/railgate/railgate.conf": "prot = 9000\n"},
     ("GW-PORT", "GW-PIN")),
    ("GW-SETTINGS", "warn", {"/etc/railgate/railgate.conf": "rdma = off\n"}, ("GW-PIN",)),
    ("GW-PORT", "fail", {"/proc/net/tcp": listening(9001)}, ()),
    ("GW-PORT", "skip", {"/proc/net/tcp": "what"}, ()),
    ("GW-TREE", "fail", {"/.railgate/gateway/tree":
                         TREE.format(get=EOPNOTSUPP, replace=EOPNOTSUPP)}, ()),
    ("GW-TREE", "fail", {"/.railgate/gateway/tree": "open 2\n"}, ()),
    ("GW-TREE", "fail", {"/.railgate/gateway/tree":
                         TREE.format(get=ENODATA, replace=EACCES).replace("write 0", "write 13")}, ()),
    ("GW-TREE", "warn", {"/.railgate/gateway/tree":
                         TREE.format(get=ENODATA, replace=ENODATA).replace("900000", "9000")}, ()),
    ("GW-TREE", "fail", {"/.railgate/gateway/tree": None,
                         "/.railgate/errors": "110 /.railgate/gateway/tree\n"}, ()),
    ("FW", "fail", {NFT: CLOSED}, ()),
    ("FW", "ok", {NFT: CLOSED.replace("22", "{ 22, 9000-9001 }")}, ()),
    ("FW", "fail", {NFT: CLOSED.replace("22", "{ 22, 9002-9010 }")}, ()),
    ("FW", "fail", {NFT: CLOSED.replace("policy drop", "policy accept")
                    .replace("22 accept", "9000 drop")}, ()),
    ("FW", "ok", {NFT: CLOSED.replace("policy drop", "policy accept")}, ()),
    ("FW", "ok", {NFT: CLOSED.replace("tcp dport 22", 'iifname "ib0"')}, ()),
    ("FW", "fail", {NFT: CLOSED.replace("tcp dport 22", 'iifname "lo"')}, ()),
    ("FW", "fail", {NFT: CLOSED.replace("tcp dport 22", "udp dport 9000")}, ()),
    ("FW", "fail", {IPTABLES: "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 22 "
                              "-j ACCEPT\nCOMMIT\n"}, ()),
    ("FW", "fail", {IPTABLES: "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -m conntrack --ctstate "
                              "RELATED,ESTABLISHED -j ACCEPT\n-A INPUT -j REJECT --reject-with "
                              "icmp-host-prohibited\nCOMMIT\n"}, ()),
    ("FW", "ok", {IPTABLES: "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m multiport --dports "
                            "22,8999:9001 -j ACCEPT\nCOMMIT\n"}, ()),
    ("GW-PIN", "warn", {"/proc/meminfo": meminfo(1500000)}, ()),
    ("GW-PIN", "fail", {"/proc/900/limits": limits("536870912")}, ("MEMLOCK",)),
]


def test_gateway_is_well(tmp_path):
    report = forest.judge(gateway(), tmp_path, *GATEWAY)
    assert forest.bad(report) == {}, [forest.worst(report, i) for i in forest.bad(report)]


@pytest.mark.parametrize("check, verdict, changes, also", GATEWAY_MUTATIONS,
                         ids=[f"{m[0]}-{m[1]}-{i}" for i, m in enumerate(GATEWAY_MUTATIONS)])
def test_gateway_mutation(tmp_path, check, verdict, changes, also):
    forest.assert_turns(gateway(), tmp_path, GATEWAY, check, verdict, changes, also)


def test_a_real_tree_with_files_that_are_made(tmp_path):
    """Only with --active, and nothing is left behind."""
    served = tmp_path / "served"
    served.mkdir()
    words = ["doctor", "--for", "gateway", "--root", str(served), "--interval", "0", "--json"]
    quiet = json.loads(forest.run(*words).stdout)
    assert {forest.verdicts(quiet)[i] for i in ("ODIRECT", "REFLINK", "FALLOC")} == {"skip"}
    assert "--active" in forest.findings(quiet, "ODIRECT")[0]["summary"]
    active = json.loads(forest.run(*words, "--active").stdout)
    for check in ("ODIRECT", "REFLINK", "FALLOC"):
        assert "errno" in forest.worst(active, check)["value"]
    assert forest.verdicts(active)["REFLINK"] == forest.verdicts(active)["FALLOC"] == "ok"
    assert list(served.iterdir()) == []


def test_somebody_else_on_the_port(tmp_path):
    tree = mutate(gateway(), {"/sys/fs/cgroup/system.slice/railgate.service": None})
    finding = forest.worst(forest.judge(tree, tmp_path, *GATEWAY), "GW-PORT")
    assert finding["verdict"] == "warn" and "not the service" in finding["summary"]


# ---- AIStor ----

def rdma_program(directory):
    """A real ELF that needs libibverbs, made here."""
    source = os.path.join(directory, "x.c")
    stub = os.path.join(directory, "v.c")
    with open(source, "w", encoding="ascii") as file:
        file.write("void ibv_x(void); int main(void) { ibv_x(); return 0; }\n")
    with open(stub, "w", encoding="ascii") as file:
        file.write("void ibv_x(void); void ibv_x(void) {}\n")
    library = os.path.join(directory, "libibverbs.so.1")
    program = os.path.join(directory, "minio")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libibverbs.so.1", stub, "-o", library],
                   check=True)
    subprocess.run(["gcc", source, library, "-o", program], check=True)
    with open(program, "rb") as file:
        return file.read()


@pytest.fixture(scope="module")
def aistor(tmp_path_factory):
    return aistor_node(tmp_path_factory)


def aistor_node(tmp_path_factory):
    program = rdma_program(str(tmp_path_factory.mktemp("elf")))
    tree = {**forest.system(), **forest.switch(), **forest.connectx()}
    tree.update({
        "/usr/lib/systemd/system/minio.service":
            "[Service]\nUser=minio\nEnvironmentFile=-/etc/default/minio\n"
            "ExecStart=/usr/local/bin/minio.rdma server\nLimitMEMLOCK=infinity\n",
        "/sys/fs/cgroup/system.slice/minio.service/cgroup.procs": "700\n",
        "/proc/700/limits": limits("unlimited"),
        "/proc/700/status": status("0000000000000000"),
        "/proc/700/environ": b"MINIO_ROOT_PASSWORD=hunter2\0MINIO_RDMA_INTERNODE=on\0",
        "/etc/default/minio": "MINIO_ROOT_PASSWORD=hunter2\nMINIO_RDMA_INTERNODE=on\n",
        "/usr/local/bin/minio.rdma": program,
        "/usr/lib64/libibverbs.so.1": "",
        "/lib64/libc.so.6": "",
        "/proc/net/tcp": listening(9000, 5555),
        "/.railgate/netlink/rdma-resources": "dev mlx5_0 qp 40\nqp mlx5_0 100 2 3 700\n",
    })
    return tree


AISTOR = ["--for", "aistor"]
EARLY = "/etc/default/minio"
LATE = "/etc/minio/config.env"
ON = "MINIO_RDMA_INTERNODE=on\n"

AISTOR_MUTATIONS = [
    ("AI-BUILD", "fail", {"/usr/lib64/libibverbs.so.1": None}, ()),
    ("AI-BUILD", "skip", {"/usr/local/bin/minio.rdma": "#!/bin/sh\n"}, ()),
    ("AI-ENV", "fail", {LATE: "MINIO_RDMA_POOL_COUNT=512\n"}, ()),
    ("AI-ENV", "warn", {LATE: ON}, ()),
    ("AI-ENV", "fail", {EARLY: "export " + ON}, ()),
    ("AI-ENV", "fail", {EARLY: "MINIO_RDMA_INTERNODE = on\n"}, ()),
    ("AI-ENV", "warn", {EARLY: ON + "MINIO_RDMA_TRAFFIC_CLASS=26\n"}, ()),
    ("AI-INTERNODE", "fail", {EARLY: "MINIO_VOLUMES=/x\n"}, ()),
    ("AI-INTERNODE", "warn", {"/proc/700/environ": b"MINIO_VOLUMES=/x\0"}, ()),
    ("AI-PORT", "fail", {"/proc/net/tcp": listening(9000)}, ()),
    ("AI-PORT", "fail", {"/proc/net/tcp": listening(9000) +
                         "   1: 0100007F:15B3 00000000:0000 0A 0:0 0:0 0 0 0 1\n"}, ()),
    ("AI-QP", "fail", {"/.railgate/netlink/rdma-resources":
                       "dev mlx5_0 qp 40\nqp mlx5_0 100 2 3 0\nqp mlx5_0 101 2 0 700\n"}, ()),
    ("AI-QP", "skip", {"/.railgate/netlink/rdma-resources": None}, ("DEVRES",)),
    ("AI-POOL", "warn", {"/proc/meminfo": meminfo(30000000)}, ()),
    ("AI-POOL", "fail", {EARLY: ON + "MINIO_RDMA_POOL_BUF_SIZE=many\n"}, ()),
    ("AI-POOL", "fail", {"/proc/700/limits": limits("8589934592")}, ("MEMLOCK",)),
]


def test_aistor_is_well(tmp_path, aistor):
    report = forest.judge(aistor, tmp_path, *AISTOR)
    assert forest.bad(report) == {}, [forest.worst(report, i) for i in forest.bad(report)]
    assert {v for i, v in forest.verdicts(report).items() if i.startswith("AI-")} == {"ok"}
    assert "16 GiB" in forest.worst(report, "AI-POOL")["value"]


@pytest.mark.parametrize("check, verdict, changes, also", AISTOR_MUTATIONS,
                         ids=[f"{m[0]}-{m[1]}-{i}" for i, m in enumerate(AISTOR_MUTATIONS)])
def test_aistor_mutation(tmp_path, aistor, check, verdict, changes, also):
    forest.assert_turns(aistor, tmp_path, AISTOR, check, verdict, changes, also)


@pytest.mark.parametrize("release, word", [(forest.RHEL, "source address=NODE port port=5555 protocol=tcp accept"),
                                           (forest.DEBIAN, "ip saddr '{ NODE, NODE }' tcp dport 5555 accept")])
def test_the_peer_port_is_opened_for_nodes_only(tmp_path, aistor, release, word):
    shut = ("table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n"
            "\t\ttcp dport 22 accept\n\t}\n}\n")
    report = forest.judge(mutate(aistor, {"/etc/os-release": release, "/proc/net/tcp": listening(9000),
                                          "/.railgate/cmd/nft-list-ruleset": shut}), tmp_path, *AISTOR)
    for check in ("AI-PORT", "FW"):
        found = forest.worst(report, check)
        assert found["verdict"] == "fail" and word in found["remedy"], found
        assert "input tcp dport" not in found["remedy"] and "--add-port" not in found["remedy"], found


def test_a_large_program_is_read_whole(tmp_path, aistor):
    """Programs of hundreds of megabytes name their libraries far behind the beginning."""
    program = bytearray(aistor["/usr/local/bin/minio.rdma"])
    begin, = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    shift = 64 << 20
    shift -= shift % 4096
    # The table of segments and all that they hold move behind a gap.
    for i in range(count):
        at = begin + i * size
        kind, _, offset = struct.unpack_from("<IIQ", program, at)
        struct.pack_into("<Q", program, at + 8, offset + shift)
    struct.pack_into("<Q", program, 32, begin + shift)
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.write(program[:64])
        file.seek(shift)
        file.write(program)
    tree = mutate(aistor, {"/usr/local/bin/minio.rdma": b""})
    directory = tmp_path / "tree"
    directory.mkdir()
    forest.write(tree, str(directory))
    os.replace(path, directory / "usr/local/bin/minio.rdma")
    begun = time.monotonic()
    done = forest.run("doctor", "--sysroot", str(directory), "--json", "--binary",
                      "/usr/local/bin/minio.rdma")
    assert time.monotonic() - begun < 10
    report = json.loads(done.stdout)
    assert forest.verdicts(report)["AI-BUILD"] == "ok", forest.worst(report, "AI-BUILD")
    assert forest.findings(report, "LIBDEP")[0]["verdict"] == "ok"
    os.truncate(directory / "usr/local/bin/minio.rdma", shift - 4096)
    report = json.loads(forest.run("doctor", "--sysroot", str(directory), "--json").stdout)
    assert forest.verdicts(report)["AI-BUILD"] == "skip"


def test_a_binary_and_its_libraries(tmp_path, aistor):
    """Of any program, without starting it: in a tree, and live."""
    words = ["--binary", "/usr/local/bin/minio.rdma", "--for", "gateway"]
    before = forest.verdicts(forest.judge(aistor, tmp_path, *words))
    assert before["LIBDEP"] == "ok"
    tree = mutate(aistor, {"/usr/lib64/libibverbs.so.1": None})
    report = forest.judge(tree, tmp_path, *words)
    after = forest.verdicts(report)
    assert {i for i in after if after[i] != before[i]} == {"LIBDEP"} and after["LIBDEP"] == "fail"
    finding = forest.worst(report, "LIBDEP")
    assert finding["subject"] == "libibverbs.so.1" and "not found" in finding["summary"]
    text = mutate(aistor, {"/usr/local/bin/minio.rdma": "#!/bin/sh\n"})
    skipped = forest.findings(forest.judge(text, tmp_path, *words), "LIBDEP")[0]
    assert skipped["verdict"] == "skip"
    live = json.loads(forest.run("doctor", "--json", "--interval", "0", "--binary",
                                 forest.BINARY).stdout)
    found = [f for f in forest.findings(live, "LIBDEP") if f.get("subject") == forest.BINARY]
    assert found and found[0]["verdict"] == "ok" and "libraries" in found[0]["summary"]


def test_the_standard_build(tmp_path, aistor):
    with open(forest.BINARY, "rb") as file:
        head = file.read(1 << 20)
    assert head.startswith(b"\x7fELF")
    tree = mutate(aistor, {"/usr/local/bin/minio.rdma": static_elf()})
    finding = forest.worst(forest.judge(tree, tmp_path, *AISTOR), "AI-BUILD")
    assert finding["verdict"] == "fail" and "standard build" in finding["summary"]


def static_elf():
    """A header without any segment."""
    return struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 2, 62, 1, 0x400000, 64, 0, 0, 64,
                       56, 0, 64, 0, 0)


# ---- Secrets ----

def test_no_secret_is_captured(tmp_path):
    """Of a file that holds credentials only the lines that concern the checks are kept."""
    target = tmp_path / "captured"
    settings = tmp_path / "railgate.conf"
    settings.write_text("root-access-key = me\nroot-secret-key = hunter2\nport = 9000\n"
                        "rdma-gid-index = 3\n")
    done = forest.run("doctor", "capture", str(target), "--interval", "0", "--config",
                      str(settings))
    assert done.returncode == 0, done.stderr
    kept = (target / ".railgate/gateway/settings").read_text()
    assert "port = 9000" in kept
    for path, _, names in os.walk(target):
        for name in names:
            full = os.path.join(path, name)
            if os.path.islink(full):
                continue
            with open(full, "rb") as file:
                content = file.read()
            assert b"hunter2" not in content and b"access-key" not in content, full
    assert not os.path.exists(target / "etc/fstab")


def test_reports_hold_no_secret(tmp_path, aistor):
    tree = {**aistor, **lustre_client()}
    report = forest.judge(tree, tmp_path)
    assert "hunter2" not in json.dumps(report)


def test_strange_lustre(tmp_path):
    for content in (b"", b"\0" * 999, b"\xff" * 4096, b"- " * 9000, b"net:\n" * 5000, b":" * 65536,
                    b"a@o2ib:" * 5000, b"import:\n    state: " + b"F" * 5000):
        tree = {p: c if isinstance(c, Link) or p.endswith("/") else content
                for p, c in {**lustre_client(), **lustre_server(), **gateway()}.items()}
        forest.judge(tree, tmp_path, "--root", "/srv/s3", "--active")


def test_every_check_has_a_mutation():
    """Of the groups that are tested here and beside this file."""
    import test_machine
    turned = {m[0] for m in CLIENT_MUTATIONS + SERVER_MUTATIONS + GATEWAY_MUTATIONS +
              AISTOR_MUTATIONS + test_machine.GPU_MUTATIONS + test_machine.SERVICE_MUTATIONS +
              test_machine.CONTAINER_MUTATIONS}
    turned.add("LN-PING")  # test_ping_needs_active
    turned.add("MGSNODE")  # test_ldiskfs_mutation
    groups = ("PCI Express", "Memory and limits", "NUMA and interrupts", "GPUDirect",
              "Containers and Kubernetes", "Lustre", "LNet", "The gateway itself", "AIStor node")
    checks, mine = set(), False
    for line in forest.run("doctor", "--list").stdout.splitlines():
        if not line.startswith(" "):
            mine = line in groups
        elif mine:
            checks.add(line.split()[0])
    assert len(checks) > 50 and checks - turned == set()


def test_a_tree_that_really_hangs(tmp_path):
    """A file system in user space that never answers: its mount is a hung mount."""
    libc = ctypes.CDLL(None, use_errno=True)
    mount = tmp_path / "mount"
    mount.mkdir()
    try:
        fuse = os.open("/dev/fuse", os.O_RDWR)
    except OSError as problem:
        pytest.skip(f"no FUSE: {problem}")
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0"
    if libc.mount(b"hung", str(mount).encode(), b"fuse", 0, options.encode()) != 0:
        pytest.skip(os.strerror(ctypes.get_errno()))
    try:
        done = forest.run("doctor", "--for", "gateway", "--root", str(mount), "--interval", "0",
                          "--json")
        finding = forest.worst(json.loads(done.stdout), "GW-TREE")
        assert finding["verdict"] == "fail" and "hangs" in finding["summary"]
        assert done.returncode == 2
    finally:
        libc.umount2(str(mount).encode(), 2)
        os.close(fuse)


def test_remedies_quote_what_a_shell_would_act_on(tmp_path):
    """A mount with a blank in its name, and one that is a command."""
    for written, quoted in (("/mnt/my\\040fs", "'/mnt/my fs'"), ("/mnt/$(reboot)", "'/mnt/$(reboot)'")):
        mounts = MOUNTS.format(xattr="nouser_xattr").replace("/mnt/lustre", written)
        report = forest.judge(mutate(lustre_client(), {"/proc/mounts": mounts}), tmp_path, "--for", "lustre-client")
        remedy = forest.worst(report, "XATTR-MODE")["remedy"].splitlines()
        assert remedy[0] == f"umount {quoted}" and remedy[1].endswith(f" {quoted}"), remedy


def test_hidden_is_not_unloaded(tmp_path):
    """Without sysfs nobody knows whether LNet runs: neither a failure nor well."""
    hidden = {"/sys/class": None, "/sys/module": None, "/sys/bus": None, "/.railgate/lnet": None}
    report = forest.judge(mutate(lustre_client(), hidden), tmp_path, "--for", "lustre-client")
    assert forest.verdicts(report)["LN-MOD"] == "skip" and report["verdict"] == "warn", forest.bad(report)
    assert {"LN-MOD", "LN-NI", "DEV-RDMA"} <= set(report["unjudged"]["checks"])
    unloaded = forest.judge(mutate(lustre_client(), {"/sys/module": None}), tmp_path, "--for", "lustre-client")
    assert forest.verdicts(unloaded)["LN-MOD"] == "fail"
