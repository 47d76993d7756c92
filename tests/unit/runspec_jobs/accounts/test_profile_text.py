"""Settings are added to the text of a profile without a change of anything else, or not at all."""

from __future__ import annotations

import pytest

from runspec_jobs.accounts.profile_text import add_settings

SETTINGS = {"root": "/x", "pools": ["a", "b"]}
ADDED = "  tiny:\n    root: /x\n    pools: [a, b]\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "providers:\n" + ADDED),
        ("providers:\n  local: {}  # here\n", "providers:\n" + ADDED + "  local: {}  # here\n"),
        (
            "# mine\nproviders:\n  tiny:\n    # none\n    key: 1\nprices: {a: 1}\n",
            "# mine\nproviders:\n  tiny:\n    root: /x\n    pools: [a, b]\n    # none\n    key: 1\nprices: {a: 1}\n",
        ),
    ],
    ids=["empty", "another provider", "other settings"],
)
def test_settings_are_added_and_the_rest_stays(text: str, expected: str) -> None:
    assert add_settings(text, "tiny", SETTINGS) == expected


@pytest.mark.parametrize(
    "text",
    [
        "providers: {local: {}}\n",
        "providers:\n  tiny:\n    root: /y\n",
        "prices: {a: 1}\n",
        "- providers:\n",
        "providers: [\n",
    ],
    ids=["flow", "a setting that is there", "no providers", "no mapping", "no YAML"],
)
def test_settings_are_not_added_to_an_unsuitable_profile(text: str) -> None:
    assert add_settings(text, "tiny", SETTINGS) is None
