"""What the contract asks of problems: that each has a place in the spec, by the keys that a file has."""

from __future__ import annotations

import pytest

from runspec_jobs.diagnostics.problem import Path
from runspec_jobs.provider import Options
from runspec_jobs.testing import documents, promises


@pytest.mark.parametrize(
    ("path", "there"),
    [
        (("outputs", 0, "from"), True),
        (("outputs", 0, "origin"), False),
        (("outputs", 1, "from"), False),
    ],
)
def test_a_place_is_named_as_in_a_file(path: Path, there: bool) -> None:
    output = {"name": "made", "path": "/job/made", "from": "first"}
    job = {"apiVersion": "runspec/v1", "name": "job", "provider": "x", "command": ["true"]}
    spec, problems = documents.parse_spec({**job, "cluster": {"nodes": 2}, "outputs": [output]})
    assert spec is not None, problems

    assert promises.has_place(spec, path, Options) is there
