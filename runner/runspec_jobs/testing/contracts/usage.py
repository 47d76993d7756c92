"""The contract for what jobs use, as tests: each node is sampled, and its record comes back."""

from __future__ import annotations

import pytest

from runspec_jobs.provider import State, SupportsUsage
from runspec_jobs.testing.contracts.client import NOBODY, Trials
from runspec_jobs.testing.contracts.following import FollowingContract
from runspec_jobs.testing.trial import Trial
from runspec_jobs.testing.world import World

HELD_BYTES, MOST_BYTES = 80_000_000, 1 << 30
# It holds a text in memory, and works for a part of the time.
HOLDING = f"""\
held=$(head -c {HELD_BYTES} /dev/zero | tr '\\0' x)
for n in 1 2 3 4 5 6; do
  i=0
  while [ $i -lt 20000 ]; do i=$((i + 1)); done
  sleep 0.7
done
echo ${{#held}}
"""


class UsageContract(FollowingContract):
    """The tests of clients whose jobs sample what they use."""

    def test_the_usage_of_a_job_is_known(self, trials: Trials, world: World) -> None:
        trial = trials(world.spec(run=HOLDING))
        client = get_sampler(trial)
        trial.make()

        assert trial.wait().state is State.SUCCEEDED

        (node,) = client.usage(trial.run, None).nodes
        assert (node.task, node.rank) == (0, 0)
        assert HELD_BYTES <= max(point.memory_bytes for point in node.points) < MOST_BYTES
        assert node.memory_bytes > HELD_BYTES
        assert 0 < node.most_cpus <= node.cpus
        assert all(0 < point.disk_bytes <= node.disk_bytes for point in node.points)
        assert node.points[-1].at_s > 2

    def test_the_usage_of_as_many_nodes_as_asked_for_is_read(
        self, trials: Trials, world: World
    ) -> None:
        if "sweep" in world.refuses:
            pytest.skip("it has no sweeps")
        trial = trials(world.spec(run="sleep 3", sweep={"lr": [1, 2]}, max_parallel=2))
        client = get_sampler(trial)
        trial.make()
        trial.wait()

        some, every = client.usage(trial.run, 1), client.usage(trial.run, None)

        assert [node.task for node in some.nodes] == [0]
        assert [node.task for node in every.nodes] == [0, 1]
        assert some.total == every.total == 2

    def test_a_run_that_never_was_used_nothing(self, trials: Trials, world: World) -> None:
        client = get_sampler(trials(world.example("single")))

        assert client.usage(NOBODY, None).nodes == ()


def get_sampler(trial: Trial) -> SupportsUsage:
    """Return the client of *trial*; skip the test if no agent of ours is in its jobs."""
    if not isinstance(trial.client, SupportsUsage):
        pytest.skip("its jobs do not sample what they use")
    return trial.client
