"""The environment contract, read: defaults, and errors that name the variable."""

from __future__ import annotations

import socket

import pytest

from runspec_agent.base.job_env import Failure, read


def test_a_job_on_one_node_needs_no_words_at_all() -> None:
    """It is rank 0 of 1, launched as it is."""
    words = read({})

    assert (words.rank, words.nodes, words.slots, words.attempt) == (0, 1, 1, 1)
    assert (words.launch, words.host) == ("none", socket.gethostname())
    assert (words.meet_timeout_s, words.lease_s, words.grace_s) == (600, 30, 10)


@pytest.mark.parametrize(
    "env, said",
    [
        ({"RUNSPEC_RANK": "one"}, "RUNSPEC_RANK: 'one' is not a number"),
        ({"RUNSPEC_RANK": "-1"}, "RUNSPEC_RANK: -1 is less than 0"),
        ({"RUNSPEC_RANK": "1"}, "RUNSPEC_RANK is 1, but RUNSPEC_NODES is 1"),
        ({"RUNSPEC_SLOTS": "0"}, "RUNSPEC_SLOTS: 0 is less than 1"),
        ({"RUNSPEC_GRACE_S": "nan"}, "RUNSPEC_GRACE_S: nan is less than 0.0"),
        (
            {"RUNSPEC_LAUNCH": "slurm"},
            "RUNSPEC_LAUNCH: 'slurm' is not one of none, mpi, horovod, torchrun",
        ),
        ({"RUNSPEC_HOST": "a b"}, "RUNSPEC_HOST: 'a b' has white space in it"),
        (
            {"RUNSPEC_NODES": "2", "RUNSPEC_LAUNCH": "mpi"},
            "a job of several nodes needs RUNSPEC_MEET",
        ),
    ],
)
def test_a_wrong_variable_is_named(env: dict[str, str], said: str) -> None:
    """Exit 2."""
    with pytest.raises(Failure) as raised:
        read(env)

    assert str(raised.value).startswith(said)
    assert raised.value.code == 2


def test_an_empty_word_is_one_that_is_not_given() -> None:
    """As services leave them."""
    assert read({"RUNSPEC_RANK": "", "RUNSPEC_LEADER": "", "RUNSPEC_LAUNCH": ""}).leader is None
