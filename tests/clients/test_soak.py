"""The soak (soak.py) in short: what the gateway uses ends where it began. `./dev soak` is the long one."""
import soak


def test_twenty_seconds(tmp_path):
    held, problems, _ = soak.soak(tmp_path / "tree", 20, "short", every=10.0)
    assert not problems, "\n".join(problems)
    assert held > 15


def test_a_leak_is_seen():
    """The judgement itself: more of anything is a problem."""
    before = soak.Usage.__new__(soak.Usage)
    before.update({name: 0 for name in soak.NOTHING} | {"memory": 50 << 20, "descriptors": 20, "threads": 9})
    assert soak.more_than(before, before) == []
    for name in soak.NOTHING + ["descriptors", "threads"]:
        assert len(soak.more_than({**before, name: before[name] + 13}, before)) == 1, name
    if not soak.is_sanitized():
        assert len(soak.more_than({**before, "memory": 80 << 20}, before)) == 1
