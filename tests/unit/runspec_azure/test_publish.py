"""A blob that is copied has its plain name when the copy has ended, and not before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runspec_azure import store
from runspec_jobs.provider import RemoteError
from runspec_jobs.provider.saved_outputs import Copy


class Container:
    """A container whose copy goes through *states*, one with each look."""

    def __init__(self, *states: str) -> None:
        self.states = list(states)
        self.sources: list[str] = []

    def get_blob_client(self, name: str) -> Any:
        def properties() -> Any:
            return SimpleNamespace(copy=SimpleNamespace(status=self.states.pop(0)))

        return SimpleNamespace(
            url=f"https://a/c/{name}",
            start_copy_from_url=self.sources.append,
            get_blob_properties=properties,
        )


def test_a_copy_that_goes_on_after_the_answer_is_waited_for() -> None:
    container: Any = Container("pending", "pending", "success")

    store.copy_blob(container, Copy("object", "plain", 3), lambda: None)

    assert (container.sources, container.states) == (["https://a/c/object"], [])


@pytest.mark.parametrize("end", ["failed", "aborted"])
def test_a_copy_that_was_given_up_is_an_error_in_words(end: str) -> None:
    container: Any = Container("pending", end)

    with pytest.raises(
        RemoteError, match=f"copy object to plain: the store stopped the copy: {end}"
    ):
        store.copy_blob(container, Copy("object", "plain", 3), lambda: None)
