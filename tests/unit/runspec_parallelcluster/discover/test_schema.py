"""The configurations of all example specs, and of many settings, are such as the library's own schema takes."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.load import source
from runspec_jobs.provider import Spec
from runspec_parallelcluster import discover, infrastructure
from runspec_parallelcluster.decision import decide
from tests.support.root import ROOT
from tests.support.slurm.parallelcluster_specs import options, spec
from tests.support.slurm.pcluster_library import interpreter

pytestmark = pytest.mark.slow

# A file of several documents is a chain, which has no plan of its own.
FILES = sorted(
    f
    for f in (ROOT / "specs").rglob("*.yaml")
    if "profile" not in f.name and "\n---\n" not in f.read_text()
)
NEW = {"mount": "/workspace", "data": "s3://bucket/prefix"}
GOOD: dict[str, dict[str, Any]] = {
    "plain": {},
    "named": {
        "cluster": "training",
        "tags": {"team": "a"},
        "bucket": "own-files",
        "s3_access": ["b-1"],
    },
    "scratch": {"storage": {"workspace": NEW}},
    "persistent": {
        "storage": {"w": {**NEW, "kind": "persistent", "throughput": 125, "keep": True}}
    },
    "there": {"storage": {"w": {"mount": "/w", "file_system": "fs-0123456789abcdef0"}}},
    "efa": {"efa": True, "custom_ami": "ami-0123456789abcdef0", "placement_group": "near"},
    "reserved": {"reservation": "cr-0123456789abcdef0"},
    "queues": {
        "queues": {
            "cpu": {"instance_types": ["c6i.4xlarge"], "settings": {"GraceTime": "60"}},
            "gpu": {
                "instance_types": ["g5.12xlarge"],
                "capacity": "spot",
                "spot_price": 4.5,
                "disk_gib": 200,
                "ami": "ami-0123456789abcdef0",
            },
        },
        "memory_scheduling": True,
        "slurm_settings": {"MinJobAge": "3600"},
    },
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "os": ({"os": "centos7"}, "Image.Os"),
    "head_node": ({"security_groups": ["sg-01234567"], "ssh_from": "everybody"}, "AllowedIps"),
    "both": (
        {"reservation": "cr-0123456789abcdef0", "reservation_group": "arn:aws:x"},
        "Capacity Reservation",
    ),
}


def read(path: Path) -> Spec:
    found, wrong = source.validate_text(source.read_file(path))
    assert found is not None, wrong
    return found


@functools.cache
def said() -> dict[str, list[list[str]]]:
    """Ask about all of them in one process: it takes a second to begin."""
    asked = {
        path.name: infrastructure.configuration(decide(read(path), options())) for path in FILES
    }
    asked |= {
        name: infrastructure.configuration(decide(spec(), options(**given)))
        for name, given in GOOD.items()
    }
    wrong = {
        f"wrong {n}": infrastructure.configuration(decide(spec(), options(**g)))
        for n, (g, _) in WRONG.items()
    }
    found = discover.ask(interpreter(), [*asked.values(), *wrong.values()])
    assert found is not None and found["version"] == "3.16.1"
    return dict(zip((*asked, *wrong), found["problems"], strict=True))


@pytest.mark.parametrize("name", [*(path.name for path in FILES), *GOOD])
def test_the_schema_of_the_library_takes_it(name: str) -> None:
    assert said()[name] == []


@pytest.mark.parametrize("name", WRONG)
def test_the_schema_names_the_wrong_field(name: str) -> None:
    text = "\n".join(": ".join(pair) for pair in said()[f"wrong {name}"])

    assert WRONG[name][1] in text


def test_a_survey_asks_once_and_keeps_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    given = options(pcluster=str(interpreter().with_name("pcluster")), os="centos7")

    first = discover.survey(spec(), given)
    monkeypatch.setattr(discover, "ask", lambda *_: pytest.fail("asked again"))

    assert discover.survey(spec(), given) == first
    assert first["schema"]["problems"][0][0] == "Image.Os"
