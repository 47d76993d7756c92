"""Tasks of SkyPilot become specs: what each key is in a spec, and what is listed as lost."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from runspec_imports import SKYPILOT
from runspec_jobs.provider import OtherFormat, UsageError
from runspec_jobs.provider.types import ForeignFile, Imported
from tests.support.imports import list_losses, read_all, read_only, read_profile


def convert(text: str, provider: str | None = None) -> Imported:
    return SKYPILOT.imports(ForeignFile("train.sky.yaml", text), provider)


def take(resources: str = "", more: str = "", provider: str | None = None) -> Imported:
    block = f"resources: {resources}\n" if resources else ""
    return convert(f"run: echo a\n{block}{more}", provider)


@pytest.mark.parametrize(
    ("resources", "field", "value"),
    [
        ("{cpus: 8+, memory: 32+}", "cpus", 8),
        ("{cpus: 4, memory: 32}", "memory", 32 << 30),
        ("{accelerators: H100}", "gpus", 1),
        ("{accelerators: 'A100-80GB:8'}", "gpu_types", ("A100-80GB",)),
        ("{accelerators: {V100: 2}}", "gpus", 2),
        ("{accelerators: '40GB+'}", "gpu_memory", 40 << 30),
        ("{disk_size: 512}", "disk_bytes", 512 << 30),
        ("{disk_size: 512GB}", "disk_bytes", 512 << 30),
        ("{disk_tier: high}", "disk_tier", "high"),
        ("{disk_size: 512, disk_tier: ultra}", "disk_tier", "best"),
        ("{disk_size: 512, disk_tier: low}", "disk_bytes", 512 << 30),
        ("{disk_tier: none}", "disk", None),
        ("{use_spot: true}", "bought", "spot"),
        ("{any_of: [{use_spot: true}, {use_spot: false}]}", "bought", "spot-then-on-demand"),
    ],
)
def test_resources_become_the_machines_of_a_node(resources: str, field: str, value: Any) -> None:
    imported = take(resources)

    assert getattr(read_only(imported).cluster, field) == value
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    "resources",
    ["{accelerators: ['L4:1', 'T4:1']}", "{ordered: [{accelerators: L4}, {accelerators: 'T4:1'}]}"],
)
def test_alternatives_of_accelerators_are_types_in_their_order(resources: str) -> None:
    imported = take(resources)

    read_only(imported)
    assert "gpu_type: [L4, T4]" in imported.spec
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    ("resources", "provider", "settings"),
    [
        ("{infra: aws/us-east-1}", "aws-batch", {"region": "us-east-1"}),
        ("{cloud: AWS, region: us-west-2}", "aws-batch", {"region": "us-west-2"}),
        (
            "{infra: aws, instance_type: p4d.24xlarge}",
            "aws-batch",
            {"instance_types": ["p4d.24xlarge"]},
        ),
        (
            "{infra: azure, instance_type: Standard_D2s_v5}",
            "azure-batch",
            {"vm_size": "Standard_D2s_v5"},
        ),
        ("{infra: slurm/mine/gpu}", "slurm", {"partition": "gpu"}),
        ("{any_of: [{infra: gcp}, {infra: aws}]}", "aws-batch", {}),
        ("{cloud: gcp}", "local", {}),
    ],
)
def test_the_service_that_a_task_names_is_the_provider(
    resources: str, provider: str, settings: dict[str, Any]
) -> None:
    spec = read_only(take(resources))

    assert (spec.provider, dict(spec.providers.get(provider, {}))) == (provider, settings)


def test_a_provider_that_is_named_replaces_the_service() -> None:
    imported = take("{infra: aws/us-east-1, labels: {team: a}}", provider="slurm")

    assert read_only(imported).provider == "slurm"
    assert len(list_losses(imported)) == 2


def test_envs_without_a_value_and_secrets_are_the_callers() -> None:
    imported = take(more="envs: {A: '1', B: }\nsecrets: {HF_TOKEN: , KEY: abcdefg12}\n")

    spec = read_only(imported)
    assert spec.env["A"] == "1" and "  B:\n    from: caller\n" in imported.spec
    assert dict(spec.secrets) == {"HF_TOKEN": "env:HF_TOKEN", "KEY": "env:KEY"}
    assert "abcdefg12" not in str(imported)


def test_variables_of_skypilot_in_scripts_become_ours() -> None:
    run = (
        'M=$(echo "$SKYPILOT_NODE_IPS" | head -n1)\n'
        "x $SKYPILOT_NODE_RANK ${SKYPILOT_NUM_NODES} $SKYPILOT_NUM_GPUS_PER_NODE\n"
        "for ip in $SKYPILOT_NODE_IPS; do :; done\n"
    )
    text = "".join(f"  {line}\n" for line in run.splitlines())
    spec = read_only(convert(f"resources: {{accelerators: 'L4:4'}}\nnum_nodes: 2\nrun: |\n{text}"))

    script = spec.run or ""
    assert "M=$RUNSPEC_LEADER\nx $RUNSPEC_RANK ${RUNSPEC_NODES} $SKYPILOT_NUM_GPUS" in script
    assert "export SKYPILOT_NUM_GPUS_PER_NODE=4\n" in script
    assert 'export SKYPILOT_NODE_IPS="$(cut -d" " -f1 "$RUNSPEC_HOSTFILE")"\n' in script
    assert spec.cluster.nodes.max == 2


def test_folders_beside_the_file_are_mounted() -> None:
    imported = take(more="workdir: code\nfile_mounts: {/configs: ./configs, ~/.rc: ~/.rc}\n")

    mounts = [(m.source, m.target) for m in read_only(imported).mounts]
    assert mounts == [("./code", "/job/workdir"), ("./configs", "/configs"), ("~/.rc", "/job/rc")]
    assert list_losses(imported) == []


def test_a_path_that_is_elsewhere_in_the_job_is_so_in_the_scripts() -> None:
    spec = read_only(convert("file_mounts: {~/d: ./d}\nrun: cat ~/d/a ~/data\n"))

    assert (spec.run or "").endswith("cat ${mounts.d}/a ~/data\n")


def test_a_bucket_that_a_task_writes_becomes_an_output() -> None:
    mounts = "file_mounts:\n  /out: {name: $BUCKET, mode: MOUNT}\n"
    imported = convert(f"envs: {{BUCKET: mine}}\nrun: a\n{mounts}")
    (output,) = read_only(imported).outputs

    said = "/out is an output, whose saves are in s3://mine, too"
    assert [note for note in imported.notes if said in note]
    assert (output.name, output.path, output.sync) == ("mine", "/out", 60)
    assert output.target == "s3://mine"
    gcs = "file_mounts: {/out: {name: mine, store: gcs}}\n"
    assert "bucket mine" in list_losses(convert(f"run: a\n{gcs}"))[0]


def test_a_bucket_of_another_owner_is_mounted_and_read() -> None:
    imported = take(
        "{infra: aws}",
        "file_mounts:\n  /a: s3://theirs/data/\n  /b: {source: 's3://theirs', mode: COPY}\n"
        "  /c: {source: 's3://mine', mode: MOUNT}\n  /d: gs://no/d\n",
    )

    sources = [mount.source for mount in read_only(imported).mounts]
    assert sources == ["s3://theirs/data", "s3://theirs", "s3://mine"]
    assert [loss.split(": ")[1] for loss in list_losses(imported)] == [
        "writing to /c",
        "file_mounts./d",
    ]


def test_a_container_of_blob_storage_is_mounted_on_azure() -> None:
    mounts = "file_mounts: {/a: 'https://acct.blob.core.windows.net/data/set'}\n"

    (mount,) = read_only(take("{infra: azure}", mounts)).mounts
    assert mount.source == "az://acct/data/set"
    assert len(list_losses(take("{infra: aws}", mounts))) == 1


def test_a_repository_is_cloned_by_the_job() -> None:
    url = "https://example.org/a b.git"
    run = read_only(take(more=f"workdir: {{url: '{url}', ref: v1}}\n")).run or ""

    assert f"git clone '{url}' . && git checkout v1; }} || exit 1\n" in run


@pytest.mark.parametrize(
    ("resources", "more", "loss"),
    [
        ("{image_id: ami-0123}", "", "train.sky.yaml:2: resources.image_id: "),
        ("{accelerators: tpu-v5e-8}", "", "train.sky.yaml:2: accelerator 'tpu-v5e-8'"),
        ("{memory: 3x}", "", "train.sky.yaml:2: resources.memory: it is not a plain number"),
        ("", "config: {a: b}\n", "train.sky.yaml:2: config: runspec has no such setting"),
        ("", "service: {replicas: 2}\n", "train.sky.yaml:2: service: "),
        ("", "file_mounts: {/d: gs://b/d}\n", "train.sky.yaml:2: file_mounts./d: "),
        ("{accelerators: ['L4:1', 'T4:2']}", "", "train.sky.yaml:2: 2 x T4: each"),
    ],
)
def test_a_lost_setting_is_named_with_its_line(resources: str, more: str, loss: str) -> None:
    imported = take(resources, more)

    read_only(imported)
    assert [found.startswith(loss) for found in list_losses(imported)] == [True]


def test_recovery_by_exit_codes_is_a_rule_of_retry() -> None:
    (first, last) = read_only(take("{job_recovery: {recover_on_exit_codes: [33, 34]}}")).retry.on

    assert (first.exit_codes, first.action, last.action) == (((33, 34),), "retry", "stop")


@pytest.mark.parametrize(("restarts", "attempts"), [(2, 3), (99, 10)])
def test_restarts_come_after_the_first_attempt(restarts: int, attempts: int) -> None:
    recovery = f"{{job_recovery: {{max_restarts_on_errors: {restarts}}}}}"

    assert read_only(take(recovery)).retry.attempts == attempts


def test_ports_are_opened() -> None:
    spec = read_only(take("{ports: [8080, 9000-9001]}"))

    assert list(spec.ports.values()) == [8080, 9000, 9001]
    assert len(list_losses(take("{ports: 1-9000}"))) == 1


def test_a_pipeline_becomes_a_chain() -> None:
    imported = convert("name: line\n---\nname: a\nrun: x\n---\nresources: {cpus: 2}\nrun: y\n")

    first, second = read_all(imported)
    assert (first.name, second.name, dict(second.needs)) == ("a", "line-2", {"a": "succeeded"})


@pytest.mark.parametrize(
    "text",
    [
        "type: task\ncommands: [a]\nresources: {gpu: 1}\n",
        "apiVersion: runspec/v1\nname: a\nprovider: local\nrun: a\n",
        "on: push\njobs: {a: {steps: [{run: b}]}}\n",
        "a: 1\nb: 2\nrun: c\n",
        "#!/bin/sh\n",
    ],
)
def test_a_file_of_another_tool_is_of_another_format(text: str) -> None:
    with pytest.raises(OtherFormat):
        convert(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: a\n b: c\n", "train.sky.yaml:2:3: "),
        ("run: &a [*a]\n", "refers to the value that contains it"),
        ("run: !!python/object:os.system x\n", "the tag "),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        convert(text)

    assert message in str(raised.value)


@pytest.mark.parametrize(
    "place", [{"infra": "k8s/gke_team_a"}, {"cloud": "Kubernetes", "region": "gke_team_a"}]
)
def test_a_task_for_a_cluster_of_kubernetes_names_its_context(place: dict[str, str]) -> None:
    resources = {**place, "accelerators": "L4:1", "labels": {"team": "a"}}

    imported = convert(yaml.safe_dump({"resources": resources, "run": "echo a"}))

    spec = read_only(imported)
    assert (spec.provider, dict(spec.providers)) == (
        "kubernetes",
        {"kubernetes": {"labels": {"team": "a"}}},
    )
    assert read_profile(imported, "kubernetes") == {"context": "gke_team_a"}
    assert list_losses(imported) == []
