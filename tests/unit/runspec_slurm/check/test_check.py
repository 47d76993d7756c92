"""What a cluster cannot do of a spec is told before anything is made, with a way out."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from runspec_jobs.spec.field_marks import find_user_settings
from runspec_parallelcluster.options import ParallelClusterOptions
from runspec_slurm.options import SlurmOptions, list_own_words
from tests.support.slurm.specs import FOUND, facts, problems, sbatch, spec, with_

IMAGE = {"image": "nvcr.io/nvidia/tensorflow:18.10-py3"}
BUILT = {**IMAGE, "requirements": ["numpy"]}
AT_IMAGE = ("container", "image")
MPI = {"launch": "mpi", "cluster": {"nodes": 2}}
NO_DEFAULT = {**FOUND, "partitions": {"gpu": FOUND["partitions"]["gpu"]}}

# What a spec asks for, the profile, what was found, where the error is, and a word of it.
Row = tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, tuple[Any, ...], str]
REFUSED: dict[str, Row] = {
    "ranks that srun would have to start in other jobs": (
        {"launch": "mpi", "cluster": {"nodes": {"min": 1, "max": 2}}}, {"mpi": "srun"}, FOUND,
        ("provider",), "in another job",
    ),
    "more nodes at the least than there are": (
        {"cluster": {"nodes": {"min": 5, "max": 9}}}, {}, FOUND, ("cluster", "nodes"), "would wait for ever",
    ),
    "more nodes that come and go than an array has": (
        {"cluster": {"nodes": {"min": 1, "max": 20000}}}, {}, FOUND, ("cluster", "nodes"), "MaxArraySize",
    ),
    "more time than the partition gives": (
        {"timeout": "25h"}, {}, FOUND, ("timeout",), "1d1h is longer than the time limit of the partition 'cpu', 1d",
    ),
    "a partition that tells jobs to end as they begin": (
        {"timeout": "1m"}, {}, with_({"max_time_s": 60}), ("provider",), "at their start",
    ),
    "more grace than Slurm takes": ({}, {"grace": "19h"}, FOUND, ("provider",), "grace"),
    "more nodes than there are, also of those that come when asked for": (
        {"cluster": {"nodes": 5}}, {}, FOUND, ("cluster", "nodes"), "would wait for ever",
    ),
    "more nodes than a job may have": (
        {"cluster": {"nodes": 3}}, {}, with_({"max_nodes": 2}), ("cluster", "nodes"), "has 2",
    ),
    "fewer nodes than a job must have": (
        {"cluster": {"nodes": 1}}, {}, with_({"min_nodes": 2}), ("cluster", "nodes"), "2 and more",
    ),
    "more processors than a node has": (
        {"cluster": {"cpus": 9}}, {}, FOUND, ("cluster", "cpus"), "8 processors",
    ),
    "more processes than a node has processors": (
        {**MPI, "processes_per_node": 9}, {}, FOUND, ("processes_per_node",), "8 processors",
    ),
    "more memory than a node has": (
        {"cluster": {"memory": "16GiB"}}, {}, FOUND, ("cluster", "memory"), "16 GiB, but a node",
    ),
    "more disk than a node has": (
        {"cluster": {"disk": "1TiB"}}, {"partition": "gpu"}, FOUND, ("cluster", "disk"), "1,024 GiB",
    ),
    "a kind of disk that Slurm does not know of": (
        {"cluster": {"disk": {"tier": "high"}}}, {}, FOUND, ("cluster", "disk", "tier"), "kinds of the nodes' disks",
    ),
    "GPUs of unknown memory": (
        {"cluster": {"gpus": 1, "gpu_memory": "40GiB"}}, {"partition": "gpu"}, FOUND, ("cluster", "gpu_memory"),
        "does not know",
    ),
    "GPUs with less memory": (
        {"cluster": {"gpus": 1, "gpu_type": "V100-32GB"}}, {"partition": "gpu", "gpu_memory": {"v100": "16GiB"}},
        FOUND, ("cluster", "gpu_type"), "has 16 GiB",
    ),
    "no GPUs with so much memory": (
        {"cluster": {"gpus": 1, "gpu_memory": "40GiB"}}, {"partition": "gpu", "gpu_memory": {"v100": "16GiB"}},
        FOUND, ("cluster", "gpu_memory"), "have less: v100 16 GiB",
    ),
    "GPUs where there are none": ({"cluster": {"gpus": 1}}, {}, FOUND, ("cluster", "gpus"), "no GPUs"),
    "more GPUs than a node has": (
        {"cluster": {"gpus": 5, "gpu_type": "V100"}}, {"partition": "gpu"}, FOUND, ("cluster", "gpus"), "has 4",
    ),
    "GPUs of another kind": (
        {"cluster": {"gpus": 1, "gpu_type": "H100"}}, {"partition": "gpu"}, FOUND,
        ("cluster", "gpu_type"), "has v100, a100",
    ),
    "GPUs of a kind where none has a name": (
        {"cluster": {"gpus": 1, "gpu_type": "H100"}}, {}, with_({"gpus": {"": 4}}), ("cluster", "gpu_type"), "no named",
    ),
    "GPUs by a word that the scheduler does not know": (
        {"cluster": {"gpus": 1}}, {"partition": "gpu", "gpu_request": "gpus-per-node"},
        with_(select="linear"), ("provider",), "select/cons_tres",
    ),
    "one of two partitions is not there": ({}, {"partition": "gpu,big"}, FOUND, ("provider",), "no 'big'"),
    "a partition that is not there": ({}, {"partition": "gpus"}, FOUND, ("provider",), "no 'gpus'"),
    "a spot partition that is not there": (
        {"cluster": {"capacity": "spot"}}, {"spot_partition": "cheap"}, FOUND, ("provider",), "no 'cheap'",
    ),
    "no default partition": ({}, {}, NO_DEFAULT, ("provider",), "no default"),
    "a partition that takes nothing": ({}, {}, with_({"state": "drain"}), ("provider",), "accepts no jobs"),
    "a partition that starts nothing": ({}, {}, with_({"state": "inactive"}), ("provider",), "starts none"),
    "more tasks than an array has": (
        {"sweep": {"n": "1..1002"}}, {}, {**FOUND, "max_array": 9}, ("sweep",), "MaxArraySize",
    ),
    "tasks where there are no arrays": (
        {"sweep": {"n": "1..2"}}, {}, {**FOUND, "max_array": 0}, ("sweep",), "allows no arrays (MaxArraySize=0)",
    ),
    "more tasks than the controller keeps": (
        {"sweep": {"n": "1..1001"}}, {}, with_(max_jobs=1000), ("sweep",), "MaxJobCount",
    ),
    "more named nodes than the job has": (
        {"cluster": {"nodes": 2}}, {"nodelist": "node[1-3]"}, FOUND, ("provider",), "names 3 nodes, and a job of 2",
    ),
    "more named nodes than a task has": (
        {"sweep": {"n": "1..3"}}, {"nodelist": "node[1-2],x"}, FOUND, ("provider",), "each task must have them all",
    ),
    "an option that is set twice": (
        {}, {"constraint": "ib", "sbatch": ["--constraint=roce"]}, FOUND, ("provider",), "'--constraint' is in sbatch",
    ),
    "a variable of Slurm": ({"env": {"SLURM_JOB_ID": "1"}}, {}, FOUND, ("env", "SLURM_JOB_ID"), "SLURM_*"),
    "a secret that is a variable of Slurm": (
        {"secrets": {"SBATCH_X": "t"}}, {"secrets": {"t": "env:T"}}, FOUND, ("secrets", "SBATCH_X"), "SBATCH_*",
    ),
    "an image and nothing to run it": ({"container": IMAGE}, {}, with_(containers=[]), AT_IMAGE, "no container engine"),
    "an image and not what the profile says": (
        {"container": IMAGE}, {"container": "pyxis"}, FOUND, ("provider",), "no Pyxis",
    ),
    "half a login to a registry": (
        {"container": IMAGE}, {"registry": "nvcr.io", "registry_user": "u"}, FOUND, ("provider",), "registry_password",
    ),
    "a user whom enroot cannot name": (
        {"container": IMAGE}, {"container": "pyxis", "registry": "nvcr.io", "registry_user": "me@example.org",
        "registry_password": "env:P"}, with_(containers=["pyxis"]), ("provider",), "it has a space, @ or #",
    ),
    "an image of one machine": ({"container": {"image": "localhost/a:1"}}, {}, FOUND, AT_IMAGE, "no registry"),
    "an image that is a file, for podman": (
        {"container": {"image": "/images/a.sif"}}, {"container": "podman"}, FOUND, AT_IMAGE, "is a file",
    ),
    "an image of Apptainer's library, for podman": (
        {"container": {"image": "library://a/b:1"}}, {"container": "podman"}, FOUND, AT_IMAGE,
        "is written for Apptainer",
    ),
    "a file of Apptainer, for Pyxis": (
        {"container": {"image": "/images/a.sif"}}, {"container": "pyxis"}, with_(containers=["pyxis"]), AT_IMAGE,
        "an image of Apptainer",
    ),
    "a scheme that no engine of Slurm knows": (
        {"container": {"image": "podman://a:1"}}, {"container": "podman"}, FOUND, AT_IMAGE,
        "is written for another container engine than podman",
    ),
    "a scheme that Apptainer does not know": (
        {"container": {"image": "oci://a/b:1"}}, {"container": "apptainer"}, FOUND, AT_IMAGE,
        "is written for another container engine than Apptainer",
    ),
    "an archive of an image, for Apptainer": (
        {"container": {"image": "/images/a.tar"}}, {"container": "apptainer"}, FOUND, AT_IMAGE,
        "is an archive, which Apptainer does not run",
    ),
    "an archive of an image, for Pyxis": (
        {"container": {"image": "/images/a.tgz"}}, {"container": "pyxis"}, with_(containers=["pyxis"]), AT_IMAGE,
        "is an archive, which Pyxis does not run",
    ),
    "an image that is a file of nobody knows where": (
        {"container": {"image": "./a.sif"}}, {}, FOUND, AT_IMAGE, "relative path",
    ),
    "a Python that the nodes do not have": (
        {"container": {"requirements": ["a"], "python": ">=3.12"}}, {}, FOUND,
        ("container", "python"), "python3 of the cluster is 3.11",
    ),
    "no Python at all": ({}, {}, with_(python=None), ("provider",), "has no 'python3'"),
    "a Python that is too old": ({}, {}, with_(python="2.7"), ("provider",), "3.6 or newer"),
    "an MPI plugin that is missing": (MPI, {"mpi": "srun"}, with_(mpi=["openmpi"]), ("provider",), "neither pmix"),
    "an MPI plugin by name that is missing": (
        MPI, {"mpi": "srun", "mpi_type": "pmix_v4"}, FOUND, ("provider",), "no pmix_v4",
    ),
    "srun inside of an image": (
        {**MPI, "container": IMAGE}, {"mpi": "srun"}, FOUND, ("provider",), "images do not have",
    ),
    "ranks by srun in a container of Pyxis": (
        {**MPI, "container": IMAGE}, {"mpi": "srun", "container": "pyxis"}, with_(containers=["pyxis"]), ("provider",),
        "a container of its own",
    ),
    "a shared folder that nobody named": (
        {"mounts": [{"name": "w", "source": "shared://work/a", "target": "/job/w"}]}, {}, FOUND,
        ("mounts", 0, "source"), "no shared folder 'work'",
    ),
    "a place that leaves its root": (
        {"mounts": [{"name": "w", "source": "store:///etc", "target": "/job/w"}]}, {}, FOUND,
        ("mounts", 0, "source"), "absolute path",
    ),
    "a store that is written": (
        {"mounts": [{"name": "w", "source": "store://a", "target": "/job/w", "mode": "rw"}]}, {}, FOUND,
        ("mounts", 0, "mode"), "would be lost",
    ),
    "a secret that nobody named": ({"secrets": {"T": "t"}}, {}, FOUND, ("secrets", "T"), "no secret 't'"),
    "a secret of a cloud": (
        {"secrets": {"T": "t"}}, {"secrets": {"t": "aws-sm:x"}}, FOUND, ("secrets", "T"), "cannot come from 'aws-sm:'",
    ),
    "a script that Slurm does not take": (
        {"env": {f"V{i}": "x" * 100_000 for i in range(43)}}, {}, FOUND, ("env",), "4,194,304",
    ),
    "an option that is set already": ({}, {"sbatch": ["--partition=a"]}, FOUND, ("provider",), "set by runspec"),
    "the beginning of one": ({}, {"sbatch": ["--part=a"]}, FOUND, ("provider",), "abbreviation of --partition"),
    "an option of one letter": ({}, {"sbatch": ["-pa"]}, FOUND, ("provider",), "in one word"),
    "a second job": ({}, {"sbatch": [":"]}, FOUND, ("provider",), "in one word"),
}  # fmt: skip

TOLD: dict[str, Row] = {
    "time that ends a little early": (
        {"timeout": "24h"}, {}, FOUND, ("timeout",), "up to 110 s before",
    ),
    "no time, and the partition's own": ({}, {}, FOUND, ("provider",), "ends the job after 1h"),
    "spot without a partition for it": (
        {"cluster": {"capacity": "spot"}}, {}, FOUND, ("cluster", "capacity"), "no spot_partition",
    ),
    "whichever is first": (
        {"cluster": {"capacity": "spot-then-on-demand"}}, {"spot_partition": "spot"}, FOUND,
        ("cluster", "capacity"), "the one of spot and cpu",
    ),
    "spot alone, where the other is not known": (
        {"cluster": {"capacity": "spot-then-on-demand"}}, {"spot_partition": "spot"}, None,
        ("cluster", "capacity"), "only spot is used",
    ),
    "memory that nobody knows": (
        {"cluster": {"memory": "1GiB"}}, {}, with_({"memory_mb": None}), ("cluster", "memory"), "RealMemory",
    ),
    "disks that nobody knows": ({"cluster": {"disk": "1GiB"}}, {}, FOUND, ("cluster", "disk"), "TmpDisk"),
    "an array that may be too large": ({"sweep": {"n": "1..1002"}}, {}, None, ("sweep",), "MaxArraySize"),
    "a partition that is down": ({}, {}, with_({"state": "down"}), ("provider",), "until it is up"),
    "nodes of one switch": (
        {"cluster": {"nodes": 2, "placement": "close"}}, {}, FOUND, ("cluster", "placement"), "one switch",
    ),
    "requirements instead of an image": (
        {"container": BUILT}, {}, with_(containers=[]), AT_IMAGE, "with its requirements installed on the node",
    ),
    "requirements instead of an image of one machine": (
        {"container": {"image": "localhost/a:1", "requirements": ["numpy"]}}, {}, FOUND, AT_IMAGE,
        "the image exists on one machine only: the job runs without the image",
    ),
    "a password in the workspace": (
        {"container": IMAGE}, {"registry": "nvcr.io", "registry_user": "u", "registry_password": "env:P"}, FOUND,
        AT_IMAGE, "only you and root can read it",
    ),
    "an engine that nobody asked for": ({"container": IMAGE}, {}, None, AT_IMAGE, "using podman"),
    "no folders at an image's root": (
        {"container": IMAGE, "outputs": [{"name": "o", "path": "/job/o"}]}, {"container": "apptainer"}, FOUND,
        AT_IMAGE, "use ${mounts.NAME}",
    ),
    "an image that each node has": (
        {"container": {"image": "localhost/a:1"}}, {"container": "podman"}, FOUND, AT_IMAGE, "each node",
    ),
    "a digest, for enroot": (
        {"container": {"image": "h.io/a@sha256:" + "0a" * 32}}, {"container": "pyxis"}, with_(containers=["pyxis"]),
        AT_IMAGE, "since version 4.0",
    ),
    "shared memory as it is": ({"container": {"shm": "1GiB"}}, {}, FOUND, ("container", "shm"), "/dev/shm"),
    "an address without an event": ({}, {"mail_user": "a@example.org"}, FOUND, ("provider",), "without mail_type"),
    "where a secret lies": (
        {"secrets": {"T": "t"}}, {"secrets": {"t": "env:T"}}, FOUND, ("secrets", "T"), "workspace",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_job_that_the_cluster_cannot_run_is_an_error_with_a_hint(name: str) -> None:
    fields, options, found, where, said = REFUSED[name]
    wanted = spec(**fields)

    told = [p for p in problems(wanted, facts(wanted, options, found)) if p.severity == "error"]

    assert [p.path for p in told] == [where]
    assert said in told[0].what
    assert told[0].hint


@pytest.mark.parametrize("name", TOLD)
def test_a_surprising_behavior_gets_a_note(name: str) -> None:
    fields, options, found, where, said = TOLD[name]
    wanted = spec(**fields)

    told = problems(wanted, facts(wanted, options, found))

    assert [p for p in told if p.severity == "error"] == []
    assert [p.path for p in told if said in p.what] == [where]


def test_a_setting_of_the_spec_is_told_at_its_place_there() -> None:
    wanted = spec(providers={"slurm": {"partition": "gpus"}})

    told = problems(wanted, facts(wanted, {"partition": "gpus"}))

    errors = [p for p in told if p.severity == "error"]
    assert errors[0].path == ("providers", "slurm", "partition")
    assert errors[0].hint == "did you mean 'gpu'?"


def test_ssh_options_for_a_login_node_are_accepted() -> None:
    wanted = spec()
    options = {
        "host": "me@h",
        "ssh_options": ["Port=2222", "ProxyJump=gate", "IdentityFile=~/.ssh/k"],
    }

    told = problems(wanted, facts(wanted, options))

    assert [p for p in told if p.severity == "error"] == []


@pytest.mark.parametrize(
    "word",
    "--nice=10 --exclusive --constraint=a&b --mail-user=x@y --reservation=r --wait-all-nodes=1 --mem-bind=local "
    "--gres-flags=enforce-binding --exclude=n[1-3] --begin=now+1hour --comment=a,b#c".split(),
)
def test_an_option_that_is_not_ours_is_let_through(word: str) -> None:
    wanted = spec()

    assert [
        p for p in problems(wanted, facts(wanted, {"sbatch": [word]})) if p.severity == "error"
    ] == []


def test_without_discovery_no_job_is_too_large() -> None:
    big = {
        "nodes": 1000,
        "cpus": 999,
        "memory": "9TiB",
        "disk": "9TiB",
        "gpus": 16,
        "gpu_type": "X",
    }
    wanted = spec(cluster=big, sweep={"n": "1..9000"}, timeout="90d")

    assert [p for p in problems(wanted, facts(wanted, {}, None)) if p.severity == "error"] == []


def test_validate_reports_nothing_that_the_profile_may_settle() -> None:
    wanted = spec(secrets={"T": "t"}, container=IMAGE, cluster={"capacity": "spot"})

    assert problems(wanted, facts(wanted, {}, None)._replace(complete=False)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "-oProxyCommand=touch /x"},
        {"host": "-v"},
        {"host": "a b"},
        {"ssh_options": ["-oProxyCommand=touch"]},
        {"ssh_options": ["ProxyCommand=touch /x"]},
        {"workspace": "relative"},
        {"workspace": "/a/../b"},
        {"workspace": "/a,b"},
        {"workspace": "/a:b"},
        {"workspace": "~other/x"},
        {"partition": "a,,b"},
        {"partition": "a,--wrap=x"},
        {"partition": "--wrap=x"},
        {"account": "a b"},
        {"python": "-c"},
        {"podman": ["-v", "/:/x"]},
        {"podman": ["image"]},
        {"python": "python3; x"},
        {"shared": {"w": "data"}},
        {"shared": {"w": "/data:/etc"}},
        {"after": ["afterok"]},
        {"after": ["afterok:1,afterok:2"]},
        {"mpi": "openmpi"},
        {"container": "docker"},
        {"exclusive": "maybe"},
        {"constraint": "a b"},
        {"constraint": "$(touch x)"},
        {"nodelist": "/etc/hosts"},
        {"nodelist": "node[1-"},
        {"exclude": "a;b"},
        {"reservation": "a,b"},
        {"licenses": ["a b"]},
        {"licenses": ["a,b"]},
        {"begin": "soon"},
        {"begin": "30m"},
        {"comment": "two\nlines"},
        {"comment": ""},
        {"mail_type": ["SOMETIMES"]},
        {"mail_user": "a@example.org,b@example.org"},
        {"mail_user": "-r x"},
    ],
)
def test_an_option_that_would_be_more_than_it_says_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SlurmOptions.model_validate(wrong)


OWN_WORDS = {
    "exclusive": (True, "--exclusive"),
    "constraint": ("intel&[ib*2|roce]", "--constraint=intel&[ib*2|roce]"),
    "nodelist": ("node[01]", "--nodelist=node[01]"),
    "exclude": ("node[02-04],gpu1", "--exclude=node[02-04],gpu1"),
    "reservation": ("maintenance", "--reservation=maintenance"),
    "licenses": (["matlab:2", "abaqus@server"], "--licenses=matlab:2,abaqus@server"),
    "begin": ("now+2hours", "--begin=now+2hours"),
    "comment": ('it\'s "mine", $HOME #1', '--comment=it\'s "mine", $HOME #1'),
    "mail_type": (["end", "TIME_LIMIT_80"], "--mail-type=END,TIME_LIMIT_80"),
    "mail_user": ("me+x@example.org", "--mail-user=me+x@example.org"),
}


@pytest.mark.parametrize("name", OWN_WORDS)
def test_a_word_of_slurms_own_is_one_argument_of_sbatch(name: str) -> None:
    value, word = OWN_WORDS[name]
    wanted = spec()

    argv, _ = sbatch(wanted, facts(wanted, {name: value}))

    assert set(argv) - set(sbatch(wanted, facts(wanted))[0]) == {word}


@pytest.mark.parametrize("kind", [SlurmOptions, ParallelClusterOptions])
def test_a_job_file_may_neither_spend_another_account_nor_write_to_others(
    kind: type[SlurmOptions],
) -> None:
    wanted = {**{name: value for name, (value, _) in OWN_WORDS.items()}, "account": "physics"}

    assert set(find_user_settings(kind, wanted)) == {("account",), ("mail_user",)}


def test_a_reservation_of_parallelcluster_is_one_of_ec2_and_none_of_slurm() -> None:
    options = ParallelClusterOptions.model_validate(
        {"reservation": "cr-0123456789abcdef0", "exclusive": True}
    )

    assert list(list_own_words(options)) == ["--exclusive"]


@pytest.mark.parametrize(
    ("kind", "podman", "noted"),
    [
        ("Trainium", [], True),
        ("Gaudi", [], True),
        ("Trainium", ["--device=/dev/neuron0"], False),
        ("MI300X", [], False),
        ("A100", [], False),
    ],
)
def test_chips_of_which_podman_gives_no_device_are_noted(
    kind: str, podman: list[str], noted: bool
) -> None:
    wanted = spec(container={"image": "a:1"}, cluster={"gpus": 1, "gpu_type": kind})

    told = problems(wanted, facts(wanted, {"container": "podman", "podman": podman}, None))

    assert any("gets no device" in problem.what for problem in told) is noted
