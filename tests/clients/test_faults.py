"""A sample of the calls that fail under a gateway (faults.py). `./dev faults` lets each fail."""
import random

import faults
import pytest

# Every so many-th call of a kind, from a random one on.
STEPS = {"allocation": 12, "files": 7, "short-files": 4, "sockets": 4, "short-sockets": 4, "resources": 5}


def test_a_sample_of_calls_fails(tmp_path):
    seed = random.SystemRandom().randrange(10 ** 6)
    numbers = random.Random(seed)

    def plan():
        for case in faults.CASES:
            for kind, step in STEPS.items():
                # Where everything is stale so is the bucket, and that it is gone is the right answer;
                # test_trouble.py has that error.
                error = numbers.choice([one for one in faults.ERRORS[kind] if one != "ESTALE"])
                lasting = faults.may_last(kind, error) and numbers.random() < 0.3
                yield kind, case, getattr(faults.errno, error), lasting, step, numbers.randrange(step)

    run = faults.run_all(str(tmp_path), plan())
    if not run:
        pytest.skip("no C compiler")
    assert not run.problems, f"seed {seed}:\n" + "\n".join(run.problems[:20])
    assert run.trials > 500
    assert {"malloc", "openat2", "fsync", "fsetxattr", "recv"} <= run.seen
