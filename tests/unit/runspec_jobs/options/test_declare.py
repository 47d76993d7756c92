"""Classes of options are frozen dataclasses, made without the module `dataclasses`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.options.spec_verbs import ImportOptions, PlanOptions
from runspec_jobs.options.watch_verbs import StatusOptions


def test_fields_that_are_not_given_have_their_defaults() -> None:
    options = PlanOptions(diff=True)

    assert (options.file, options.settings, options.max_usd) == (Path("job.yaml"), (), None)
    assert (options.diff, options.full, options.words) == (True, False, ())


@pytest.mark.parametrize("given", [{}, {"file": Path("a"), "fiel": Path("b")}])
def test_a_field_that_is_missing_or_unknown_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="fi"):
        ImportOptions(**given)


def test_options_are_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        StatusOptions(run="a").run = "b"  # type: ignore[misc] # it is frozen for the type checker, too


def test_options_with_equal_fields_are_equal() -> None:
    options = StatusOptions(run="a", watch=True)

    assert options == StatusOptions(run="a").replace(watch=True) != StatusOptions(run="a")
    assert hash(options) == hash(StatusOptions(run="a", watch=True))
    assert repr(options) == "StatusOptions(run='a', watch=True, as_json=False)"
