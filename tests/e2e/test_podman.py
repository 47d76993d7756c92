"""Jobs in real containers: podman, with an image made here from Debian's packages."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.state import run_record
from runspec_jobs.testing.contracts.entering import post
from runspec_jobs.testing.world import ECHO
from tests.e2e.test_launch import mpi as mpi  # a fixture
from tests.support import ends, private_registry, process_table
from tests.support.container_shell import shell_in_container
from tests.support.profiles import own_profile
from tests.support.requirements import lack, need, need_root
from tests.support.shared_folder import shared_folder

IMAGE = "localhost/runspec-test:1"
INCLUDE = "python3,python3-minimal,libpython3-stdlib,dash,bash,coreutils,sed,grep,ca-certificates"
# A machine without CAP_SYS_RESOURCE may not raise limits, and one with both versions of cgroups
# has no crun: https://docs.podman.io/en/stable/markdown/podman.1.html, containers.conf(5).
CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]
[network]
network_backend = "cni"
[engine]
runtime = "runc"
"""
STORAGE = """\
[storage]
driver = "overlay"
graphroot = "{folder}/root"
runroot = "{folder}/run"
"""
HEAD = f"""\
apiVersion: runspec/v1
name: boxed
provider: local
container: {{image: "{IMAGE}"}}
"""
# The first process of a container hears no SIGTERM that it does not ask for: its grace is waited for. pid_namespaces(7)
BRIEF = "providers: {local: {grace: 2s}}\n"
Capture = pytest.CaptureFixture[str]

pytestmark = [pytest.mark.slow, pytest.mark.podman]


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Give an environment in which podman has a storage of its own, with IMAGE in it."""
    need_root()
    need("podman", "mmdebstrap", "runc")
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(CONFIGURATION)
    (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
    (folder / "registries.conf").write_text(private_registry.PLAIN_HTTP)
    settings = {
        "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }
    env = {**os.environ, **settings}
    made = debian(shared_folder(tmp_path_factory), env)
    _run(["podman", "import", "--quiet", str(made), IMAGE], env)
    yield settings
    subprocess.run(["podman", "rm", "--all", "--force"], env=env, capture_output=True, check=False)
    subprocess.run(["podman", "rmi", "--all", "--force"], env=env, capture_output=True, check=False)


def debian(folder: Path, env: dict[str, str]) -> Path:
    """Return an archive of a small Debian, which the first who asks for it makes in *folder*."""
    found = folder / "debian.tar"
    with (folder / "debian.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists():
            part = folder / "debian.part.tar"
            how = ["--variant=extract", f"--include={INCLUDE}"]
            _run(["mmdebstrap", *how, "bookworm", str(part)], env)
            part.rename(found)
    return found


def with_entrypoint(name: str, entrypoint: list[str], *more: str) -> str:
    """Make an image like IMAGE called *name*, with an ENTRYPOINT and *more* lines; give its name."""
    changes = [f"--change={line}" for line in (f"ENTRYPOINT {json.dumps(entrypoint)}", *more)]
    for words in (
        ["create", "--name", "of-entrypoint", IMAGE, "true"],
        ["commit", "--quiet", *changes, "of-entrypoint", name],
        ["rm", "of-entrypoint"],
    ):
        subprocess.run(["podman", *words], check=True, capture_output=True)
    return name


# That docker is asked as podman is, one test here shows.
DOCKER = pytest.param("docker", marks=pytest.mark.matrix)
CANNOT_START = ("image", "architecture", "shell", "entrypoint")  # rows of the table of ends
NOWHERE = "127.0.0.1:9/no/such:1"  # an image that cannot be pulled
PULLED_AGAIN: dict[str, Any] = {
    "container": {"image": NOWHERE},
    "retry": {**ends.RETRY, "on": [{"reason": "image", "action": "retry"}]},
}
# The head of a program for AArch64, ELF-64: https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html
FOREIGN = b"\x7fELF\2\1\1" + bytes(9) + b"\2\0\xb7\0" + bytes(108)
MAKE_FOREIGN = """\
for program in /usr/bin/python3 /usr/bin/env /bin/dash /bin/bash; do
cp /foreign $program.new; mv $program.new $program
done"""


def broken_image(end: str, name: str, folder: Path) -> str:
    """Return the name of an image that cannot start a job: *name*, or one that is nowhere."""
    if end == "image":
        return NOWHERE
    if end == "entrypoint":
        return with_entrypoint(name, ["/no/such/program"])
    foreign = folder / "foreign"
    foreign.write_bytes(FOREIGN)
    foreign.chmod(0o755)
    makes = {
        "architecture": ["--entrypoint=sh", IMAGE, "-c", MAKE_FOREIGN],
        "shell": ["--entrypoint=rm", IMAGE, "/bin/sh"],
    }
    for line in (
        ["run", "--name=broken", "--network=none", f"--volume={foreign}:/foreign", *makes[end]],
        ["commit", "--quiet", "--change=ENTRYPOINT []", "broken", name],
        ["rm", "broken"],
    ):
        subprocess.run(["podman", *line], check=True, capture_output=True)
    return name


def _run(line: list[str], env: dict[str, str]) -> None:
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        lack(f"a working '{line[0]} {line[1]}': {done.stderr[-500:]}")


@pytest.fixture
def spec(podman: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in podman.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "job.yaml"


@pytest.fixture
def docker(spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have docker's own command line talk to podman, which answers as docker's daemon does."""
    need("docker")
    socket = f"unix://{tmp_path}/docker.sock"
    service = subprocess.Popen(["podman", "system", "service", "--time=0", socket])
    monkeypatch.setenv("DOCKER_HOST", socket)
    try:
        end = time.monotonic() + 90
        while subprocess.run(["docker", "ps"], capture_output=True, check=False).returncode:
            assert time.monotonic() < end, "podman does not answer as docker"
            time.sleep(0.1)
        yield
    finally:
        service.terminate()
        service.wait()


def containers() -> list[str]:
    line = ["podman", "ps", "--all", "--quiet", "--filter", "label=runspec.run"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()


def test_the_plan_says_which_engine_it_is(spec: Path, capsys: Capture) -> None:
    spec.write_text(HEAD + "command: [echo]\n")

    assert run(["plan", str(spec), "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert [step["id"] for step in steps] == ["image", "job"]
    assert steps[1]["do"]["params"]["engine"] == "podman"


def test_a_command_reaches_its_program_byte_for_byte(spec: Path, capsys: Capture) -> None:
    words = ["a b", "$(id)", "'\"", "; ls", "*", "", "-n"]
    spec.write_text(HEAD + f"command: {json.dumps(['printf', '<%s>', *words])}\n")

    assert run(["apply", str(spec)]) == 0
    assert capsys.readouterr().out == "".join(f"<{word}>" for word in words) + "\n"


def test_mounts_are_read_only_outputs_come_back_and_the_exit_code_is_kept(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x.txt").write_text("here\n")
    spec.write_text(
        HEAD
        + "mounts: [{name: code, source: ./code, target: /job/code}]\n"
        + "outputs: [{name: out, path: /job/out, sync: 1s}]\n"
        + "run: |\n  cat /job/code/x.txt\n  touch /job/code/y 2>/dev/null && echo written\n"
        + "  cp /job/code/x.txt /job/out/\n  exit 9\n"
    )
    spec.write_text(spec.read_text().replace("&& echo written", "&& echo written || true"))

    assert run(["apply", str(spec), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["exit_code"] == 9
    assert run(["logs", "boxed"]) == 0
    assert capsys.readouterr().out == "here\n"
    assert run(["fetch", "boxed", str(tmp_path / "got")]) == 0
    assert (tmp_path / "got" / "out" / "x.txt").read_text() == "here\n"


def test_a_setup_and_a_signal_reach_the_container(spec: Path, capsys: Capture) -> None:
    """A setup that fails is told apart from an image that cannot start."""
    lines = [
        "timeout: 60s",
        "signal: {name: USR1, before: 57s}",
        "setup: echo ready >/tmp/set-up",
        "run: |",
        "  trap 'cat /tmp/set-up; exit 0' USR1",
        "  while :; do sleep 0.1; done",
    ]
    spec.write_text(HEAD + BRIEF + "\n".join(lines))

    assert run(["apply", str(spec)]) == 0
    assert run(["logs", "boxed"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines().count("ready") == 2
    assert "runspec: USR1 was sent to processes of the program: 1" in out
    spec.write_text(HEAD + "setup: exit 5\ncommand: [echo]\n")
    assert run(["apply", str(spec), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["exit_code"], found["reason"]) == (5, "setup failed with exit code 5")


@pytest.mark.parametrize("engine", ["podman", DOCKER])
def test_the_entrypoint_of_an_image_runs_in_its_folder_with_the_arguments(
    engine: str, request: pytest.FixtureRequest, spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    """On each node, and the words reach it byte for byte."""
    if engine == "docker":
        request.getfixturevalue("docker")
    serve = 'echo "$PWD: $*"; cat "$1"'
    image = with_entrypoint("localhost/serve:1", ["sh", "-c", serve, "it's"], "WORKDIR /usr/lib")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x.txt").write_text("here\n")
    args = ["${mounts.code}/x.txt", "a b", "$(id)", "'\""]
    container = {"image": image, "entrypoint": "image", "args": args}
    spec.write_text(
        HEAD.partition("container")[0]
        + f"container: {json.dumps(container)}\ncluster: {{nodes: 2}}\n"
        + "mounts: [{name: code, source: ./code, target: /job/code}]\n"
        + f"providers: {{local: {{engine: {engine}}}}}\n"
    )

    code = run(["apply", str(spec)])

    lines = ("/usr/lib: /job/code/x.txt a b $(id) '\"", "here")
    captured = capsys.readouterr()
    expected = sorted(f"[node {node}] {line}" for node in range(2) for line in lines)
    assert (code, sorted(captured.out.splitlines())) == (0, expected), captured.err


def test_an_image_without_arguments_runs_its_cmd(spec: Path, capsys: Capture) -> None:
    """Its exit code is that of the job."""
    say = ["sh", "-c", 'printf "<%s>" "$@"; exit 7', "x"]
    image = with_entrypoint("localhost/cmd:1", say, 'CMD ["a b", "c"]')
    spec.write_text(
        HEAD.partition("container")[0] + f"container: {{image: {image}, entrypoint: image}}\n"
    )

    assert run(["apply", str(spec), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["exit_code"] == 7
    assert run(["logs", "boxed"]) == 0
    assert capsys.readouterr().out == "<a b><c>"


def test_ranks_of_all_containers_have_the_variables_of_srun(spec: Path, capsys: Capture) -> None:
    """The agent of each container starts its own."""
    spec.write_text(
        HEAD
        + "cluster: {nodes: 2}\nlaunch: srun\nprocesses_per_node: 2\n"
        + "run: |\n  echo $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID\n"
    )

    code = run(["apply", str(spec)])

    captured = capsys.readouterr()
    expected = [f"[node {rank // 2}] {rank}/4 {rank % 2}" for rank in range(4)]
    assert (code, sorted(captured.out.splitlines())) == (0, expected), captured.err


def built_images() -> list[str]:
    line = ["podman", "images", "--format={{.Id}}", "localhost/runspec-build"]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("engine", ["podman", DOCKER])
def test_an_image_is_built_once_from_what_no_rule_leaves_out(
    engine: str, request: pytest.FixtureRequest, spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Its name is that of its content, so that a change of another file builds nothing."""
    if engine == "docker":
        request.getfixturevalue("docker")
    context = tmp_path / "image"
    (context / "data").mkdir(parents=True)
    (context / "Dockerfile").write_text(
        f"FROM {IMAGE}\nCOPY . /app/\nWORKDIR /app\n"
        'ENTRYPOINT ["sh", "-c", "ls /app /app/data; cat message", "x"]\n'
    )
    (context / ".dockerignore").write_text("# other\ndata/*\n!data/small\nDockerfile\n")
    for name, text in {"message": f"{engine} 1\n", "data/small": "", "data/large": "1"}.items():
        (context / name).write_text(text)
    spec.write_text(
        HEAD.partition("container")[0]
        + "container: {build: {context: ./image}, entrypoint: image}\n"
        + f"providers: {{local: {{engine: {engine}}}}}\n"
    )
    before = set(built_images())

    codes = [run(["apply", str(spec)])]
    (context / "data" / "large").write_text("2")
    codes.append(run(["apply", str(spec), "--new"]))
    once = set(built_images()) - before
    (context / "message").write_text(f"{engine} 2\n")
    codes.append(run(["apply", str(spec), "--new"]))

    captured = capsys.readouterr()
    listed = "/app:\ndata\nmessage\n\n/app/data:\nsmall\n"
    assert (codes, captured.out) == (
        [0] * 3,
        f"{listed}{engine} 1\n" * 2 + f"{listed}{engine} 2\n",
    ), captured.err
    assert (len(once), len(set(built_images()) - before)) == (1, 2)


def test_a_build_that_fails_says_why_and_leaves_no_image(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "Containerfile").write_text(f"FROM {IMAGE}\nRUN exit 7\n")
    spec.write_text(
        HEAD.partition("container")[0] + "container: {build: {context: ./}}\nrun: echo\n"
    )
    before = built_images()

    assert run(["apply", str(spec)]) == 69
    said = capsys.readouterr().err
    assert "cannot build the image: " in said and "see Containerfile" in said
    assert built_images() == before


@pytest.mark.parametrize("engine", ["podman", DOCKER])
def test_a_node_may_end_before_another_begins(
    engine: str, request: pytest.FixtureRequest, spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Their network is nobody's own: it outlives each of them."""
    if engine == "docker":
        request.getfixturevalue("docker")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x.txt").write_text("here\n")
    spec.write_text(
        HEAD
        + "cluster: {nodes: 3}\n"
        + "mounts: [{name: code, source: ./code, target: /job/code}]\n"
        + "outputs: [{name: out, path: /job/out}]\n"
        + 'run: |\n  cat /job/code/x.txt\n  echo "$RUNSPEC_RANK" > /job/out/rank\n'
        + f"providers: {{local: {{engine: {engine}}}}}\n"
    )

    assert run(["apply", str(spec)]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [f"[node {n}] here" for n in range(3)]
    assert run(["fetch", "boxed", str(tmp_path / "got")]) == 0
    ranks = sorted(path.read_text() for path in (tmp_path / "got").rglob("rank"))
    assert ranks == ["0\n", "1\n", "2\n"]
    assert containers() == []


def test_two_nodes_reach_each_other_on_their_addresses(spec: Path, capsys: Capture) -> None:
    program = (
        "import os,socket,time\n"
        "if os.environ['RUNSPEC_RANK']=='0':\n"
        "  s=socket.create_server((os.environ['RUNSPEC_HOST'],7007)); c,_=s.accept(); print(c.recv(99).decode())\n"
        "else:\n"
        "  for i in range(200):\n"
        "    try: c=socket.create_connection((os.environ['RUNSPEC_LEADER'],7007)); break\n"
        "    except OSError: time.sleep(.1)\n"
        "  c.sendall(b'hello from '+os.environ['RUNSPEC_RANK'].encode())\n"
    )
    spec.write_text(
        HEAD + f"cluster: {{nodes: 2}}\ncommand: {json.dumps(['python3', '-c', program])}\n"
    )

    assert run(["apply", str(spec)]) == 0
    assert "[node 0] hello from 1" in capsys.readouterr().out


@pytest.mark.parametrize("mpi", ["openmpi"], indirect=True)
def test_ranks_in_two_containers_are_one_world_without_an_sshd(
    spec: Path, mpi: Path, capsys: Capture
) -> None:
    """The image has Python, and no program that a remote shell needs."""
    packages = "lib/python3.11/site-packages"  # the Python of IMAGE
    if not (mpi / packages).exists():
        lack("an MPI for Python 3.11")
    for name in ("bin", "lib", "share", "etc"):
        if (mpi / name).exists():
            shutil.copytree(mpi / name, spec.parent / "mpi" / name, symlinks=True)
    for link in (spec.parent / "mpi/bin").glob("python*"):
        link.unlink()
    program = (
        "import os\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "found = world.gather((world.rank, os.environ['RUNSPEC_RANK'], os.readlink('/proc/self/ns/mnt')))\n"
        "if world.rank == 0: print(len({f[2] for f in found}), [f[:2] for f in found], flush=True)\n"
    )
    more = {
        "cluster": {"nodes": 2},
        "launch": "mpi",
        "processes_per_node": 2,
        "mounts": [{"name": "mpi", "source": "./mpi", "target": "/job/mpi"}],
        "env": {
            "PATH": "/job/mpi/bin:/usr/bin:/bin",
            "PYTHONPATH": f"/job/mpi/{packages}",
        },
        "command": ["python3", "-c", program],
    }
    spec.write_text(HEAD + "".join(f"{key}: {json.dumps(value)}\n" for key, value in more.items()))

    assert run(["apply", str(spec)]) == 0
    assert "2 [(0, '0'), (1, '0'), (2, '1'), (3, '1')]" in capsys.readouterr().out


def test_a_secret_is_in_no_command_line(
    spec: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE", "canary-5309")
    own_profile().write_text("providers: {local: {secrets: {t: env:SOURCE}}}\n")
    spec.write_text(HEAD + "secrets: {TOKEN: t}\n" + "run: |\n  echo ${#TOKEN}\n  sleep 5\n")
    assert run(["apply", str(spec), "--detach"]) == 0
    while run(["logs", "boxed"]) == 0 and "11" not in capsys.readouterr().out:
        time.sleep(0.2)

    lines = [words for _, words in process_table.words()]

    assert not any(b"canary-5309" in line for line in lines)
    assert run(["destroy", "boxed"]) == 0


def test_cancel_ends_the_containers_and_destroy_leaves_none(spec: Path, capsys: Capture) -> None:
    spec.write_text(HEAD + BRIEF + "cluster: {nodes: 2}\nrun: |\n  echo on\n  sleep 600\n")
    assert run(["apply", str(spec), "--detach"]) == 0
    while run(["logs", "boxed"]) == 0 and capsys.readouterr().out.count("on") < 2:
        time.sleep(0.2)
    line = ["podman", "inspect", "--format", "{{.Config.StopTimeout}}", *containers()]
    more_s = subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()

    assert run(["cancel", "boxed"]) == 0
    assert containers() == []
    assert run(["destroy", "boxed"]) == 0
    assert more_s == ["0"] * 3  # beyond the grace, for each node and their network


def test_a_killed_supervisor_leaves_a_run_that_can_be_destroyed(
    spec: Path, capsys: Capture
) -> None:
    spec.write_text(HEAD + BRIEF + "run: |\n  echo on\n  trap '' TERM\n  sleep 600\n")
    assert run(["apply", str(spec), "--detach"]) == 0
    while run(["logs", "boxed"]) == 0 and "on" not in capsys.readouterr().out:
        time.sleep(0.2)
    folder = Path(run_record.find("boxed").plan.steps[-1].do.params["folder"])
    os.kill(json.loads((folder / "started.json").read_text())["pid"], 9)

    assert run(["destroy", "boxed"]) == 0
    assert containers() == []
    assert not folder.exists()


@pytest.mark.parametrize("engine", ["podman", "docker"])
def test_an_image_of_a_private_registry_is_pulled_with_the_login_of_the_profile(
    engine: str,
    spec: Path,
    podman: dict[str, str],
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """The password is in one file while the image is pulled, and in no command line, record or message."""
    if engine == "docker":
        request.getfixturevalue("docker")
    canary = private_registry.PASSWORD.encode()
    monkeypatch.setenv("REGISTRY_PASSWORD", "wrong")
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))
    root = tmp_path / "home" / "local"
    seen: list[tuple[bool, int, int]] = []

    def look() -> None:
        (file,) = root.glob("login-*/config.json")
        in_words = any(canary in line for _, line in process_table.words())
        seen.append(
            (in_words, stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode))
        )

    with private_registry.registry(IMAGE, tmp_path / "image", podman, look) as name:
        login = f"registry: {name.partition('/')[0]}, registry_user: {private_registry.USER}"
        own_profile().write_text(
            f"providers: {{local: {{{login}, registry_password: env:REGISTRY_PASSWORD}}}}\n"
        )
        spec.write_text(
            HEAD.replace(IMAGE, name)
            + f"providers: {{local: {{engine: {engine}}}}}\ncommand: [echo, here]\n"
        )
        assert run(["apply", str(spec)]) == 69
        refused = capsys.readouterr().err
        monkeypatch.setenv("REGISTRY_PASSWORD", private_registry.PASSWORD)

        assert run(["apply", str(spec)]) == 0

    assert "here" in capsys.readouterr().out
    assert f"cannot get the image {name}" in refused
    assert "registry_user and registry_password" in refused
    assert set(seen) == {(False, 0o600, 0o700)}
    assert list(root.glob("login-*")) == []
    assert private_registry.holding_password(tmp_path / "home") == []


def test_an_image_that_is_not_there_is_told_with_a_way_out(spec: Path, capsys: Capture) -> None:
    spec.write_text(HEAD.replace("runspec-test:1", "nothing:0") + "command: [echo]\n")

    assert run(["apply", str(spec)]) == 2
    assert "podman has no image localhost/nothing:0" in capsys.readouterr().err


@pytest.mark.matrix
@pytest.mark.parametrize("end", CANNOT_START[1:])
def test_a_job_whose_image_cannot_start_ends_as_recorded(
    spec: Path, tmp_path: Path, capsys: Capture, end: str
) -> None:
    ends.check("local", ends.rows(ended(spec, capsys, end, tmp_path), [end]))


@pytest.mark.matrix
@pytest.mark.usefixtures("docker")
def test_docker_is_not_believed_that_an_image_for_another_processor_has_run(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    """Of such a container, its command line has ended with 0 where podman answers it."""
    more = {"providers": {"local": {"engine": "docker"}}}

    status = ended(spec, capsys, "architecture", tmp_path, **more)

    (attempt,) = status["nodes"][0]["attempts"]
    assert (status["state"], attempt["exit_code"]) == ("failed", 126)
    assert "docker could not start the image localhost/broken:1: exec " in attempt["reason"]


def ended(spec: Path, capsys: Capture, end: str, folder: Path, **more: Any) -> dict[str, Any]:
    """Run a job whose image cannot start in the way *end*; return its status."""
    image = broken_image(end, "localhost/broken:1", folder)
    job = ends.spec("local", [end], timeout="10m", container={"image": image}, **more)
    spec.write_text(json.dumps(job))
    run(["apply", str(spec)])
    capsys.readouterr()
    run(["status", "job", "--json"])
    status: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status


def test_requirements_are_added_to_the_image_once(
    spec: Path, tmp_path: Path, capsys: Capture
) -> None:
    """With a wheel of our own, from a folder in the image: the build needs pip and no index."""
    need(sys.executable)
    build = tmp_path / "base"
    build.mkdir()
    _wheel(build)
    pip = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(build / "pip"), "pip"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert pip.returncode == 0, pip.stderr
    (build / "Containerfile").write_text(
        f"FROM {IMAGE}\nCOPY . /w\nENV PYTHONPATH=/w/pip PIP_NO_INDEX=1 PIP_FIND_LINKS=/w\n"
    )
    line = ["podman", "build", "--quiet", "--tag", "localhost/runspec-test:pip", str(build)]
    subprocess.run(line, check=True, capture_output=True)
    spec.write_text(
        HEAD.replace("runspec-test:1", "runspec-test:pip").replace(
            "}\n", ", requirements: [tiny==1]}\n"
        )
        + "command: [python3, -c, 'import tiny; print(tiny.WORD)']\n"
    )

    assert run(["apply", str(spec)]) == 0
    assert "it is in" in capsys.readouterr().out
    assert run(["apply", str(spec), "--new"]) == 0
    assert "STEP" not in capsys.readouterr().err


def _wheel(folder: Path) -> None:
    import zipfile

    meta = "tiny-1.dist-info"
    with zipfile.ZipFile(folder / "tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "WORD = 'it is in'\n")
        wheel.writestr(f"{meta}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        wheel.writestr(
            f"{meta}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{meta}/RECORD", "")


def test_a_shell_and_a_tunnel_lead_into_the_container_of_a_node(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its loopback address is in a network of its own; the environment is the container's, secrets too."""
    monkeypatch.setenv("SOURCE", "canary-5309")
    job = f"cluster: {{nodes: 2}}\nsecrets: {{TOKEN: token}}\ncommand: {json.dumps(['python3', '-c', ECHO, '8080'])}\n"
    own_profile().write_text("providers: {local: {grace: 1s, secrets: {token: env:SOURCE}}}\n")
    spec.write_text(HEAD + job)
    assert run(["apply", "-d", str(spec)]) == 0
    body = os.urandom(1 << 20) * 3
    line = [sys.executable, "-m", "runspec_jobs"]
    ask = 'echo "$RUNSPEC_RANK $TOKEN"; test -d /.runspec || echo outside; exit 6'
    tunnel: subprocess.Popen[str] | None = None
    try:
        until_running(2)
        shell = [*line, "shell", "boxed", "--node", "1", "--", "sh", "-c", ask]
        done = subprocess.run(shell, capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == ("1 canary-5309\n", 6), done.stderr

        words = [*line, "tunnel", "boxed", "0:8080", "--node", "1"]
        tunnel = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert tunnel.stdout is not None
        assert post(tunnel.stdout.readline().strip(), body, 30.0) == body
    finally:
        if tunnel is not None:
            tunnel.terminate()
            tunnel.communicate()
        run(["cancel", "boxed"])
    assert containers() == []


def until_running(count: int) -> None:
    end = time.monotonic() + 60
    line = ["podman", "ps", "--quiet", "--filter", "label=runspec.run", "--filter", "name=-1$"]
    while (
        len(subprocess.run(line, capture_output=True, text=True, check=True).stdout.split()) < count
    ):
        assert time.monotonic() < end, "they do not run"
        time.sleep(0.2)


@pytest.mark.matrix
def test_a_new_shell_is_in_a_container_of_its_own_and_leaves_none(spec: Path) -> None:
    spec.write_text(HEAD + BRIEF + "timeout: 5m\nenv: {WORD: here}\ncommand: ['true']\n")

    done = shell_in_container()

    assert (done.stdout, done.returncode) == ("here\n", 6), done.stderr
    until_gone()


@pytest.mark.matrix
def test_a_new_shell_names_the_program_that_its_image_lacks(
    podman: dict[str, str], spec: Path
) -> None:
    """And the run has failed, and holds no node."""
    small = "localhost/runspec-test:without"
    lines = f"FROM {IMAGE}\nRUN rm /usr/bin/mkfifo\n"
    made = ["podman", "build", "--quiet", "--tag", small, "--file", "-", "."]
    subprocess.run(made, input=lines, text=True, check=True, capture_output=True)
    head = HEAD.replace(IMAGE, small)
    spec.write_text(head + BRIEF + "timeout: 5m\ncommand: ['true']\n")

    done = shell_in_container()

    assert done.returncode == 1, done.stderr
    assert "a shell on a new node needs 'mkfifo'" in done.stdout + done.stderr
    until_gone()


def until_gone() -> None:
    end = time.monotonic() + 90
    while subprocess.run(["podman", "ps", "-q"], capture_output=True, check=True).stdout:
        assert time.monotonic() < end
        time.sleep(0.2)
