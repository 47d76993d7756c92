"""Every example is planned, word for word as tests/golden has it: a plan that changes is a change to review.

`RUNSPEC_GOLDEN=write pytest tests/unit/specs/test_plans.py` writes the plans anew.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.validate import ParamValidator

from runspec_jobs.load import profile as profiles, registry, source
from runspec_jobs.load.profile import Profile
from runspec_jobs.plan import model as plan
from runspec_jobs.provider import Facts, Mount, Request, Source, Spec, requests_of
from runspec_jobs.provider.payload import pack_agent, strip_boot
from tests.support import kubernetes_objects
from tests.support.azure import arm_bodies, batch_bodies
from tests.support.kubernetes_objects import list_objects
from tests.support.root import ROOT
from tests.unit.specs import batch_ai, kubernetes_clusters, parallel_clusters, slurm_clusters

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


def read(path: Path, **fields: Any) -> Spec:
    """Give the example at *path*, with *fields* instead of its own."""
    spec, problems = source.validate_text(source.read_file(path))
    assert spec is not None, problems
    return Spec.model_validate({**spec.model_dump(exclude_unset=True), **fields})


def uploaded(mount: Mount) -> Source:
    """Give what is uploaded for a mount: a folder, or one file."""
    is_file = (ROOT / "specs" / mount.source).is_file()
    return Source("sha256:" + "5" * 64, 1 if is_file else 3, 4096, is_file)


def facts(spec: Spec, engine: str) -> Facts:
    """Give the facts of a machine that is not this one."""
    provider = registry.load(spec.provider)
    secrets = {name: f"env:{variable}" for variable, name in spec.secrets.items()}
    wanted = spec.container.requirements
    return Facts(
        options=provider.options_model.model_validate({"secrets": secrets}),
        sources={m.name: uploaded(m) for m in spec.mounts},
        requirements=("six==1.17.0",) if wanted else (),
        survey={**MACHINE, "engine": engine},
    )


def examples(provider: str, engine: str) -> list[Path]:
    """Give the examples that *provider* does not refuse: no nodes come and go in containers here, nor at Batch AI."""
    able = provider != "azure-batch-ai" and (provider, engine) != ("local", "podman")
    return [path for path in SPECS if able or not read(path).cluster.nodes.elastic]


LOCAL = [
    (path, "local", engine)
    for engine in ENGINES
    for path in examples("local", engine)
    if engine == "process" or read(path).container.image
]
# What no example asks for, because it needs an account: the example, what it asks for beside, the profile.
WORK = {"name": "work", "source": "shared://work/digits", "target": "/job/work"}
ACCOUNTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "lustre": (
        "hello",
        {"cluster": {"disk": "100GiB"}, "mounts": [WORK]},
        {"shared": {"work": "fsx:fs-0123456789abcdef0:abcdwxyz/team"}},
    ),
    "close": (
        "hello",
        {
            "cluster": {"nodes": 2, "placement": "close", "gpus": 8, "gpu_type": "A100"},
            "outputs": [{"name": "model", "path": "/job/model", "from": "first"}],
        },
        {"efa": True},
    ),
    "pool": (
        "hello",
        {"cluster": {"nodes": 2, "capacity": "pool:night"}},
        {"pools": {"night": {"queue": "night"}}},
    ),
    "reserved": (
        "hello",
        {"cluster": {"nodes": 2, "gpus": 8, "capacity": "pool:block"}},
        {
            "pools": {
                "block": {
                    "reservation": "cr-0123456789abcdef0",
                    "instance_types": ["p4d.24xlarge"],
                    "subnets": ["subnet-2"],
                }
            }
        },
    ),
}
IDENTITY = (
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/g/providers/"
    "Microsoft.ManagedIdentity/userAssignedIdentities/jobs"
)
# The same for Azure Batch.
AZURE_ACCOUNTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "close": (
        "hello",
        {
            "cluster": {"nodes": 2, "gpus": 1, "capacity": "spot-then-on-demand"},
            "outputs": [{"name": "model", "path": "/job/model", "from": "first"}],
            "container": {"image": "mine.azurecr.io/train:1", "shm": "8GiB"},
            "mounts": [WORK],
            "secrets": {"TOKEN": "token"},
        },
        {
            "shared": {"work": "files:jobstore/work"},
            "registry": "mine.azurecr.io",
            "registry_user": "mine",
            "registry_password": "env:REGISTRY_PASSWORD",
            "secrets": {"token": "env:TOKEN"},
            "batch_key": None,
            "subnet": "/subscriptions/0/resourceGroups/g/providers/Microsoft.Network/"
            "virtualNetworks/n/subnets/s",
            "public_addresses": False,
            "start_task": "echo 'a machine' > /etc/motd",
            "prefetch_image": True,
            "tags": {"team": "digits"},
        },
    ),
    "own": (
        "hello",
        {"sweep": {"seed": "1..150"}, "max_parallel": 5, "retry": {"attempts": 3}},
        {"pool": "mine", "identity": IDENTITY, "priority": 5},
    ),
    "pool": (
        "hello",
        {"cluster": {"nodes": 2, "capacity": "pool:night"}},
        {"pools": {"night": {"pool": "mine"}}},
    ),
    "identity": (
        "hello",
        {
            "cluster": {"nodes": 2},
            "container": {"image": "mine.azurecr.io/train:1"},
            "mounts": [{"name": "sets", "source": "shared://sets/a", "target": "/job/sets"}],
        },
        {
            "identity": IDENTITY,
            "subscription": "00000000-0000-0000-0000-000000000000",
            "resource_group": "g",
            "registry": "mine.azurecr.io",
            "shared": {"sets": "blob:others/sets"},
            "storage_key": None,
            "subnet": "/subscriptions/0/resourceGroups/g/providers/Microsoft.Network/"
            "virtualNetworks/n/subnets/s",
            "public_addresses": False,
            "start_task": "true",
            "tags": {"team": "digits"},
        },
    ),
}
CLOUD = [(path, "aws-batch", "batch") for path in examples("aws-batch", "batch")]
CLOUD += [(ROOT / "specs" / f"{row[0]}.yaml", "aws-batch", name) for name, row in ACCOUNTS.items()]
BATCH_AI = [(path, "azure-batch-ai", "batchai") for path in examples("azure-batch-ai", "batchai")]
BATCH_AI += [
    (ROOT / "specs" / f"{row[0]}.yaml", "azure-batch-ai", name)
    for name, row in batch_ai.ACCOUNTS.items()
]
ON_AZURE = [(path, "azure-batch", "batch") for path in examples("azure-batch", "batch")]
ON_AZURE += [
    (ROOT / "specs" / f"{row[0]}.yaml", "azure-batch", name) for name, row in AZURE_ACCOUNTS.items()
]
ON_SLURM = [(path, "slurm", "unknown") for path in examples("slurm", "unknown")]
ON_SLURM += [
    (ROOT / "specs" / f"{row[0]}.yaml", "slurm", name)
    for name, row in slurm_clusters.ACCOUNTS.items()
]
ON_PARALLELCLUSTER = [
    (path, "parallelcluster", "made") for path in examples("parallelcluster", "made")
]
ON_PARALLELCLUSTER += [
    (ROOT / "specs" / f"{row[0]}.yaml", "parallelcluster", name)
    for name, row in parallel_clusters.ACCOUNTS.items()
]
ON_KUBERNETES = [(path, "kubernetes", "eks") for path in examples("kubernetes", "eks")]
ON_KUBERNETES += [
    (ROOT / "specs" / f"{row[0]}.yaml", "kubernetes", name)
    for name, row in kubernetes_clusters.ACCOUNTS.items()
]
CASES = [
    *LOCAL,
    *CLOUD,
    *ON_AZURE,
    *BATCH_AI,
    *ON_SLURM,
    *ON_PARALLELCLUSTER,
    *ON_KUBERNETES,
]
RIGHTS = [
    ("aws-batch", "batch"),
    ("azure-batch", "batch"),
    ("azure-batch", "identity"),
    ("kubernetes", "gpus"),
]
ROLE = "arn:aws:iam::123456789012:role/job"
AWS = {
    "region": "eu-central-1",
    "bucket": "jobs",
    "job_role": ROLE,
    "execution_role": ROLE.replace("job", "execution"),
    "instance_role": "arn:aws:iam::123456789012:instance-profile/machine",
    "subnets": ["subnet-1", "subnet-2"],
    "security_groups": ["sg-1"],
}


AZURE = {
    "batch_url": "https://jobs.westeurope.batch.azure.com",
    "storage_account": "jobstore",
    "container": "jobs",
    "batch_key": "env:AZURE_BATCH_KEY",
    "storage_key": "env:AZURE_STORAGE_KEY",
}
CLOUDS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "aws-batch": (
        AWS,
        "aws-sm:arn:aws:secretsmanager:eu-central-1:123456789012:secret:{}-a1b2c3",
        ACCOUNTS,
    ),
    "azure-batch": (AZURE, "env:{}", AZURE_ACCOUNTS),
    "slurm": ({}, "env:{}", slurm_clusters.ACCOUNTS),
    "parallelcluster": (parallel_clusters.PROFILE, "env:{}", parallel_clusters.ACCOUNTS),
    "kubernetes": (kubernetes_clusters.PROFILE, "env:{}", kubernetes_clusters.ACCOUNTS),
}


def cloud_facts(spec: Spec, more: dict[str, Any], found: dict[str, Any]) -> Facts:
    """Give the facts of an account that is nobody's."""
    names = spec.secrets.values()
    profile, secret, _ = CLOUDS[spec.provider]
    options = {**profile, "secrets": {name: secret.format(name) for name in names}, **more}
    there = Profile(providers={spec.provider: options})
    alone = spec.model_copy(update={"providers": {}})
    model = registry.load(spec.provider).options_model
    typed, *problems = profiles.merge_options(model, spec.provider, alone, there)
    assert typed is not None, problems
    return facts(spec, "batch")._replace(options=typed, survey=found)


def batch_ai_facts(spec: Spec, more: dict[str, Any]) -> Facts:
    """Give the facts of an account that is nobody's, with what the example says of Batch AI."""
    secrets = {name: f"env:{variable}" for variable, name in spec.secrets.items()}
    secrets["storage-key"] = "env:STORAGE_KEY"
    there = Profile(providers={"azure-batch-ai": {**batch_ai.PROFILE, "secrets": secrets, **more}})
    model = registry.load("azure-batch-ai").options_model
    typed, *problems = profiles.merge_options(model, "azure-batch-ai", spec, there)
    assert typed is not None, problems
    return facts(spec, "batchai")._replace(options=typed, survey={})


def prepared(path: Path, provider: str, engine: str) -> tuple[Any, Spec, Facts]:
    rows = {"azure-batch-ai": batch_ai.ACCOUNTS, **{name: row[2] for name, row in CLOUDS.items()}}
    _, fields, profile = rows.get(provider, {}).get(engine, ("", {}, {}))
    spec = read(path, provider=provider, **fields)
    if provider == "azure-batch-ai":
        found = batch_ai_facts(spec, profile)
    else:
        there = slurm_clusters.survey(engine)
        found = facts(spec, engine) if provider == "local" else cloud_facts(spec, profile, there)
    return registry.load(provider), spec, found


def planned(path: Path, provider: str, engine: str) -> plan.Plan:
    known, spec, found = prepared(path, provider, engine)
    assert [p for p in known.check(spec, found) if p.severity == "error"] == []
    return plan.make_plan(known, spec, "abc123", found)


def shown(made: plan.Plan) -> str:
    """Give *made* for review; what travels into jobs is tested where it is made, and only named here."""
    text = json.dumps(plan.write_plan(made), indent=1, ensure_ascii=False) + "\n"
    if made.provider == "local":
        return text
    text = text.replace(json.dumps(strip_boot(), ensure_ascii=False), '"BOOT"')
    text = text.replace(hashlib.sha256(pack_agent()).hexdigest(), "INSIDE")
    # Names by content change with them.
    return re.sub(r"(sha256:|runspec-[a-z0-9-]+-)[0-9a-f]{12,64}\b", r"\1HASH", text)


@pytest.mark.parametrize(
    "path,provider,engine", CASES, ids=[f"{p.stem}-{name}-{e}" for p, name, e in CASES]
)
def test_every_example_is_planned_as_it_was_reviewed(
    path: Path, provider: str, engine: str
) -> None:
    made = planned(path, provider, engine)

    assert shown(made) == reviewed(f"{provider}/{path.stem}-{engine}.json", shown(made))


def reviewed(name: str, found: str) -> str:
    golden = GOLDEN / name
    if os.environ.get("RUNSPEC_GOLDEN") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(found)
    return golden.read_text()


@pytest.mark.parametrize("provider,engine", RIGHTS)
def test_rights_are_those_that_were_reviewed(provider: str, engine: str) -> None:
    """They are the rights of the person who applies, and those of the job."""
    path = ROOT / "specs" / "hello.yaml"
    known, spec, facts = prepared(path, provider, engine)
    steps = plan.make_plan(known, spec, plan.PREVIEW, facts).steps

    rights = {
        who: known.policy(steps, facts.options, of_job=who == "job") for who in ("applies", "job")
    }

    found = json.dumps(rights, indent=1) + "\n"
    found = re.sub(r"(runspec-[a-z0-9-]+-)[0-9a-f]{12,64}\b", r"\1HASH", found)
    assert found == reviewed(f"{provider}/hello-{engine}-policy.json", found)


@pytest.mark.parametrize("path,provider,engine", CLOUD, ids=[f"{p.stem}-{e}" for p, _, e in CLOUD])
def test_the_sdk_itself_finds_nothing_wrong_with_a_request(
    path: Path, provider: str, engine: str
) -> None:
    """By botocore's own models, and the enumerations that its validator leaves out."""
    made = planned(path, provider, engine)

    asked = [call for s in made.steps for r in (s.do, s.undo) if r for call in requests_of(r)]
    requests = [request for request in asked if request.service != "runspec"]
    assert {r.operation: wrong(r) for r in requests if wrong(r)} == {}


@pytest.mark.parametrize(
    "path,provider,engine", ON_AZURE, ids=[f"{p.stem}-{e}" for p, _, e in ON_AZURE]
)
def test_azures_own_models_and_description_find_nothing_wrong_with_a_request(
    path: Path, provider: str, engine: str
) -> None:
    made = planned(path, provider, engine)

    asked = [r for s in made.steps for r in (s.do, s.undo) if r and r.service == "batch"]
    bodies = [(r.operation, r.params.get("body")) for r in asked]
    assert [batch_bodies.by_the_sdk(*one) for one in bodies] == [[]] * len(bodies)
    assert [batch_bodies.by_the_description(*one) for one in bodies] == [[]] * len(bodies)
    managed = [s.do.params["body"] for s in made.steps if s.do.service == "arm"]
    assert [arm_bodies.by_the_sdk(one) for one in managed] == [[]] * len(managed)
    assert [arm_bodies.by_the_description(one) for one in managed] == [[]] * len(managed)


@pytest.mark.parametrize(
    "path,provider,engine", ON_KUBERNETES, ids=[f"{p.stem}-{e}" for p, _, e in ON_KUBERNETES]
)
def test_the_api_server_of_kubernetes_would_take_each_object(
    path: Path, provider: str, engine: str
) -> None:
    made = planned(path, provider, engine)

    objects = list_objects(made.steps)
    assert {body["kind"]: kubernetes_objects.list_faults(body) for body in objects} == {
        body["kind"]: [] for body in objects
    }


@pytest.mark.parametrize(
    "change",
    [
        {"vmsize": "a"},
        {"taskSlotsPerNode": "1"},
        {"taskSchedulingPolicy": {"nodeFillType": "pack"}},
    ],
)
def test_what_the_resource_manager_would_refuse_is_found_by_both(change: dict[str, Any]) -> None:
    found = planned(ROOT / "specs" / "hello.yaml", "azure-batch", "identity")
    body = next(s.do.params["body"] for s in found.steps if s.id == "pool")
    wrong_body = {**body, "properties": {**body["properties"], **change}}

    assert arm_bodies.by_the_sdk(wrong_body)
    if arm_bodies.SCHEMA.exists():
        assert arm_bodies.by_the_description(wrong_body)


@pytest.mark.parametrize(
    "change,said",
    [
        ({"vmsize": "a"}, "Pool_Add.vmsize is not known"),
        ({"state": "active"}, "Pool_Add.state is not known"),
        ({"taskSlotsPerNode": "1"}, "Pool_Add.taskSlotsPerNode: '1' is no int"),
        ({"taskSchedulingPolicy": {"nodeFillType": "full"}}, "none of"),
        ({"taskSchedulingPolicy": {}}, "nodeFillType is missing"),
    ],
)
def test_the_models_would_find_a_wrong_key(change: dict[str, Any], said: str) -> None:
    found = planned(ROOT / "specs" / "hello.yaml", "azure-batch", "batch")
    body = next(s.do.params["body"] for s in found.steps if s.id == "pool")

    wrong_with_it = batch_bodies.by_the_sdk("Pool_Add", {**body, **change})

    assert [text for text in wrong_with_it if said in text] != []


def wrong(request: Request) -> list[str]:
    """Give what botocore has against *request*; what is not known yet is text by then."""
    names = {xform_name(name): name for name in model(request.service).operation_names}
    shape = model(request.service).operation_model(names[request.operation]).input_shape
    params = text_for_marks(request.params)
    report = ParamValidator().validate(params, shape).generate_report()
    return ([report] if report else []) + list(not_enumerated(params, shape, ""))


@functools.cache
def model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


def text_for_marks(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1 and next(iter(value)).startswith("$"):
            return "text"
        return {key: text_for_marks(item) for key, item in value.items()}
    return [text_for_marks(item) for item in value] if isinstance(value, list) else value


def not_enumerated(value: Any, shape: Any, at: str) -> Iterator[str]:
    if shape.type_name == "structure":
        for key, item in value.items():
            yield from not_enumerated(item, shape.members[key], f"{at}.{key}")
    elif shape.type_name == "list":
        for item in value:
            yield from not_enumerated(item, shape.member, at)
    elif getattr(shape, "enum", None) and value not in shape.enum:
        yield f"{at}: {value} is none of {shape.enum}"


def test_no_golden_plan_is_of_an_example_that_has_gone() -> None:
    there = {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.json")}
    there -= {str(path.relative_to(GOLDEN)) for path in (GOLDEN / "ends").iterdir()}

    plans = {f"{name}/{p.stem}-{engine}.json" for p, name, engine in CASES}
    assert there == plans | {f"{name}/hello-{engine}-policy.json" for name, engine in RIGHTS}
