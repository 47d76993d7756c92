"""Every example is planned, word for word as tests/golden has it: a plan that changes is a change to review.

`RUNSPEC_GOLDEN=write pytest tests/unit/specs/test_plans.py` writes the plans anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runspec import job, plan, registry
from runspec.provider import Facts, Source, Spec

ROOT = Path(__file__).resolve().parents[3]
SPECS = sorted((ROOT / "specs").glob("*.yaml"))
GOLDEN = ROOT / "tests" / "golden"
ENGINES = ("process", "podman")
MACHINE = {
    "root": "/state/local",
    "cpus": 8,
    "gpus": 0,
    "store": {},
    "engine_why": "the test says so",
    "python": {"path": "/usr/bin/python3.11", "version": "3.11.7"},
}


def read(path: Path) -> Spec:
    spec, problems = job.validated(job.read_file(path))
    assert spec is not None, problems
    return spec


def facts(spec: Spec, engine: str) -> Facts:
    """Give the facts of a machine that is not this one."""
    provider = registry.load(spec.provider)
    secrets = {name: f"env:{variable}" for variable, name in spec.secrets.items()}
    wanted = spec.container.requirements
    return Facts(
        options=provider.options_model.model_validate({"secrets": secrets}),
        sources={m.name: Source("sha256:" + "5" * 64, 3, 4096) for m in spec.mounts},
        requirements=("six==1.17.0",) if wanted else (),
        survey={**MACHINE, "engine": engine},
    )


CASES = [
    (path, engine)
    for path in SPECS
    for engine in ENGINES
    if engine == "process" or read(path).container.image
]


@pytest.mark.parametrize("path,engine", CASES, ids=[f"{p.stem}-{e}" for p, e in CASES])
def test_every_example_is_planned_as_it_was_reviewed(path: Path, engine: str) -> None:
    spec = read(path)
    golden = GOLDEN / spec.provider / f"{path.stem}-{engine}.json"

    made = plan.make(registry.load(spec.provider), spec, "abc123", facts(spec, engine))

    found = json.dumps(plan.to_json(made), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("RUNSPEC_GOLDEN") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(found)
    assert found == golden.read_text()


def test_no_golden_plan_is_of_an_example_that_has_gone() -> None:
    there = {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.json")}

    assert there == {f"{read(p).provider}/{p.stem}-{engine}.json" for p, engine in CASES}
