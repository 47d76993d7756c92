"""The machines that each provider picks for 47 requests, as they were reviewed in tests/golden/machines.md.

`RUNSPEC_GOLDEN=write pytest tests/unit/specs/test_machines.py` writes the table anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from runspec_aws.decision import decide
from runspec_aws.options import AwsOptions
from runspec_batchai import PROVIDER as BATCH_AI
from runspec_jobs.provider import Problem
from runspec_jobs.provider.machines import ChosenMachine
from runspec_parallelcluster.decision import decide as decide_cluster
from tests.support.aws.specs import problems as aws_problems, spec as aws_spec
from tests.support.azure import batch_ai_specs as batch_ai
from tests.support.azure.specs import (
    decision as azure_decision,
    problems as azure_problems,
    spec as azure_spec,
)
from tests.support.root import ROOT
from tests.support.slurm import parallelcluster_specs as slurm

EASTUS = "https://a.eastus.batch.azure.com"
GOLDEN = ROOT / "tests" / "golden" / "machines.md"
HEAD = """# Machines for 47 requests

What each provider picks by the rule of docs/machines.md: AWS Batch and ParallelCluster in us-east-1, Azure Batch in
eastus. Each cell has the cheapest machine that is large enough, its price of an hour on demand in USD, and the others
that may stand in for it, with the multiple of that price; or why there is none. With GPUs,
Azure Batch AI has the smallest machine.
`RUNSPEC_GOLDEN=write pytest tests/unit/specs/test_machines.py` writes this page anew.

| request | aws-batch | azure-batch | parallelcluster | azure-batch-ai |
| --- | --- | --- | --- | --- |
"""
# Fields of `cluster`; `efa` is a setting of AWS Batch and ParallelCluster, and `sweep` the number of tasks.
REQUESTS: tuple[dict[str, Any], ...] = (
    {},
    {"cpus": 1, "memory": "1GiB"},
    {"cpus": 2, "memory": "3GiB"},
    {"cpus": 2, "memory": "4GiB"},
    {"cpus": 2, "memory": "15GiB"},
    {"cpus": 3},
    {"cpus": 4, "memory": "8GiB"},
    {"cpus": 4, "memory": "8GiB", "capacity": "spot"},
    {"cpus": 8, "memory": "30GiB"},
    {"cpus": 8, "memory": "200GiB"},
    {"cpus": 16, "memory": "60GiB"},
    {"cpus": 16, "memory": "60GiB", "nodes": 4},
    {"cpus": 36},
    {"cpus": 64, "memory": "250GiB"},
    {"cpus": 96, "memory": "300GiB"},
    {"cpus": 16, "memory": "900GiB"},
    {"cpus": 300},
    {"disk": "100GiB"},
    {"disk": "500GiB"},
    {"cpus": 8, "disk": "3TiB"},
    {"gpus": 1},
    {"gpus": 1, "capacity": "spot"},
    {"gpus": 1, "memory": "100GiB"},
    {"gpus": 1, "cpus": 16},
    {"gpus": 2},
    {"gpus": 4},
    {"gpus": 8},
    {"gpus": 8, "nodes": 2},
    {"gpus": 9},
    {"gpus": 1, "gpu_type": "T4"},
    {"gpus": 1, "gpu_type": "A10G"},
    {"gpus": 1, "gpu_type": "L40S"},
    {"gpus": 1, "gpu_type": "V100"},
    {"gpus": 1, "gpu_type": "A100"},
    {"gpus": 1, "gpu_type": "A100", "sweep": 8},
    {"gpus": 8, "gpu_type": "A100"},
    {"gpus": 1, "gpu_memory": "24GiB"},
    {"gpus": 1, "gpu_memory": "40GiB"},
    {"gpus": 8, "gpu_memory": "80GiB"},
    {"gpus": 8, "gpu_type": "A100-80GB"},
    {"gpus": 8, "gpu_type": "A100", "gpu_memory": "80GiB"},
    {"gpus": 1, "gpu_type": "T4", "gpu_memory": "24GiB"},
    {"gpus": 1, "gpu_memory": "300GiB"},
    {"gpus": 1, "gpu_type": "H100"},
    {"gpus": 8, "gpu_type": "H100", "nodes": 4, "placement": "close", "efa": True},
    {"gpus": 8, "gpu_type": "H200"},
    {"cpus": 4, "nodes": 2, "placement": "close", "efa": True},
)


def shown(found: Sequence[ChosenMachine], problems: Iterable[Problem]) -> str:
    """Give a cell of the table."""
    if refused := [p.what for p in problems if p.severity == "error"]:
        return f"none: {'; '.join(refused)}"
    assert found, "BUG: nothing is chosen or refused"
    first, *others = found
    price = "price unknown" if first.usd is None else f"{first.usd:g}"
    more = [
        f"{one.machine.name.removeprefix('Standard_')} {one.usd / first.usd:.2f}"
        for one in others
        if one.usd and first.usd
    ]
    return f"**{first.machine.name}** {price}" + (f"; {', '.join(more)}" if more else "")


def on_parallelcluster(cluster: dict[str, Any], more: dict[str, Any], efa: bool) -> str:
    """Give the cell of the queue of a new cluster."""
    spec, options = slurm.spec(cluster=cluster, **more), slurm.options(efa=efa)
    (choice,) = decide_cluster(spec, options).queues.values()
    return shown(choice.candidates, slurm.problems(spec, efa=efa))


def on_batch_ai(cluster: dict[str, Any], more: dict[str, Any]) -> str:
    """Give the cell of a new cluster; a job of several nodes needs a launcher there."""
    spec = batch_ai.spec(cluster=cluster, **{"launch": "mpi"} if "nodes" in cluster else {}, **more)
    return shown(BATCH_AI.offer(spec, batch_ai.facts(spec)).machines, batch_ai.problems(spec))


def rows() -> Iterator[str]:
    for asked in REQUESTS:
        cluster = {key: value for key, value in asked.items() if key not in ("efa", "sweep")}
        more = {"sweep": {"a": f"1..{asked['sweep']}"}} if "sweep" in asked else {}
        profile = {"region": "us-east-1", "efa": asked.get("efa", False)}
        one, other = aws_spec(cluster=cluster, **more), azure_spec(cluster=cluster, **more)
        on_aws = decide(one, AwsOptions.model_validate(profile)).candidates
        on_azure = azure_decision(other, batch_url=EASTUS).machines
        words = ", ".join(f"{key} {value}" for key, value in asked.items()) or "nothing"
        cells = (
            shown(on_aws, aws_problems(one, **profile)),
            shown(on_azure, azure_problems(other, batch_url=EASTUS)),
            on_parallelcluster(cluster, more, asked.get("efa", False)),
            on_batch_ai(cluster, more),
        )
        yield f"| {words} | {' | '.join(cells)} |\n"


def test_the_machines_of_all_requests_are_those_that_were_reviewed() -> None:
    assert len(REQUESTS) == 47
    found = HEAD + "".join(rows())

    if os.environ.get("RUNSPEC_GOLDEN") == "write":
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()
