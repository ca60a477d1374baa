"""A file system that hangs or fails on command, in the operations named (tests/fault/troubled.c)."""
import contextlib
import mmap
import os
import shutil
import struct
import subprocess
import time

import pytest

import gateway as gateways

# As in troubled.c.
OPERATIONS = ["getattr", "open", "create", "read", "write", "truncate", "fsync", "fsyncdir", "mkdir", "unlink",
              "rmdir", "link", "rename", "setxattr", "getxattr", "removexattr", "opendir", "readdir", "statfs",
              "chmod", "utimens", "fallocate"]


class Trouble:
    def __init__(self, path):
        with open(path, "wb") as file:
            file.truncate(4096)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 4096)

    def begin(self, *operations, error=0):
        """Those hang, or fail with `error`."""
        self.map[16:24] = bytes(8)
        self.map[8:12] = struct.pack("<i", error)
        self.map[0:8] = struct.pack("<Q", sum(1 << OPERATIONS.index(name) for name in operations))

    def end(self):
        self.map[0:8] = bytes(8)

    def waiting(self):
        """How many operations hang."""
        return struct.unpack("<I", self.map[12:16])[0]

    def met(self):
        """Whether an operation in trouble was asked for."""
        return self.map[16:24] != bytes(8)


@contextlib.contextmanager
def troubled_mount(directory, point):
    """The file system, mounted at `point`; yields what commands it."""
    compiler, found = shutil.which("gcc"), shutil.which("pkg-config")
    flags = found and subprocess.run([found, "--cflags", "--libs", "fuse3"], capture_output=True, text=True)
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse") or not compiler or not flags or flags.returncode:
        pytest.skip("mounting a FUSE file system of one's own needs root, /dev/fuse, gcc and libfuse3-dev")
    program, below = os.path.join(directory, "troubled"), os.path.join(directory, "below")
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", "-o", program,
                    os.path.join(gateways.TOP, "tests/fault/troubled.c"), *flags.stdout.split()], check=True)
    os.makedirs(below)
    os.makedirs(point, exist_ok=True)
    trouble = Trouble(os.path.join(directory, "trouble"))
    daemon = subprocess.Popen([program, os.path.join(directory, "trouble"), below, point], stdin=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not os.path.ismount(point):
            if daemon.poll() is not None or time.monotonic() > deadline:
                pytest.skip("the FUSE file system could not be mounted")
            time.sleep(0.05)
        yield trouble
    finally:
        trouble.end()
        subprocess.run(["umount", "-l", point], capture_output=True)
        daemon.terminate()
        daemon.wait()
