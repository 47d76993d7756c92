"""Batch scripts become specs: what each option and each way to start tasks is in a spec, and what is listed as lost."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs.document import reader
from runspec_jobs.load import source
from runspec_jobs.provider import Spec, UsageError
from runspec_jobs.provider.types import ForeignFile, Imported
from runspec_slurm.importing.conversion import convert

BODY = "hostname\n"


def take(*options: str, body: str = BODY) -> Imported:
    head = "".join(f"#SBATCH {option}\n" for option in options or ("--time=5",))
    return convert(ForeignFile("train.sbatch", f"#!/bin/bash\n{head}{body}"))


def read(imported: Imported) -> Spec:
    """Return the spec of *imported*, which has no error."""
    text = source.read("job.yaml", imported.spec.encode())
    spec, problems = source.validate_text(text)
    errors = [problem for problem in problems if problem.severity == "error"]
    assert spec is not None and not errors, (errors, imported.spec)
    return spec


def list_losses(imported: Imported) -> list[str]:
    return [note for note in imported.notes if "not imported" in note]


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        (["-J My_Train.1"], "name", "my-train-1"),
        (["--time=30"], "timeout", 1_800),
        (["-t 90:30"], "timeout", 5_430),
        (["-t 2:00:00"], "timeout", 7_200),
        (["--time 1-12"], "timeout", 129_600),
        (["--nodes=2-4"], "cluster.nodes.max", 4),
        (["-N2", "-c 8"], "cluster.cpus", 8),
        (["-n 4 -c 2"], "cluster.cpus", 8),
        (["--mem=1000"], "cluster.memory", 1000 << 20),
        (["--mem=16gb"], "cluster.memory", 16 << 30),
        (["--mem-per-cpu=2G", "--cpus-per-task=4"], "cluster.memory", 8 << 30),
        (["--mem-per-gpu=10G", "--gres=gpu:2"], "cluster.memory", 20 << 30),
        (["--gres=gpu:a100:4,nvme:1"], "cluster.gpus", 4),
        (["--gres=gpu:a100:4,nvme:1"], "cluster.gpu_type", "a100"),
        (["--gres=gpu"], "cluster.gpus", 1),
        (["-N 2", "--gpus=v100:8"], "cluster.gpus", 4),
        (["--gpus-per-node=3"], "cluster.gpus", 3),
        (["--gpus-per-task=2", "--ntasks-per-node=2"], "cluster.gpus", 4),
        (["--tmp=100G"], "cluster.disk_bytes", 100 << 30),
        (["--array=0-9%3"], "max_parallel", 3),
        (["--signal=B:USR1@120", "-t 10"], "signal.name", "USR1"),
        (["--signal=SIGUSR2", "-t 10"], "signal.before", 60),
        (["--no-requeue"], "retry.spot_attempts", 1),
        (["--export=ALL,SEED=3"], "env.SEED", "3"),
        (["--container-image=nvcr.io#nvidia/pytorch:24.05-py3"], "container.image", None),
        (["--nam=x", "--job=abbreviated"], "name", "abbreviated"),
        (['--job-name "in quotes"  # and a comment'], "name", "in-quotes"),
    ],
)
def test_an_option_becomes_a_field(options: list[str], field: str, value: Any) -> None:
    found: Any = read(take(*options))
    for part in field.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)

    assert found == value if value is not None else found


@pytest.mark.parametrize(
    ("option", "values"),
    [("0-3", "0 1 2 3"), ("1,5-9:2", "1 5 7 9"), ("7", "7")],
)
def test_an_array_becomes_a_sweep_whose_tasks_have_its_indexes(option: str, values: str) -> None:
    imported = take(f"--array={option}", body="echo $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_MAX\n")

    spec = read(imported)

    assert spec.sweep["task"] == tuple(values.split())
    assert 'SLURM_ARRAY_TASK_ID="${sweep.task}"; export SLURM_ARRAY_TASK_ID' in (spec.run or "")
    assert f"SLURM_ARRAY_TASK_MAX={values.rsplit(maxsplit=1)[-1]}; export" in (spec.run or "")


@pytest.mark.parametrize(
    ("options", "setting", "value"),
    [
        (["-p gpu"], "partition", "gpu"),
        (["--qos=long"], "qos", "long"),
        (["--mem=0"], "memory", "all"),
        (["--gres=nvme:1"], "gres", ["nvme:1"]),
        (["--dependency=afterok:12,singleton"], "after", ["afterok:12", "singleton"]),
        (["--signal=TERM@90"], "grace", "90s"),
        (["--exclusive"], "exclusive", "true"),
        (['-C "intel&ib"'], "constraint", "intel&ib"),
        (["-w node[1-2]", "-N 2"], "nodelist", "node[1-2]"),
        (["-x node[1-3],gpu1"], "exclude", "node[1-3],gpu1"),
        (["--reservation=night"], "reservation", "night"),
        (["-L matlab:2,abaqus"], "licenses", ["matlab:2", "abaqus"]),
        (["-b now+2hours"], "begin", "now+2hours"),
        (['--comment="for the paper"'], "comment", "for the paper"),
        (["--mail-type=END,fail"], "mail_type", ["END", "fail"]),
    ],
)
def test_an_option_becomes_a_setting_of_slurm(options: list[str], setting: str, value: Any) -> None:
    assert read(take(*options)).providers["slurm"][setting] == value


def test_options_of_the_profile_alone_are_written_to_it() -> None:
    imported = take(
        "-A physics", "--mail-user=a@example.org", "-x ./hosts", "--exclusive=user", "--nice=5"
    )

    assert reader.read(imported.profile.encode()).value == {
        "providers": {
            "slurm": {
                "account": "physics",
                "mail_user": "a@example.org",
                "sbatch": ["--exclude=./hosts", "--exclusive=user", "--nice=5"],
            }
        }
    }
    assert list_losses(imported) == []


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--qos=a,b", "train.sbatch:2: not imported: --qos=a,b: a job has one qos"),
        (
            "--signal=B:USR1@60",
            "train.sbatch:2: not imported: --signal=B:USR1@60: the script has no",
        ),
        ("--signal=60", "train.sbatch:2: not imported: --signal=60: write signal"),
        ("--uid=0", "train.sbatch:2: not imported: --uid=0: runspec has no such setting"),
        ("--container-mounts=a:/a", "train.sbatch:2: not imported: --container-mounts=a:/a"),
        ("--array=x", "train.sbatch:2: not imported: --array=x"),
        ("--mem=lots", "train.sbatch:2: not imported: --mem=lots"),
    ],
)
def test_a_lost_option_is_named_with_its_line(option: str, line: str) -> None:
    imported = take(option)

    read(imported)
    assert [note.startswith(line) for note in list_losses(imported)] == [True]


@pytest.mark.parametrize(
    "output", ["--output=logs/%j.out", "-e err.txt", "--open-mode=append", "--requeue"]
)
def test_files_of_logs_and_defaults_of_runspec_are_no_loss(output: str) -> None:
    assert list_losses(take(output)) == []


def test_tasks_of_srun_become_processes() -> None:
    body = "module load x\nsrun --label --cpu-bind=cores \\\n  python a.py --lr 0.1\n"

    spec = read(take("-N 2 --ntasks-per-node=4 -c 2", body=body))

    assert (spec.launch, spec.processes_per_node, spec.cluster.cpus) == ("mpi", 4, 8)
    assert spec.providers["slurm"]["mpi"] == "srun"
    assert (spec.run or "").endswith("module load x\npython a.py --lr 0.1\n")


def test_tasks_that_one_node_does_not_hold_ask_for_more_nodes() -> None:
    spec = read(take("-n 8 --ntasks-per-node=3", body="srun ./solve\n"))

    assert (spec.cluster.nodes.max, spec.processes_per_node) == (3, 3)


def test_tasks_of_mpirun_become_processes_that_mpirun_starts() -> None:
    spec = read(take("--ntasks=8", body="mpirun -np 8 --mca btl tcp,self ./solve\n"))

    assert (spec.launch, spec.processes_per_node) == ("mpi", 8)
    assert "slurm" not in spec.providers
    assert (spec.run or "").endswith("\n./solve\n")


def test_torchrun_on_each_node_stays_one_process_of_a_node() -> None:
    spec = read(take("-N 2 --ntasks-per-node=1", body="srun torchrun --nnodes 2 train.py\n"))

    assert (spec.launch, spec.cluster.nodes.max) == ("none", 2)
    assert (spec.run or "").endswith("\ntorchrun --nnodes 2 train.py\n")


def test_a_script_of_several_nodes_runs_on_the_first_alone() -> None:
    spec = read(take("-N 2", body="srun a &\nsrun b &\nwait\n"))

    run = spec.run or ""
    assert run.index('[ "$RUNSPEC_RANK" = 0 ] || exit 0') < run.index("srun a &\nsrun b &\nwait\n")


@pytest.mark.parametrize(
    "body", ["srun a\nsrun b\n", "if true; then\n  srun a\nfi\n", "x=$(srun a)\n"]
)
def test_launchers_that_depend_on_more_than_their_line_stay(body: str) -> None:
    imported = take("-n 2", body=body)

    assert (read(imported).run or "").endswith(body)
    assert any("stay in the script: it needs Slurm" in note for note in imported.notes)
    assert "export SLURM_NTASKS=2\nexport SLURM_NTASKS_PER_NODE=2\n" in (read(imported).run or "")


def test_an_image_of_srun_is_the_image_of_the_job() -> None:
    spec = read(
        take("-N 2", body="srun --container-image=nvcr.io/nvidia/pytorch:24.05-py3 python a.py\n")
    )

    assert spec.container.image == "nvcr.io/nvidia/pytorch:24.05-py3"
    assert spec.providers["slurm"]["container"] == "pyxis"


def test_the_value_of_a_secret_is_in_no_file_and_no_note() -> None:
    imported = take(
        body="export HF_TOKEN=hf_zq81kmx0\nexport WANDB_API_KEY='0123456789abcdef'\nrun\n"
    )

    spec = read(imported)

    assert dict(spec.secrets) == {"HF_TOKEN": "env:HF_TOKEN", "WANDB_API_KEY": "env:WANDB_API_KEY"}
    assert "zq81kmx0" not in str(imported) and "0123456789abcdef" not in str(imported)


def test_text_like_a_placeholder_is_escaped() -> None:
    assert "$${mounts.code} ${HOME}" in (
        read(take(body="awk '${mounts.code} ${HOME}'\n")).run or ""
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#SBATCH -N 2\n",
        "#!/bin/bash\nhostname\n",
        '{"properties": {}}',
        '#!/bin/sh\n#SBATCH --comment="a\n',
    ],
)
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        convert(ForeignFile("train.sbatch", text))


def test_an_option_after_a_command_is_ignored_as_by_sbatch() -> None:
    imported = take("-N 2", body="hostname\n#SBATCH --mem=1G\n")

    assert read(imported).cluster.memory is None
    assert "train.sbatch:4: sbatch ignores an option" in imported.notes[0]


def test_windows_line_breaks_and_a_byte_order_mark_are_left_out() -> None:
    text = "\ufeff#!/bin/bash\r\n#SBATCH --mem=1G\r\necho a\r\n"

    spec = read(convert(ForeignFile("a.sh", text)))

    assert spec.cluster.memory == 1 << 30
    assert "\r" not in (spec.run or "")


def test_steps_of_several_nodes_find_the_copy_of_each_node_at_one_path() -> None:
    imported = take("-N 2 --ntasks-per-node=4", body="srun a\nsrun b\n")

    run = read(imported).run or ""
    assert run.index('ln -sfn "${outputs.work}" "$here"') < run.index("on_each test -e")
    assert run.index('export SLURM_WORKING_DIR="$here"') < run.index("srun a\nsrun b\n")
    assert "export SLURM_NTASKS=8\nexport SLURM_NTASKS_PER_NODE=4\n" in run
    assert list_losses(imported) == []


def test_a_call_of_mpirun_beside_other_steps_is_lost_on_several_nodes() -> None:
    imported = take("-N 2", body="mpirun -N 1 hostname\nsrun b\n")

    assert "not imported: mpirun beside other steps" in list_losses(imported)[0]


def test_a_job_of_one_task_needs_no_launcher() -> None:
    body = "if true; then\n  time srun -n 1 a\nfi\nsrun --label b | srun c\n# srun d\n"

    imported = take("--ntasks=1", body=body)

    run = read(imported).run or ""
    assert run.endswith("if true; then\n  time a\nfi\nb | c\n# srun d\n")
    assert list_losses(imported) == []


def test_a_script_goes_on_after_a_command_that_fails_as_by_sbatch() -> None:
    assert "\nset +e  # sbatch goes on" in (read(take()).run or "")
    script = "#!/bin/bash -eu\n#SBATCH --time=1\nhostname\n"

    assert "set +e" not in (read(convert(ForeignFile("a.sh", script))).run or "")


def test_the_first_node_is_known_without_asking_slurm() -> None:
    body = (
        "nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\n"
        'ip=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname --ip-address)\n'
        "srun torchrun --rdzv_endpoint $ip:29500 a.py\n"
    )

    imported = take("-N 2 --ntasks-per-node=1", body=body)

    run = read(imported).run or ""
    assert 'nodes=( $( cut -d" " -f1 "$RUNSPEC_HOSTFILE" ) )\nip=$RUNSPEC_LEADER\n' in run
    assert run.endswith("\ntorchrun --rdzv_endpoint $ip:29500 a.py\n")
    assert list_losses(imported) == []


def test_options_of_a_list_name_the_image_and_the_folders_of_its_container() -> None:
    body = (
        ': "${APPS:=/apps}"\n: "${IMAGE:=$APPS/train.sqsh}"\n'
        "declare -a ARGS=(\n  --container-image $IMAGE\n"
        "  --container-mounts $(pwd):/code,/fsx:/data:ro  # two\n)\n"
        'srun -l "${ARGS[@]}" --mpi=pmix python a.py\n'
    )

    imported = take("-N 2 --ntasks-per-node=8", body=body)

    spec = read(imported)
    assert (spec.launch, spec.container.image) == ("srun", "/apps/train.sqsh")
    assert [(m.source, m.target, m.mode) for m in spec.mounts[1:]] == [
        (".", "/code", None),
        ("shared://fsx", "/data", "ro"),
    ]
    assert reader.read(imported.profile.encode()).value == {
        "providers": {"slurm": {"shared": {"fsx": "/fsx"}}}
    }
    assert list_losses(imported) == []


def test_an_image_that_only_the_caller_knows_is_lost() -> None:
    imported = take("-N 2", body="srun --container-image=$IMAGE a\n")

    assert read(imported).container.image is None
    assert "--container-image with a variable" in list_losses(imported)[0]


def test_the_folder_of_the_script_is_entered() -> None:
    assert "\ncd '/a b' || exit 1\n" in (read(take("--chdir='/a b'")).run or "")


def test_options_that_the_import_answers_itself_are_listed_with_their_lines() -> None:
    imported = take("-o logs/%j.out", "-i in.txt", body="# b\nsrun --cpu-bind=cores ./a\n")

    assert imported.notes[:3] == (
        "train.sbatch:2: --output=logs/%j.out: the log is kept with the run: see `runspec logs`",
        "train.sbatch:3: not imported: --input=in.txt: write it into run: exec < FILE",
        "train.sbatch:5: --cpu-bind=cores: Slurm decides which cores the processes use",
    )


def test_several_partitions_are_one_setting() -> None:
    imported = take("-p short,long")

    assert read(imported).providers["slurm"]["partition"] == "short,long"
    assert not list_losses(imported)


def test_a_binding_that_stays_in_the_script_is_not_listed() -> None:
    imported = take("-N 1", "-n 4", body="srun --cpu-bind=cores ./a\nsrun --cpu-bind=cores ./b\n")

    assert "--cpu-bind=cores ./b" in imported.spec
    assert not [note for note in imported.notes if "decides" in note]
