"""The tables of stores, preemption watchers and secrets name what exists, and say so if something does not."""

from __future__ import annotations

import pytest

from runspec_agent import extensions
from runspec_agent.base.failure import USAGE, Failure
from runspec_agent.job.departure import Departure
from runspec_agent.preemption.watcher import PreemptionWatcher
from runspec_agent.store import base


@pytest.mark.parametrize("name", extensions.STORES)
def test_every_store_is_a_bucket(name: str) -> None:
    assert issubclass(extensions.load(extensions.STORES, name, "store"), base.Bucket)


@pytest.mark.parametrize("name", extensions.PREEMPTION)
def test_every_preemption_watcher_takes_the_environment(name: str) -> None:
    made = extensions.load(extensions.PREEMPTION, name, "preemption watcher")({})

    assert isinstance(made, PreemptionWatcher)


@pytest.mark.parametrize("variable", extensions.SECRETS)
def test_every_source_of_secrets_can_be_called(variable: str) -> None:
    assert callable(extensions.load(extensions.SECRETS, variable, "source of secrets"))


def test_a_store_of_an_unknown_scheme_is_an_error_that_names_those_that_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNSPEC_STORE", "ftp://host/path")

    with pytest.raises(Failure) as failure:
        base.connect()

    text = "this agent has no store for the scheme 'ftp': it has file, http, https, s3"
    assert (str(failure.value), failure.value.code) == (text, USAGE)


def test_an_unknown_preemption_watcher_is_an_error() -> None:
    with pytest.raises(Failure, match="this agent has no preemption watcher 'none': it has azure,"):
        Departure({}, {"spot": "none"}, print)
