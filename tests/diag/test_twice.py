"""Lines of one node that several files hold: each event counts once, and each of two that say the same counts."""
import datetime
import itertools
import json

import pytest

from diagnosis import diagnose

EPOCH = 1795962611  # 2026-11-29 14:30:11 UTC
DOWN = "mlx5_core 0000:3b:00.0 ens1f0np0: Link down"
ZONE = 9 * 3600


def lost(number):
    return (f"Lustre: scr-OST{number:04x}-osc-ffff8881: Connection to scr-OST{number:04x} (at 192.0.2.73@o2ib) was lost; in "
            "progress operations using this service will wait for recovery to complete")


def local(at):
    return datetime.datetime.fromtimestamp(at + ZONE, datetime.timezone.utc)


def ring(lines):
    return "".join(f"[{at - EPOCH + 1000:12.6f}] {text}\n" for at, text in lines)


def dmesg(lines, off=0):
    """dmesg -T, by whose clock everything was `off` seconds later."""
    return "".join(f"[{local(at + off):%a %b %d %H:%M:%S %Y}] {text}\n" for at, text in lines)


def messages(lines, off=0):
    return "".join(f"{local(at + off):%b %d %Y %H:%M:%S} gpu01 kernel: {text}\n" for at, text in lines)


def stated(lines, off=0):
    return "".join(f"{local(at + off):%Y-%m-%dT%H:%M:%S}.003123+09:00 gpu01 kernel: {text}\n" for at, text in lines)


def journal(lines, boot="now", booted=EPOCH - 1000):
    return "".join(json.dumps({
        "_HOSTNAME": "gpu01", "_BOOT_ID": boot, "_TRANSPORT": "kernel", "MESSAGE": text,
        "_SOURCE_MONOTONIC_TIMESTAMP": str(round((at - booted) * 1e6)), "__REALTIME_TIMESTAMP": str(round(at * 1e6))}) + "\n"
        for at, text in lines)


def total(tmp_path, *texts):
    """How often the known messages count, which no order of the files changes."""
    files = []
    for text in filter(None, texts):
        files.append(tmp_path / f"{len(files)}.log")
        files[-1].write_text(text)
    orders = list(itertools.permutations(files))
    told = [sum(one["count"] for one in diagnose("--node", "gpu01", *order)["findings"]) for order in orders]
    assert told == told[:1] * len(orders), texts
    return told[0]


@pytest.mark.parametrize("off", [0, 1, -1, 40, -40, 170, -170])
@pytest.mark.parametrize("log", [messages, stated])
def test_dmesg_and_a_wall_clock(tmp_path, log, off):
    """A sos report has both; the former is off by what the host slept."""
    lines = [(EPOCH + 60 * i, lost(i)) for i in range(5)] + [(EPOCH + 1000 * i, DOWN) for i in range(1, 4)]
    assert total(tmp_path, dmesg(lines, off), log(lines)) == 8
    # Where one has lines that the other has no more.
    assert total(tmp_path, dmesg(lines[2:], off), log(lines[:-1])) == 8
    assert total(tmp_path, dmesg(lines[:2], off), log(lines[2:])) == 8


@pytest.mark.parametrize("log", [messages, stated])
@pytest.mark.parametrize("every", [0, 1, 20, 3000])
def test_a_text_that_comes_again_counts_again(tmp_path, log, every):
    for n, m in itertools.product(range(4), repeat=2):
        if n + m:
            assert total(tmp_path, dmesg([(EPOCH + every * i, DOWN) for i in range(n)], 12),
                         log([(EPOCH + every * i, DOWN) for i in range(m)])) == max(n, m)


def test_a_copy_of_a_log_counts_nothing(tmp_path):
    lines = [(EPOCH + i // 2, DOWN) for i in range(7)]
    assert total(tmp_path, messages(lines), messages(lines), messages(lines[:5])) == 7
    assert total(tmp_path, messages(lines[:2]), messages(lines), dmesg(lines[:6], 30)) == 7


def test_a_log_whose_stamps_changed_in_an_upgrade(tmp_path):
    """What it said in one week is not what it said in the other, though each quarter of an hour has such a second."""
    week, next_week = ([(EPOCH + 864000 * i + every * k, DOWN) for k in range(900)] for i, every in ((0, 7), (1, 11)))
    assert total(tmp_path, messages(week), stated(next_week)) == 1800
    assert total(tmp_path, stated(week), messages(next_week)) == 1800


def test_ring_and_its_journal(tmp_path):
    lines = [(EPOCH - 990 + i * 100.25, lost(i)) for i in range(8)]
    assert total(tmp_path, ring(lines), journal(lines), dmesg(lines, 3)) == 8


def test_two_boots_that_went_the_same_way(tmp_path):
    """Within a millisecond: what the journal has of the boot before is not what the ring has of this one."""
    now = [(EPOCH - 990 + i * 100.25, lost(i)) for i in range(8)]
    before = [(at - 99999 + 0.000321, text) for at, text in now]
    both = journal(before, "before", EPOCH - 1000 - 99999) + journal(now)
    assert total(tmp_path, ring(now), both) == 16
    assert total(tmp_path, ring(now), both, dmesg(now, 3)) == 16
