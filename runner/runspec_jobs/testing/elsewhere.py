"""A script that plans jobs in a process of its own, with another hash seed, home and folder.

It reads jobs as JSON from standard input, and writes their plans and the names of the modules that the provider
imported. It does not import pytest, whose modules could not be told from those that the provider imports.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from runspec_jobs.load import registry
from runspec_jobs.plan import model
from runspec_jobs.provider import Facts, Source, Spec


def main() -> None:
    asked: dict[str, Any] = json.load(sys.stdin)
    # Before the modules are counted: reading entry points imports some that are none of the provider's.
    registry.list_installed()
    before = set(sys.modules)
    provider = registry.load(asked["provider"])
    plans = []
    for job in asked["jobs"]:
        facts = Facts(
            provider.options_model.model_validate(job["options"]),
            {name: Source(**source) for name, source in job["sources"].items()},
            tuple(job["requirements"]),
            job["survey"],
        )
        spec = Spec.model_validate(job["spec"])
        list(provider.check(spec, facts))
        plan = model.make_plan(provider, spec, job["token"], facts)
        plans.append(model.format_canonical(model.write_plan(plan)))
    json.dump({"plans": plans, "modules": sorted(set(sys.modules) - before)}, sys.stdout)


if __name__ == "__main__":
    main()
