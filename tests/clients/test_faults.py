"""A sample of the calls that fail under a gateway (faults.py). `./dev faults` lets each fail."""
import random

import faults
import pytest

# Every so many-th call of a kind, from a random one on.
STEPS = {"allocation": 12, "files": 7, "short-files": 4, "sockets": 4, "short-sockets": 4, "resources": 5}

# Of a PUT each call fails: what must be met does not hang on the numbers.
WHOLE = {"allocation": "ENOMEM", "files": "EIO", "sockets": "ECONNRESET", "resources": "EMFILE"}


def test_a_sample_of_calls_fails(tmp_path):
    seed = random.SystemRandom().randrange(10 ** 6)
    numbers = random.Random(seed)

    def plan():
        for kind, error in WHOLE.items():
            yield kind, faults.Put, getattr(faults.errno, error), False, 1, 0
        for case in faults.CASES:
            for kind, step in STEPS.items():
                error = numbers.choice(faults.ERRORS[kind])
                lasting = faults.may_last(kind, error) and numbers.random() < 0.3
                yield kind, case, getattr(faults.errno, error), lasting, step, numbers.randrange(step)

    run = faults.run_all(str(tmp_path), plan())
    if not run:
        pytest.skip("no C compiler")
    assert not run.problems, f"seed {seed}:\n" + "\n".join(run.problems[:20])
    assert run.trials > 500
    assert {"realloc", "openat2", "openat64", "fsync", "fsetxattr", "linkat", "recv", "pthread_create"} <= run.seen
