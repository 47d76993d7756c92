"""What a spec says comes out of the shell as it went in: a real sh runs scripts, with a stub for what they become."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from runspec_jobs.provider import Facts, Spec
from runspec_slurm.job import AGENT
from runspec_slurm.naming import enroot_notation
from runspec_slurm.session.process import quoted
from tests.support.slurm import specs
from tests.support.slurm.specs import FOUND, RUN, sbatch, spec

pytestmark = pytest.mark.process

# Says with how many words it was started, with which, and with which variables.
STUB = """#!/bin/sh
printf '%s\\0' "$#" "$0" "$@"
exec env -0
"""
SHA = "sha256:" + "0a" * 32
SCONTROL = "#!/bin/sh\necho one\necho two\n"
# What a YAML file can hold and a variable can be: no NUL, and no half of a character.
TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True).filter(
    lambda name: not name.upper().startswith(("RUNSPEC_", "SLURM", "SBATCH_", "SRUN_", "SALLOC_"))
)
# What the stub's own sh sets, and what programs on the way may do something else by.
TAKEN = (
    "PATH",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "IFS",
    "PS1",
    "PS2",
    "PS4",
    "PPID",
    "OPTIND",
    "ENV",
)
OF_PROGRAMS = ("LD_", "LC_", "LANG", "PYTHON", "MALLOC_", "GLIBC_", "GCONV_", "NLSPATH", "LOCPATH")
IMAGE = "nvcr.io#nvidia/tf:18.10-py3"


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    for name in ("python3", "srun", "apptainer", "podman"):
        (folder / name).write_text(STUB)
    (folder / "scontrol").write_text(SCONTROL)
    for path in folder.iterdir():
        path.chmod(0o755)
    return folder


def started(
    script: str, stubs: Path, more: Mapping[str, str] = {}, shell: tuple[str, ...] = ("/bin/sh",)
) -> tuple[list[str], dict[str, str]]:
    """Run *script* as slurmd does, from a file, and give the words and variables of what it became."""
    there = {
        "PATH": f"{stubs}:/usr/bin:/bin",
        "SLURM_SUBMIT_DIR": "/work space",
        "SLURM_JOB_ID": "7",
    }
    with tempfile.NamedTemporaryFile("wb", suffix=".sh") as file:
        file.write(script.encode("utf-8"))
        file.flush()
        done = subprocess.run(
            [*shell, file.name],
            capture_output=True,
            env={**there, "SLURM_EXPORT_ENV": "NONE", **more},
            check=True,
            timeout=60,
        )
    count, *said = done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    words, found = said[: int(count) + 1], said[int(count) + 1 :]
    return words, dict(pair.split("=", 1) for pair in found)


def facts(
    wanted: Spec, options: Mapping[str, Any] = {}, found: Mapping[str, Any] | None = FOUND
) -> Facts:
    """Give the facts for a script that starts no login shell, unless *options* say so."""
    return specs.facts(wanted, {"environment": "clean", **options}, found)


def free(name: str) -> bool:
    return name not in TAKEN and not name.startswith(OF_PROGRAMS)


@settings(max_examples=60, deadline=None)
@given(env=st.dictionaries(NAME.filter(free), TEXT, max_size=5))
@example(env={"A": "x\r\ny", "B": "\n#SBATCH --partition=no\n", "C": "a,b", "E": "", "F": "$HOME"})
@example(
    env={"D": "'\"$(touch x)`y`\\", "G": "\n\n", "H": "#", "I": "~", "J": "é\u2028", "cr": "\r"}
)
def test_any_variable_comes_out_of_the_shell_as_it_went_in(
    env: dict[str, str], stubs: Path
) -> None:
    wanted = spec(env=env)

    _, found = started(sbatch(wanted, facts(wanted))[1], stubs)

    assert {name: found.get(name) for name in env} == env


def test_a_variable_that_bash_keeps_for_itself_is_set_as_well(tmp_path: Path) -> None:
    """On many clusters /bin/sh is bash: it would end the script at UID, and SECONDS would be another number."""
    kept = ("UID", "EUID", "PPID", "SECONDS", "RANDOM", "GROUPS", "SHELLOPTS", "LINENO", "IFS", "_")
    wanted = spec(env=dict.fromkeys(kept, "a b"))
    told = "import os; print('0', '', *map('='.join, os.environ.items()), sep='\\0', end='\\0')"
    (tmp_path / "python3").write_text(f"#!{sys.executable} -IS\n{told}\n")
    (tmp_path / "python3").chmod(0o755)

    script = sbatch(wanted, facts(wanted))[1]
    _, found = started(script, tmp_path, shell=("bash", "--posix"))

    assert {name: found.get(name) for name in kept} == dict.fromkeys(kept, "a b")


def test_a_path_of_the_spec_is_the_programs_and_finds_nothing_of_the_node(stubs: Path) -> None:
    wanted = spec(env={"PATH": "/opt/none:/usr/bin:/bin"}, cluster={"nodes": 2})

    words, found = started(sbatch(wanted, facts(wanted))[1], stubs)

    assert found["PATH"] == "/opt/none:/usr/bin:/bin"
    assert words[0] == str(stubs / "python3")
    assert words[6] == str(stubs / "srun")
    assert str(stubs / "python3") in words[6:]


@settings(max_examples=60, deadline=None)
@given(words=st.lists(TEXT, min_size=1, max_size=5))
def test_any_words_come_out_of_the_shell_as_they_went_in(words: list[str], stubs: Path) -> None:
    lines = [
        "runspec_nl='\n'",
        "runspec_cr=\"$(printf '\\r')\"",
        " ".join(["exec python3", *map(quoted, words)]),
    ]

    assert started("\n".join(lines) + "\n", stubs)[0][1:] == words


@settings(max_examples=100)
@given(TEXT)
def test_no_value_has_the_end_of_a_line_in_it(text: str) -> None:
    """Before any shell, sbatch reads the script: it refuses CR LF and takes lines that begin with #BSUB for its own."""
    assert not set(quoted(text)) & {"\r", "\n"}


def test_the_words_of_the_program_are_in_no_script() -> None:
    wanted = spec(command=["sh", "-c", "touch /tmp/$USER; #"], env={"A": "1"})

    assert "touch" not in sbatch(wanted, facts(wanted))[1]


def test_the_contract_is_said_in_the_words_of_slurm(stubs: Path) -> None:
    wanted = spec(sweep={"n": "1..9"}, timeout="10m", retry={"spot_attempts": 3})
    array = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "8", "SLURM_RESTART_COUNT": "2"}

    words, found = started(sbatch(wanted, facts(wanted, {"grace": "30s"}))[1], stubs, array)

    assert {k: v for k, v in found.items() if k.startswith("RUNSPEC_")} == {
        "RUNSPEC_RUN": RUN,
        "RUNSPEC_STORE": "file:///work space",
        "RUNSPEC_JOB": "5",
        "RUNSPEC_TASK": "8",
        "RUNSPEC_ATTEMPT": "3",
        "RUNSPEC_ENDS": "1",
        "RUNSPEC_SHARED": "/",
        "RUNSPEC_GRACE_S": "30",
        "RUNSPEC_SPOT_ATTEMPTS": "3",
        "RUNSPEC_TIMEOUT_S": "600",
        "RUNSPEC_BELOW": "@",
    }
    assert words[1:3] + words[4:8] == ["-ISc", AGENT, "batch", "--", "python3", "-IS"]
    assert words[3] == words[8] and words[3].startswith("/work space/inside/") and words[9] == "job"


def test_a_job_of_its_own_and_its_first_try_are_told_too(stubs: Path) -> None:
    wanted = spec()

    _, found = started(sbatch(wanted, facts(wanted))[1], stubs)

    assert [found[f"RUNSPEC_{name}"] for name in ("JOB", "TASK", "ATTEMPT")] == ["7", "0", "1"]
    assert "RUNSPEC_TIMEOUT_S" not in found


def test_a_step_takes_nothing_over_from_the_submission(stubs: Path) -> None:
    """By SLURM_EXPORT_ENV=NONE srun would start the nodes with no variables at all."""
    wanted = spec(cluster={"nodes": 2})

    _, found = started(sbatch(wanted, facts(wanted))[1], stubs)

    assert "SLURM_EXPORT_ENV" not in found


def test_many_nodes_are_started_by_srun_with_all_that_clusters_differ_in(stubs: Path) -> None:
    wanted = spec(cluster={"nodes": 2, "cpus": 3}, sweep={"n": "1..2"})

    script = sbatch(wanted, facts(wanted))[1]
    words, found = started(script, stubs, {"SLURM_ARRAY_TASK_ID": "1"})

    step = words[words.index("srun") : words.index("python3", 1)]
    assert step == [
        "srun",
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=3",
        "--mpi=none",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--input=none",
        "--open-mode=append",
        f"--output=runs/{RUN}/logs/1-%n.txt",
    ]
    assert found["RUNSPEC_NODE_NAMES"] == "one,two"
    assert found["RUNSPEC_WORDS"] == "RUNSPEC_RANK=SLURM_NODEID"


def test_a_clean_environment_has_a_path(stubs: Path) -> None:
    wanted = spec()
    script = sbatch(wanted, facts(wanted))[1]

    begin, start, rest = script.partition("\n  python3 -IS")
    _, found = started(
        f"{begin}{start.replace('python3', f'{stubs}/python3')}{rest}", stubs, {"PATH": ""}
    )

    assert "/usr/bin" in found["PATH"]


LOGIN = """#!/bin/bash
if [ "$3" = login ]; then
echo "$4" >>"$SLURM_SUBMIT_DIR/logins"
mkdir -p "${4%/*}" && printf '%s\\n' "export PATH='$PATH:/of/login' A='a b'" "set -- 'BASH_FUNC_f%%=() { :; }'" >"$4"
exit
fi
"""


@pytest.mark.parametrize("shell", [("/bin/sh",), ("bash", "--posix")])
def test_tasks_of_an_array_read_what_a_login_shell_of_their_node_has_set(
    stubs: Path, tmp_path: Path, shell: tuple[str, ...]
) -> None:
    """One on each node, not one for each task; Slurm itself starts none."""
    wanted = spec(sweep={"n": "1..9"}, env={"B": "b"})
    argv, script = sbatch(wanted, facts(wanted, {"environment": "login"}))
    stub = shutil.copytree(stubs, tmp_path / "bin")
    (stub / "python3").write_text(LOGIN + STUB.partition("\n")[2])
    found = []

    for node in ("one", "two", "one"):
        more = {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURMD_NODENAME": node}
        found.append(started(script, stub, more, shell)[1])

    assert "--export-file=/dev/null" in argv
    logins = (tmp_path / "logins").read_text().split()
    assert logins == [f"{tmp_path}/runs/{RUN}/login/{node}" for node in ("one", "two")]
    assert {(env["A"], env["B"], env["BASH_FUNC_f%%"][:4]) for env in found} == {
        ("a b", "b", "() {")
    }
    assert all(env["PATH"].endswith(":/of/login") for env in found)


def test_a_task_without_its_login_shell_does_not_begin(stubs: Path, tmp_path: Path) -> None:
    wanted = spec(sweep={"n": "1..9"})
    script = sbatch(wanted, facts(wanted, {"environment": "login"}))[1]
    stub = shutil.copytree(stubs, tmp_path / "bin")
    (stub / "python3").write_text("#!/bin/sh\nexit 7\n")

    with pytest.raises(subprocess.CalledProcessError) as error:
        started(script, stub, {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURMD_NODENAME": "one"})

    assert error.value.returncode == 7


@pytest.mark.parametrize("shell", [("/bin/sh",), ("bash", "--posix")])
def test_a_task_that_is_told_to_end_lets_its_login_shell_finish(
    stubs: Path, tmp_path: Path, shell: tuple[str, ...]
) -> None:
    """Slurm kills what is left when the script ends; the next task of the node has the file."""
    wanted = spec(sweep={"n": "1..9"})
    script = sbatch(wanted, facts(wanted, {"environment": "login"}))[1]
    stub = shutil.copytree(stubs, tmp_path / "bin")
    slow = 'if [ "$3" = login ]; then kill -TERM $PPID; sleep 0.3; fi\n'
    (stub / "python3").write_text("#!/bin/bash\n" + slow + LOGIN.partition("\n")[2])

    more = {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURMD_NODENAME": "one"}
    with pytest.raises(subprocess.CalledProcessError) as error:
        started(script, stub, more, shell)

    assert error.value.returncode == 143
    assert error.value.stdout == b""
    assert (tmp_path / "runs" / RUN / "login" / "one").exists()


# -- containers


def contained(kind: str, stubs: Path, **fields: Any) -> tuple[list[str], dict[str, str]]:
    wanted = spec(container={"image": IMAGE, **fields.pop("container", {})}, **fields)
    there = {**FOUND, "containers": [kind]}
    options = {"container": kind, "shared": {"w": "/data/w"}}
    return started(sbatch(wanted, facts(wanted, options, there))[1], stubs)


WORK = [
    {"name": "a", "source": "shared://w/a", "target": "/job/a"},
    {"name": "b", "source": "shared://w/b", "target": "/job/b"},
]
ENV = {"A": "x,y z\r\n'", "PATH": "/opt/bin"}


def test_podman_is_told_the_variables_and_keeps_to_what_slurm_gave(stubs: Path) -> None:
    more = {"container": {"shm": "1GiB"}, "ulimits": {"stack": 65536 * 1024}}
    words, found = contained("podman", stubs, env=ENV, mounts=WORK, **more)

    line = words[words.index("podman") :]
    assert [f"--env={k}={v}" in line for k, v in ENV.items()] == [True, True]
    own = ("--cgroups=disabled", "--network=host", "--shm-size=1073741824b", "--user=0:0")
    assert {*own, "--ulimit=stack=67108864:67108864"} <= set(line)
    assert [w for w in line if w.startswith("--volume")] == [
        "--volume=/work space:/work space",
        "--volume=/data/w:/data/w",
    ]
    passed = {w.removeprefix("--env=") for w in line if w.startswith("--env=") and "=" not in w[6:]}
    assert {name for name in found if name.startswith("RUNSPEC_")} <= passed
    assert line[-5:-3] == ["--entrypoint=python3", "nvcr.io/nvidia/tf:18.10-py3"]
    assert found["PATH"] != "/opt/bin"  # which is the image's: podman itself is found without it
    assert "RUNSPEC_BELOW" not in found


def test_podman_is_told_what_the_profile_says_before_anything_else(stubs: Path) -> None:
    wanted = spec(container={"image": IMAGE})
    options = {"container": "podman", "podman": ["--annotation=a=b c"]}

    words, _ = started(sbatch(wanted, facts(wanted, options))[1], stubs)

    line = words[words.index("podman") :]
    assert line[:4] == ["podman", "run", "--annotation=a=b c", "--rm"]
    assert not [w for w in line if w.startswith("--cgroups")]


def test_apptainer_gets_variables_of_its_own(stubs: Path) -> None:
    words, found = contained("apptainer", stubs, env=ENV, mounts=WORK, cluster={"nodes": 1})

    line = words[words.index("apptainer") :]
    assert line[:4] == ["apptainer", "exec", "--bind=/work space", "--bind=/data/w"]
    assert line[4:6] == ["docker://nvcr.io/nvidia/tf:18.10-py3", "python3"]
    assert {k: found[f"APPTAINERENV_{k}"] for k in ENV} == ENV
    assert found["RUNSPEC_BELOW"] == "@"


AMD_DEVICES = ["--device=/dev/kfd", "--device=/dev/dri"]


@pytest.mark.parametrize(
    ("engine", "kind", "given"),
    [
        ("podman", "A100", ["--device=nvidia.com/gpu=all"]),
        ("podman", "MI300X", AMD_DEVICES),
        ("podman", "Trainium", []),  # the profile's options of podman name its devices
        ("apptainer", "A100", ["--nv"]),
        ("apptainer", "MI300X", ["--rocm"]),
        ("apptainer", "Trainium", []),
    ],
)
def test_a_container_gets_the_chips_that_the_spec_names(
    stubs: Path, engine: str, kind: str, given: list[str]
) -> None:
    """https://apptainer.org/docs/user/latest/gpu.html"""
    wanted = spec(container={"image": IMAGE}, cluster={"gpus": 1, "gpu_type": kind})
    options = {"container": engine}

    words, _ = started(sbatch(wanted, facts(wanted, options, None))[1], stubs)

    line = words[words.index(engine) :]
    assert [w for w in line if w in ("--nv", "--rocm") or w.startswith("--device=")] == given
    is_amd = engine == "podman" and kind == "MI300X"
    assert ("--env=ROCR_VISIBLE_DEVICES" in line) == is_amd


def test_pyxis_gets_the_whole_name_of_the_image_from_srun(stubs: Path) -> None:
    """In an option of a batch script, which sbatch reads by itself, a # begins a comment: the name would be cut."""
    words, found = contained("pyxis", stubs, env={"A": "1", "B": "x,y"}, mounts=WORK)

    step = words[words.index("srun") : words.index("python3", 1)]
    assert f"--container-image={IMAGE}" in step
    assert "--container-mounts=/work space:/work space,/data/w:/data/w" in step
    assert "--container-env=PYTHONUNBUFFERED,A,B" in step
    assert (found["A"], found["B"]) == ("1", "x,y")


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("podman", "--device={}"),
        ("apptainer", "--bind={}"),
        ("pyxis", "--container-mounts=/work space:/work space,{0}:{0}"),
    ],
)
def test_network_adapters_reach_the_container(
    stubs: Path, tmp_path: Path, kind: str, option: str, there: bool
) -> None:
    """Those of the first node, if it has any."""
    folder = tmp_path / "infiniband"
    if there:
        folder.mkdir()
    wanted = spec(container={"image": IMAGE}, cluster={"nodes": 2})
    script = sbatch(wanted, facts(wanted, {"container": kind}, {**FOUND, "containers": [kind]}))[1]

    words, _ = started(script.replace("/dev/infiniband", str(folder)), stubs)

    assert (option.format(folder) in words) == there
    assert "" not in words
    assert there or str(folder) not in " ".join(words)


def test_a_job_that_may_use_adapters_may_pin_memory(stubs: Path, tmp_path: Path) -> None:
    """As much as the hard limit allows; a job on one node without GPUs keeps the limit that it has."""
    stub = tmp_path / "bin"
    shutil.copytree(stubs, stub)
    (stub / "podman").write_text(
        "#!/bin/sh\nprintf '0\\0%s\\0a=b\\0' \"$(ulimit -S -l) $(ulimit -H -l)\"\n"
    )
    for name in ("python3", "srun"):  # each starts the words after its own
        (stub / name).write_text('#!/bin/sh\nwhile [ "$1" != podman ]; do shift; done\nexec "$@"\n')

    def limits(**cluster: int) -> list[str]:
        wanted = spec(container={"image": IMAGE}, cluster=cluster)
        script = sbatch(wanted, facts(wanted, {"container": "podman"}))[1]
        lower = script.replace("#!/bin/sh", "#!/bin/sh\nulimit -S -l 16", 1)
        return started(lower, stub)[0][0].split()

    assert limits(nodes=1)[0] == "16"
    for cluster in ({"nodes": 2}, {"gpus": 1}):
        soft, hard = limits(**cluster)
        assert soft == hard != "16"


@pytest.mark.parametrize(
    ("image", "said"),
    [
        ("ubuntu", "ubuntu"),
        ("library/ubuntu:22.04", "library/ubuntu:22.04"),
        ("docker://nvcr.io/a/b:1", "nvcr.io#a/b:1"),
        ("localhost:5000/a", "localhost:5000#a"),
        ("nvcr.io#a/b", "nvcr.io#a/b"),
        ("/images/a.sqsh", "/images/a.sqsh"),
        (f"h.io:5000/a:1@{SHA}", f"h.io:5000#a@{SHA}"),
    ],
)
def test_a_registry_is_told_apart_as_enroot_writes_it(image: str, said: str) -> None:
    assert enroot_notation(image) == said


@pytest.mark.parametrize("scheme", ["", "docker://"])
def test_other_engines_get_the_names_of_enroot_as_docker_writes_them(
    stubs: Path, scheme: str
) -> None:
    """They have no user before the registry, and no tag beside a digest."""
    image = f"{scheme}me@h.io#a/b:1@{SHA}"

    lines = [
        started(sbatch(wanted, facts(wanted, {"container": engine}))[1], stubs)[0]
        for engine in ("podman", "apptainer")
        for wanted in [spec(container={"image": image})]
    ]

    plain = f"h.io/a/b@{SHA}"
    assert [scheme + plain in lines[0], f"docker://{plain}" in lines[1]] == [True, True]


@pytest.mark.parametrize("scheme", ["", "docker://"])
def test_podman_is_asked_for_the_entrypoint_of_an_image_by_its_plain_name(scheme: str) -> None:
    """`podman image inspect docker://a:1` is an error: "unsupported transport"."""
    wanted = spec(container={"image": f"{scheme}h.io/a:1"})
    container = wanted.container.model_copy(update={"entrypoint": "image"})
    wanted = wanted.model_copy(update={"command": None, "container": container})

    script = sbatch(wanted, facts(wanted, {"container": "podman"}))[1]

    assert "export RUNSPEC_ENTRYPOINT=h.io/a:1" in script.splitlines()


def test_the_files_of_images_are_run_as_they_are(stubs: Path) -> None:
    wanted = spec(container={"image": "/images/a b.sif".replace(" ", "_")})

    words, _ = started(sbatch(wanted, facts(wanted, {"container": "apptainer"}))[1], stubs)

    assert "/images/a_b.sif" in words
