"""Trees in which something is not what it should be: never a crash, never a hang, never a false OK."""

import json
import os
import random
import shutil
import subprocess
import sys
import time

import pytest

import forest
import test_machine
import test_storage
from forest import BINARY

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 30 # a busy machine, with sanitizers; a hang would be noticed by doctor itself after 15


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def binary(path):
    with open(path, "wb") as file:
        file.write(bytes(range(1, 32)) * 64 + b"\xff\xfe\x80" * 100 + b"\0" * 40)


def huge(path):
    with open(path, "wb") as file:
        file.write(b"9" * 70000)
        file.truncate(3 << 30)


def loop(path):
    os.symlink(os.path.basename(path), path)


def directory(path):
    os.makedirs(os.path.join(path, "inside"))


def device(path):
    os.symlink("/dev/zero", path)


def empty(path):
    open(path, "wb").close()


KINDS = {"binary": binary, "huge": huge, "loop": loop, "directory": directory, "fifo": os.mkfifo,
         "socketlike": device, "empty": empty}

# Who names the file and is right all the same: a text is shown, a directory or a list is meant, or
# that nothing is in it is well.
RIGHT = {"/proc/mounts", "/etc/fstab", "/etc/lnet.conf", "/etc/modprobe.d", "/proc/modules"}


def examine(root, *options):
    begun = time.monotonic()
    done = subprocess.run([BINARY, "doctor", "--sysroot", root, "--json", *options], capture_output=True,
                          timeout=4 * SECONDS)
    errors = done.stderr.decode(errors="replace")
    assert "Sanitizer" not in errors and "runtime error" not in errors, errors
    assert done.returncode in (0, 1, 2), (done.returncode, errors)
    assert time.monotonic() - begun < SECONDS
    report = json.loads(done.stdout.decode("utf-8", errors="strict"))
    assert "hung" not in report, report["hung"]
    assert done.returncode == {"fail": 2, "warn": 1}.get(report["verdict"], 0)
    return report


def unpack(name, root):
    subprocess.run([sys.executable, os.path.join(HERE, "unpack.py"), name, root], check=True)


def all_files(root):
    found = []
    for where, _, names in os.walk(root):
        found += [os.path.join(where, n) for n in names if not os.path.islink(os.path.join(where, n))]
    return sorted(found)


MACHINES = {
    "cx-roce": lambda root: unpack("cx-roce.tree", root),
    "broadcom": lambda root: unpack("broadcom.tree", root),
    "gpu": lambda root: forest.write(test_machine.gpu_host(), root),
    "lustre": lambda root: forest.write(test_storage.lustre_client(), root),
}


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_one_file_that_is_no_such_file(tmp_path, machine):
    """Each file in turn becomes something else: who says that it read it there does not say ok."""
    root = str(tmp_path / "tree")
    os.mkdir(root)
    MACHINES[machine](root)
    dice = random.Random(machine)
    wrong = []
    files = all_files(root)
    for number, path in enumerate(files):
        if number % 2 != dice.randrange(2):
            continue # every second one, others for each machine
        kind = dice.choice(sorted(set(KINDS) - {"empty"}))
        aside = path + ".aside"
        os.rename(path, aside)
        KINDS[kind](path)
        name = path[len(root):]
        for check in examine(root)["checks"]:
            for finding in check["findings"]:
                if finding["verdict"] == "ok" and finding.get("where") == name and name not in RIGHT:
                    wrong.append((kind, check["id"], finding))
        remove(path)
        os.rename(aside, path)
    assert len(files) > 60 and not wrong, wrong


@pytest.mark.parametrize("seed", range(12))
def test_much_of_a_tree_is_garbage(tmp_path, seed):
    dice = random.Random(seed)
    root = str(tmp_path / "tree")
    os.mkdir(root)
    MACHINES[sorted(MACHINES)[seed % len(MACHINES)]](root)
    for path in all_files(root):
        if dice.random() < 0.3:
            os.unlink(path)
            KINDS[dice.choice(sorted(KINDS))](path)
        elif dice.random() < 0.2:
            with open(path, "r+b") as file:
                file.truncate(dice.randrange(os.path.getsize(path) + 1))
    examine(root, "--for", dice.choice(["gateway", "client", "gpu-client", "lustre-client", "lustre-server",
                                        "aistor"]))


def test_directories_that_are_files(tmp_path):
    """What is to be listed cannot be: nothing of it is well, and the role says so."""
    for path in ("/sys/class/infiniband", "/sys/class/net", "/sys/bus/pci/devices", "/sys/class"):
        for kind in ("empty", "fifo", "loop"):
            root = str(tmp_path / "tree")
            shutil.rmtree(root, ignore_errors=True)
            os.mkdir(root)
            unpack("cx-roce.tree", root)
            remove(root + path)
            KINDS[kind](root + path)
            report = examine(root, "--for", "client")
            assert report["verdict"] in ("warn", "fail"), (path, kind)


def test_names_that_are_no_names(tmp_path):
    """Devices and interfaces with names that a shell or a terminal would act on."""
    root = str(tmp_path / "tree")
    os.mkdir(root)
    unpack("cx-roce.tree", root)
    for base in ("/sys/class/infiniband", "/sys/class/net"):
        for name in ("a\x1b[31m", "b\nc", "d" * 200, "$(touch x)", "..."):
            os.makedirs(f"{root}{base}/{name}/ports/1/gids", exist_ok=True)
            with open(f"{root}{base}/{name}/type", "w", encoding="utf-8") as file:
                file.write("1\n")
    report = examine(root)
    assert "\x1b" not in json.dumps(report, ensure_ascii=False)
