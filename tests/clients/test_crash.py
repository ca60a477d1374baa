"""A sample of the ways in which a whole gateway is killed while it changes its tree (crash.py).
`./dev crash` kills at each point of each kind of request."""
import os
import random

import crash
import pytest

pytestmark = pytest.mark.skipif(not os.path.exists(crash.BINARY), reason="no build of the crash points")


RDMA_CASES = 3  # of a run: libfabric takes its time to begin, at both ends


@pytest.fixture
def numbers():
    seed = random.SystemRandom().randrange(10 ** 6)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture
def begin(tmp_path):
    runs = []

    def begin_one(mask, cases):
        runs.append(crash.Run(str(tmp_path), mask))
        runs[-1].plan(cases)
        return runs[-1]

    yield begin_one
    for run in runs:
        run.close()


def test_killed_at_every_point(begin, numbers):
    killed = set()
    for mask in ("", crash.BARE):
        run = begin(mask, crash.HTTP_CASES)
        run.kill_at(crash.each_point_once(run, numbers, but=killed))
        assert run.end() > 0  # else no sweep was needed
        assert not run.problems, "\n".join(run.problems)
        killed |= run.killed.keys()
    assert killed == crash.points_of_the_code()


def test_killed_while_a_client_uses_rdma(begin, numbers):
    cases = numbers.sample(crash.RDMA_CASES, RDMA_CASES)
    run = begin("", cases)
    run.kill_at((case, numbers.randrange(len(run.plans[case][1]))) for case in cases)
    run.end()
    assert not run.problems, "\n".join(run.problems)
    assert run.trials == RDMA_CASES


def test_killed_in_traffic(begin, numbers):
    """What was acknowledged to anybody is there."""
    run = begin("", [])
    acknowledged = [crash.kill_in_traffic(run, numbers, most) for most in (100, 1000, 3000)]
    run.end()
    assert not run.problems, "\n".join(run.problems)
    assert sum(acknowledged) > 10, acknowledged
