"""Jobs of Kubernetes become specs: what each key is in a spec, and what is listed as lost."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from runspec_imports import KUBERNETES
from runspec_jobs.provider import OtherFormat, UsageError
from runspec_jobs.provider.types import ForeignFile, Imported
from tests.support.imports import list_losses, read_all, read_only, read_profile


def convert(text: str, provider: str | None = None) -> Imported:
    return KUBERNETES.imports(ForeignFile("job.txt", text), provider)


def make_job(
    container: dict[str, Any] | None = None,
    pod: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None,
) -> dict[str, Any]:
    main = {"name": "main", "image": "img:1", "command": ["run"], **(container or {})}
    template = {"spec": {"restartPolicy": "Never", "containers": [main], **(pod or {})}}
    spec = {"backoffLimit": 0, "template": template, **(job or {})}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


def take(*objects: dict[str, Any], provider: str | None = None) -> Imported:
    return convert(yaml.safe_dump_all(objects, sort_keys=False), provider)


@pytest.mark.parametrize(
    ("resources", "field", "value"),
    [
        ({"requests": {"cpu": "1500m"}}, "cpus", 2),
        ({"requests": {"memory": "8Gi"}, "limits": {"memory": "16Gi"}}, "memory", 16 << 30),
        ({"requests": {"memory": "1G"}}, "memory", 954 << 20),
        ({"requests": {"memory": "1e9"}}, "memory", 954 << 20),
        ({"limits": {"nvidia.com/gpu": 8}}, "gpus", 8),
        ({"limits": {"ephemeral-storage": "100Gi"}}, "disk_bytes", 100 << 30),
    ],
)
def test_resources_become_the_machine(resources: dict[str, Any], field: str, value: int) -> None:
    imported = take(make_job({"resources": resources}))

    assert getattr(read_only(imported).cluster, field) == value
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    ("labels", "field", "value"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, "gpu_types", ("A100-80GB",)),
        ({"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}, "gpu_types", ("T4",)),
        ({"karpenter.sh/capacity-type": "spot"}, "bought", "spot"),
    ],
)
def test_labels_of_nodes_choose_the_machine(labels: dict[str, str], field: str, value: Any) -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": 1}}}

    imported = take(make_job(gpu, {"nodeSelector": labels}))

    assert getattr(read_only(imported).cluster, field) == value
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    ("job", "field", "value"),
    [
        ({"activeDeadlineSeconds": 60}, "timeout", 60),
        ({"completions": 3, "parallelism": 2}, "max_parallel", 2),
        ({"completions": 3}, "max_parallel", 1),
        ({"completions": 3, "parallelism": 3, "maxFailedIndexes": 1}, "max_failed", 2),
    ],
)
def test_a_key_of_the_job_becomes_a_field(job: dict[str, Any], field: str, value: Any) -> None:
    imported = take(make_job(job=job))

    assert getattr(read_only(imported), field) == value
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    ("provider", "ttl", "settings"),
    [("local", 3600, {}), ("kubernetes", None, {"kubernetes": {"keep": "1h"}})],
)
def test_the_life_of_an_ended_job_is_that_of_the_run_or_of_the_object(
    provider: str, ttl: int | None, settings: dict[str, Any]
) -> None:
    spec = read_only(take(make_job(job={"ttlSecondsAfterFinished": 3600}), provider=provider))

    assert (spec.ttl, dict(spec.providers)) == (ttl, settings)


@pytest.mark.parametrize(("job", "ports"), [({}, [8888]), ({"completions": 2}, [])])
def test_ports_are_those_of_a_job_of_one_pod(job: dict[str, Any], ports: list[int]) -> None:
    imported = take(make_job({"ports": [{"containerPort": 8888, "name": "web"}]}, job=job))

    assert list(read_only(imported).ports.values()) == ports
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    ("job", "attempts"),
    [({"backoffLimit": 2}, 3), ({"backoffLimit": None}, 7), ({"backoffLimitPerIndex": 1}, 2)],
)
def test_retries_are_attempts_after_the_first(job: dict[str, Any], attempts: int) -> None:
    assert read_only(take(make_job(job=job))).retry.attempts == attempts


def test_a_policy_of_failures_is_rules_of_retry() -> None:
    rules = [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42, 43]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [7]}},
    ]

    imported = take(make_job(job={"backoffLimit": 2, "podFailurePolicy": {"rules": rules}}))

    assert [(rule.exit_codes, rule.action) for rule in read_only(imported).retry.on] == [
        (((42, 43),), "stop"),
        (((1, 6), (8, 255)), "stop"),
    ]
    assert list_losses(imported) == []


def test_references_to_variables_are_their_values_or_are_left_to_a_shell() -> None:
    env = [
        {"name": "A", "value": "a b"},
        {"name": "B", "value": "$(A)-$(none)"},
        {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    plain = {"env": env, "command": ["run", "--b=$(B)", "$$(A)", "${x.y}"]}
    secret = {"env": env, "command": ["run", "--t=$(T)", "$(A)"]}

    spec = read_only(take(make_job(plain)))
    assert spec.command == ("run", "--b=a b-$(none)", "$(A)", "$${x.y}")
    assert dict(spec.secrets) == {"T": "env:T"}
    assert read_only(take(make_job(secret))).run == "exec run --t=\"${T}\" 'a b'\n"


def test_the_value_of_a_secret_is_in_no_argument() -> None:
    env = [{"name": "DB_PASSWORD", "value": "hunter-seven"}]

    imported = take(make_job({"env": env, "command": ["run", "--p=$(DB_PASSWORD)"]}))

    spec = read_only(imported)
    assert spec.run == 'exec run --p="${DB_PASSWORD}"\n' and "DB_PASSWORD" in spec.secrets
    assert "hunter-seven" not in str(imported)


def test_pods_with_an_index_become_tasks_of_a_sweep() -> None:
    container = {
        "command": ["run", "$(JOB_COMPLETION_INDEX)"],
        "env": [{"name": "SHARD", "value": "$(JOB_COMPLETION_INDEX)"}],
    }
    job = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}

    spec = read_only(take(make_job(container, job=job)))

    assert spec.sweep["index"] == ("0", "1", "2")
    assert spec.run == (
        'export JOB_COMPLETION_INDEX="${sweep.index}"\n'
        'export SHARD="${JOB_COMPLETION_INDEX}"\n'
        'exec run "${JOB_COMPLETION_INDEX}"\n'
    )


def test_pods_that_know_each_other_become_nodes() -> None:
    container = {
        "command": ["run", "--rank", "$(JOB_COMPLETION_INDEX)", "--at=train-0.peers:29500"],
        "env": [{"name": "MASTER_ADDR", "value": "train-0.peers"}],
    }
    job = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}

    spec = read_only(take(make_job(container, {"subdomain": "peers"}, job)))

    assert spec.cluster.nodes.max == 2
    assert spec.run == (
        'export JOB_COMPLETION_INDEX="$RUNSPEC_RANK"\n'
        'export MASTER_ADDR="$RUNSPEC_LEADER"\n'
        'exec run --rank "${JOB_COMPLETION_INDEX}" --at="$RUNSPEC_LEADER":29500\n'
    )


def test_a_script_of_several_lines_stays_readable_and_keeps_its_options() -> None:
    container = {"command": ["bash", "-euc"], "args": ["echo a\necho b\n"], "workingDir": "/a b"}

    run = read_only(take(make_job(container))).run

    assert run == "#!/bin/bash\nset -u\ncd '/a b' || exit\necho a\necho b\n"


def test_a_script_of_one_line_stays_a_command() -> None:
    one = {"command": ["sh", "-c", "echo a"]}
    two = {"command": ["sh", "-c", "echo a\necho b"]}

    assert read_only(take(make_job(one))).command == ("sh", "-c", "echo a")
    assert read_only(take(make_job(two))).run == "#!/bin/sh\nset +e\necho a\necho b\n"


def test_volumes_become_mounts_shared_memory_and_files_beside_the_spec() -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "scripts"},
        "data": {"run.sh": "echo a\n", "LEVEL": "3", "API_TOKEN": "abcdefgh1"},
    }
    names = ("shm", "scripts", "scripts", "data", "tmp")
    paths = ("/dev/shm", "/scripts", "/etc/level", "/data", "/tmp/x")
    mounts = [{"name": n, "mountPath": p} for n, p in zip(names, paths, strict=True)]
    mounts[2]["subPath"] = "LEVEL"
    volumes = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        {"name": "scripts", "configMap": {"name": "scripts"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "nas"}},
        {"name": "tmp", "emptyDir": {}},
    ]

    imported = take(config, make_job({"volumeMounts": mounts}, {"volumes": volumes}))

    spec = read_only(imported)
    assert spec.container.shm == 8 << 30
    assert [(m.source, m.target) for m in spec.mounts] == [
        ("./scripts", "/scripts"),
        ("./scripts/LEVEL", "/etc/level"),
        ("shared://nas", "/data"),
    ]
    assert imported.files == {"scripts/run.sh": "echo a\n", "scripts/LEVEL": "3"}
    assert [loss.split(": ", 2)[1] for loss in list_losses(imported)] == [
        "API_TOKEN of ConfigMap scripts"
    ]


def test_variables_of_objects_in_the_file_are_known_and_values_of_secrets_are_not_copied() -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"LEVEL": "3"},
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"KEY": "correct-horse"},
    }
    env = [{"name": "MY", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "LEVEL"}}}]
    sources = [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}, "prefix": "S_"}]

    imported = take(config, secret, make_job({"env": env, "envFrom": sources}))

    spec = read_only(imported)
    assert dict(spec.env) == {"LEVEL": "3", "MY": "3"} and dict(spec.secrets) == {
        "S_KEY": "env:S_KEY"
    }
    assert "S_KEY: {from: caller}" in imported.spec.replace("\n    from: caller", " {from: caller}")
    assert "correct-horse" not in str(imported) and list_losses(imported) == []


def test_a_step_before_the_program_with_the_same_image_becomes_setup() -> None:
    steps = [
        {"name": "a", "image": "img:1", "command": ["mkdir", "-p", "/a b"]},
        {"name": "b", "image": "img:1", "command": ["sh", "-c", "echo 1\necho 2"]},
        {"name": "c", "image": "other:1", "command": ["x"]},
    ]

    imported = take(make_job(pod={"initContainers": steps}))

    assert read_only(imported).setup == "mkdir -p '/a b'\n(\necho 1\necho 2\n)\n"
    assert [loss.split(": ")[1] for loss in list_losses(imported)] == ["init container c"]


@pytest.mark.parametrize(
    ("container", "pod", "job", "loss"),
    [
        ({"securityContext": {"privileged": True}}, {}, {}, "securityContext.privileged"),
        ({"livenessProbe": {"exec": {"command": ["a"]}}}, {}, {}, "livenessProbe"),
        ({"resources": {"limits": {"rdma/hca": 1}}}, {}, {}, "resources.limits.rdma/hca"),
        ({}, {"containers": [{"name": "b"}]}, {}, "the image's own program"),
        ({}, {"hostNetwork": True}, {}, "spec.template.spec.hostNetwork"),
        ({}, {"tolerations": [{"key": "x"}]}, {}, "toleration x"),
        ({}, {"serviceAccountName": "a"}, {}, "serviceAccountName"),
        ({}, {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, {}, "volume v: secret"),
        ({}, {}, {"suspend": True}, "spec.suspend"),
        ({}, {}, {"backoffLimit": 20}, "backoffLimit"),
        ({}, {"nodeSelector": {"nvidia.com/gpu.product": "A100"}}, {}, "nvidia.com/gpu.product"),
        ({}, {}, {"newField": "x"}, "spec.newField"),
    ],
)
def test_a_lost_setting_is_named_with_its_line(
    container: dict[str, Any], pod: dict[str, Any], job: dict[str, Any], loss: str
) -> None:
    imported = take(make_job(container, pod, job), provider="local")

    read_only(imported)
    losses = list_losses(imported)
    assert len(losses) == 1
    assert loss in losses[0] and losses[0].startswith("job.txt:")


def test_arguments_alone_are_those_of_the_images_own_program() -> None:
    job = make_job({"command": [], "args": ["serve", "$(A)"], "env": [{"name": "A", "value": "1"}]})

    container = read_only(take(job, provider="local")).container
    assert (container.entrypoint, container.args) == ("image", ("serve", "1"))
    assert "the image's own program" in list_losses(take(job, provider="aws-batch"))[0]


def test_several_jobs_are_a_chain_and_a_schedule_is_lost() -> None:
    first, second = make_job(), make_job()
    second["metadata"] = {"name": "other"}
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": make_job()["spec"]}},
    }

    imported = take({"apiVersion": "v1", "kind": "List", "items": [first, second]}, cron)

    assert [spec.name for spec in read_all(imported)] == ["train", "other", "nightly"]
    assert [loss.split(": ")[1] for loss in list_losses(imported)] == ["spec.schedule"]


def test_a_job_of_aws_batch_has_its_settings() -> None:
    pod = {
        "nodeSelector": {"node.kubernetes.io/instance-type": "g5.xlarge"},
        "volumes": [{"name": "d", "hostPath": {"path": "/mnt/d"}}],
    }
    container = {
        "securityContext": {"runAsUser": 1000},
        "volumeMounts": [{"name": "d", "mountPath": "/d"}],
    }

    imported = take(make_job(container, pod), provider="aws-batch")

    settings = read_only(imported).providers["aws-batch"]
    assert settings == {"instance_types": ["g5.xlarge"], "user": "1000"}
    assert read_profile(imported, "aws-batch")["shared"] == {"d": "host:/mnt/d"}
    assert list_losses(imported) == []


QUEUED = {
    "name": "train",
    "namespace": "ml",
    "labels": {"kueue.x-k8s.io/queue-name": "team", "app": "a", "x/y": "z"},
}
POD = {
    "serviceAccountName": "trainer",
    "imagePullSecrets": [{"name": "ghcr"}],
    "priorityClassName": "high",
    "nodeSelector": {
        "nvidia.com/gpu.product": "NVIDIA-L4",
        "eks.amazonaws.com/capacityType": "SPOT",
        "disk": "ssd",
    },
    "tolerations": [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "team", "value": "ml", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ],
    "securityContext": {"runAsUser": 1234, "runAsNonRoot": True, "fsGroup": 1234},
    "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "nas"}}],
}


def test_what_a_cluster_has_becomes_settings_of_kubernetes() -> None:
    gpu = {
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "volumeMounts": [{"name": "d", "mountPath": "/d"}],
    }
    job = make_job(gpu, POD, {"suspend": True})
    job["metadata"] = QUEUED
    job["spec"]["template"]["metadata"] = {"annotations": {"example.org/a": "b"}}

    imported = take(job)

    spec = read_only(imported)
    assert (spec.provider, spec.cluster.gpu_types, spec.cluster.bought) == (
        "kubernetes",
        ("L4",),
        "spot",
    )
    assert spec.providers["kubernetes"] == {
        "queue": "team",
        "labels": {"x/y": "z"},
        "priority_class": "high",
        "cloud": "eks",
        "node_selector": {"disk": "ssd"},
        "tolerations": [
            {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"},
            {"operator": "Exists"},
        ],
        "user": "1234",
    }
    assert read_profile(imported, "kubernetes") == {
        "namespace": "ml",
        "service_account": "trainer",
        "pull_secrets": ["ghcr"],
        "gpu_types": {"L4": {"nvidia.com/gpu.product": "NVIDIA-L4"}},
        "shared": {"nas": "pvc:nas"},
        "annotations": {"example.org/a": "b"},
    }
    assert list_losses(imported) == []


def test_what_the_server_adds_to_a_job_is_no_loss() -> None:
    """As `kubectl get job -o yaml` prints it."""
    added = {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "1"}}}
    pod = {"serviceAccountName": "trainer", "serviceAccount": "trainer"}
    job = make_job(pod=pod, job={**added, "manualSelector": False})
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    job["metadata"]["annotations"] = {applied: "{}"}

    imported = take(job)

    assert read_profile(imported, "kubernetes")["service_account"] == "trainer"
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    ("rights", "security", "said"),
    [
        ({}, "none", None),
        ({"runAsUser": 0}, "none", "as the user of its image, which must be root: security: none"),
        ({"runAsUser": 7}, None, None),
        ({"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}, None, "runs as user 1000"),
        ({"runAsNonRoot": False}, "none", None),
    ],
)
@pytest.mark.parametrize("of_pod", [False, True])
def test_a_pod_runs_as_its_image_says_where_it_names_no_user(
    of_pod: bool, rights: dict[str, Any], security: str | None, said: str | None
) -> None:
    context = {"securityContext": rights}

    imported = take(make_job({}, context) if of_pod else make_job(context))

    assert read_profile(imported, "kubernetes").get("security") == security
    assert list_losses(imported) == []
    notes = [note for note in imported.notes if " as " in note]
    assert [str(said) in note for note in notes] == ([] if said is None else [True])


@pytest.mark.parametrize("rights", [{}, {"runAsNonRoot": True}])
def test_a_pod_in_the_network_of_its_machine_runs_as_its_image_says(rights: dict[str, Any]) -> None:
    """Runspec refuses `host_network` with a user of ours."""
    imported = take(make_job({"securityContext": rights}, {"hostNetwork": True}))

    profile = read_profile(imported, "kubernetes")
    assert (profile["host_network"], profile.get("security")) == (True, "none")
    assert not [note for note in imported.notes if "user 1000" in note]


@pytest.mark.parametrize(
    "resource", ["amd.com/gpu", "aws.amazon.com/neuron", "google.com/tpu", "gpu.intel.com/gpu"]
)
def test_devices_of_a_cluster_are_gpus_of_their_resource(resource: str) -> None:
    spec = read_only(take(make_job({"resources": {"limits": {resource: 2}}})))

    assert (spec.cluster.gpus, spec.providers["kubernetes"]) == (2, {"gpu_resource": resource})


@pytest.mark.parametrize(
    ("container", "pod", "loss"),
    [
        ({}, {"tolerations": [{"key": "a", "tolerationSeconds": 5}]}, "tolerationSeconds"),
        ({"securityContext": {"privileged": True}}, {}, "securityContext.privileged"),
        ({"securityContext": {"runAsUser": 5, "runAsGroup": 6}}, {}, "securityContext.runAsGroup"),
        (
            {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
            {},
            "securityContext.capabilities",
        ),
        ({}, {"hostIPC": True}, "hostIPC"),
        ({"securityContext": {"runAsUser": "root"}}, {}, "securityContext.runAsUser"),
        (
            {},
            {"hostNetwork": True, "securityContext": {"runAsUser": 5}},
            "runAsUser: pods with hostNetwork",
        ),
    ],
)
def test_what_pods_of_runspec_do_not_have_is_lost(
    container: dict[str, Any], pod: dict[str, Any], loss: str
) -> None:
    imported = take(make_job(container, pod))

    read_only(imported)
    assert [loss in line for line in list_losses(imported)] == [True]


def test_files_beside_a_job_need_a_store_that_the_user_names() -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "b"},
    }
    pod = {"volumes": [{"name": "c", "configMap": {"name": "c"}}]}

    imported = take(config, make_job({"volumeMounts": [{"name": "c", "mountPath": "/c"}]}, pod))

    assert any("does not say store: add it to the profile" in note for note in imported.notes)
    assert list_losses(imported) == []


@pytest.mark.parametrize("text", ["run: a\nresources: {}\n", "#!/bin/sh\n", "kind: task\n"])
def test_a_file_of_another_tool_is_of_another_format(text: str) -> None:
    with pytest.raises(OtherFormat):
        convert(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: v1\nkind: Pod\n", "has no Job of Kubernetes, but Pod"),
        ("kind: Job\nspec: {{ .Values.x }}\n", "job.txt:2:"),
        ("a: &a {b: *a}\n", "refers to the value that contains it"),
        ("[1]\n", "this is not a mapping"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        convert(text)

    assert message in str(raised.value) and not isinstance(raised.value, OtherFormat)
