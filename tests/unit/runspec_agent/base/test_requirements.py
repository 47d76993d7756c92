"""The job's own environment: built by uv or by pip, with the versions that were asked for, or one clear line."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from runspec_agent.base import requirements
from runspec_agent.base.job_env import USAGE, Failure
from tests.support.requirements import need

pytestmark = pytest.mark.process

BACKEND = """
import pathlib, zipfile
import helper

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "sourced-1.0-py3-none-any.whl"
    info = "sourced-1.0.dist-info/"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.writestr("sourced.py", "BUILT_WITH = %r" % helper.VERSION)
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: sourced\\nVersion: 1.0\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""
PROJECT = """
[project]
name = "sourced"
version = "1.0"
[build-system]
requires = ["helper"]
build-backend = "backend"
backend-path = ["."]
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, which is all that pip and uv know of: helper 1 and 2, and the source of sourced."""
    folder = tmp_path / "store"
    folder.mkdir()
    for version in ("1.0", "2.0"):
        wheel(folder, "helper", version)
    with tarfile.open(folder / "sourced-1.0.tar.gz", "w:gz") as archive:
        for name, text in {
            "backend.py": BACKEND,
            "pyproject.toml": PROJECT,
            "PKG-INFO": "Metadata-Version: 2.1\nName: sourced\nVersion: 1.0\n",
        }.items():
            info = tarfile.TarInfo("sourced-1.0/" + name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    env = {
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(folder),
        "UV_NO_INDEX": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "PIP_FIND_LINKS": str(folder),
        "PIP_NO_INDEX": "1",
        "PIP_CACHE_DIR": str(tmp_path / "pip"),
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return folder


def wheel(folder: Path, name: str, version: str) -> None:
    info = f"{name}-{version}.dist-info/"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}")
        archive.writestr(
            info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(info + "RECORD", "")


def built(
    folder: Path, tool: str, wanted: Sequence[str], limits: Sequence[str] = ()
) -> dict[str, str]:
    """Build with *tool*; give the environment of the job."""
    need("uv")
    env = dict(os.environ)
    if tool == "pip":  # a PATH on which there is no uv
        env["PATH"] = "/usr/bin:/bin"
    record = {"requirements": list(wanted), "build_constraints": list(limits)}
    requirements.build(record, str(folder), env)
    return env


def says(env: dict[str, str], script: str) -> str:
    line = ["python", "-c", script]
    return subprocess.run(line, env=env, check=True, capture_output=True, text=True).stdout.strip()


TOOLS = ["uv", pytest.param("pip", marks=pytest.mark.slow)]
every_tool = pytest.mark.parametrize("tool", TOOLS)


@every_tool
def test_the_program_finds_what_was_asked_for(store: Path, tmp_path: Path, tool: str) -> None:
    """By `python`, and by the Python of launchers; what the image has stays in reach."""
    env = built(tmp_path, tool, ["helper==1.0"])

    assert says(env, "import helper; print(helper.VERSION)") == "1.0"
    assert says(env, "import sys; print(sys.executable)") == env["RUNSPEC_PYTHON"]
    assert env["PATH"].split(os.pathsep)[0] == env["VIRTUAL_ENV"] + "/bin"
    settings = (Path(env["VIRTUAL_ENV"]) / "pyvenv.cfg").read_text()
    assert "include-system-site-packages = true" in settings


@pytest.mark.parametrize(
    ("tool", "limits", "version"),
    [
        ("uv", ["helper<2"], "1.0"),
        ("uv", [], "2.0"),
        pytest.param("pip", ["helper<2"], "1.0", marks=(pytest.mark.slow, pytest.mark.matrix)),
    ],
)
def test_build_constraints_reach_the_build(
    store: Path, tmp_path: Path, tool: str, limits: list[str], version: str
) -> None:
    """Old sources are built with what they knew."""
    env = built(tmp_path, tool, ["sourced"], limits)

    assert says(env, "import sourced; print(sourced.BUILT_WITH)") == version


@every_tool
def test_an_environment_that_cannot_be_built_fails_with_one_line(
    store: Path, tmp_path: Path, tool: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, after what the tool itself says."""
    with pytest.raises(
        Failure,
        match=r"^the job's packages cannot be installed: .* ended with exit code \d+; a node that reaches no",
    ) as failure:
        built(tmp_path, tool, ["nowhere==3.0"])

    assert failure.value.code == USAGE
    out, err = capfd.readouterr()
    assert out.startswith("runspec: building the environment of 1 requirements\n")
    assert "nowhere" in err


def test_the_jobs_own_variables_stay(store: Path, tmp_path: Path) -> None:
    """Nothing is left in them but the way to the environment."""
    env = built(tmp_path, "uv", [], ["helper<2"])

    changed = {name for name in env if env[name] != os.environ.get(name)}
    assert changed == {"PATH", "VIRTUAL_ENV", "RUNSPEC_PYTHON"}


def test_constraints_of_the_image_stay(tmp_path: Path) -> None:
    """Ours are beside them, for pip as it is and as it was."""
    assert requirements.build_env({"PIP_CONSTRAINT": "a"}, "b") == {
        "PIP_CONSTRAINT": "a b",
        "PIP_BUILD_CONSTRAINT": "b",
    }
    assert requirements.build_env({"X": "y"}, "") == {"X": "y"}


def test_requirements_may_have_any_letter(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the image's locale; a path may have some."""
    wheel(store, "other", "1.0")
    place = tmp_path / "é"
    place.mkdir()
    (store / "other-1.0-py3-none-any.whl").rename(place / "other-1.0-py3-none-any.whl")
    record = {
        "requirements": [f"other @ file://{place}/other-1.0-py3-none-any.whl"],
        "build_constraints": [],
    }
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from runspec_agent.base import requirements\n"
        "requirements._run = lambda *_: None\n"
        "requirements.build(eval(sys.argv[2]), sys.argv[3], {})"
    )
    source = str(Path(requirements.__file__).parents[2])
    line = [sys.executable, "-X", "utf8=0", "-c", script, source, ascii(record), str(tmp_path)]

    subprocess.run(line, check=True, env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"})

    assert "é" in (tmp_path / "requirements.txt").read_text("utf-8")


# Conda

# Stands in for micromamba, which no package index of Python has: it notes its words, and makes what it is told to.
MICROMAMBA = """#!/bin/sh
printf '%s\\n' "$@" >"${0%/*}/words"
mkdir -p "$5/bin" && ln -s /bin/true "$5/bin/python"
"""


def conda(folder: Path, env: dict[str, str]) -> None:
    lines = ["dependencies:", "- python=3.12"]
    record = {"requirements": lines, "build_constraints": [], "conda": True}
    requirements.build(record, str(folder), env)


def test_a_conda_environment_is_made_by_micromamba(tmp_path: Path) -> None:
    (tmp_path / "micromamba").write_text(MICROMAMBA)
    (tmp_path / "micromamba").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}

    conda(tmp_path, env)

    made, file = f"{tmp_path}/env", f"{tmp_path}/environment.yml"
    words = (tmp_path / "words").read_text().split()
    assert words == ["create", "--yes", "--quiet", "--prefix", made, "--file", file]
    assert Path(file).read_text() == "dependencies:\n- python=3.12\n"
    assert env == {
        "PATH": f"{made}/bin:{tmp_path}:/usr/bin:/bin",
        "CONDA_PREFIX": made,
        "RUNSPEC_PYTHON": f"{made}/bin/python",
    }


def test_a_node_without_micromamba_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"needs micromamba, .* install it as https://.*MAMBA_EXE"):
        conda(tmp_path, {"PATH": str(tmp_path)})
