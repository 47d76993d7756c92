"""Build `container.requirements` or `container.conda` into an environment when the job starts."""

import os
import subprocess
import sys
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from runspec_agent.base.job_env import USAGE, Failure

CONDA = "environment.yml"
# Packages of the image count, because pip finds them in it; uv does not.
OFFLINE = (
    "a node that reaches no package index needs an image that has the packages, "
    "or PIP_INDEX_URL (uv: UV_DEFAULT_INDEX) of a mirror in env"
)
NAME = "env"  # the folder of the environment, beside the files that it is made of


def build(record: Mapping[str, Any], folder: str, env: Dict[str, str]) -> None:
    """Make an environment below *folder* and put it first in *env*. Raise Failure if that does not work."""
    make(record, folder, env)
    use(record, os.path.join(folder, NAME), env)


def use(record: Mapping[str, Any], made: str, env: Dict[str, str]) -> None:
    """Put the environment *made* first in *env*."""
    env["CONDA_PREFIX" if record.get("conda") else "VIRTUAL_ENV"] = made
    env["PATH"] = os.path.join(made, "bin") + os.pathsep + env.get("PATH", os.defpath)
    if not record.get("conda") or os.path.exists(made + "/bin/python"):
        env["RUNSPEC_PYTHON"] = made + "/bin/python"


def make(record: Mapping[str, Any], folder: str, env: Mapping[str, str]) -> None:
    """Make the environment NAME below *folder*. Raise Failure if that does not work."""
    made = os.path.join(folder, NAME)
    if record.get("conda"):
        steps, made_env = [_conda(record, folder, made, env)], dict(env)
    else:
        steps, made_env = _pip(record, folder, made, env)
    count = "{} requirements".format(len(record["requirements"]))
    print("runspec: building the environment of " + (CONDA if record.get("conda") else count))
    sys.stdout.flush()
    for step in steps:
        _run(step, made_env)


def _conda(record: Mapping[str, Any], folder: str, made: str, env: Mapping[str, str]) -> List[str]:
    """Return the command that makes a conda environment.

    https://mamba.readthedocs.io/en/latest/user_guide/micromamba.html
    """
    import shutil

    program = shutil.which(env.get("MAMBA_EXE") or "micromamba", path=env.get("PATH"))
    if program is None:
        raise Failure(
            "container.conda needs micromamba, which is not on the PATH of this node: install it as "
            "https://mamba.readthedocs.io/en/latest/installation/micromamba-installation.html says, "
            "or set MAMBA_EXE in env to its path",
            USAGE,
        )
    wanted = os.path.join(folder, CONDA)
    _write(wanted, record["requirements"])
    return [program, "create", "--yes", "--quiet", "--prefix", made, "--file", wanted]


def _pip(
    record: Mapping[str, Any], folder: str, made: str, env: Mapping[str, str]
) -> Tuple[List[List[str]], Dict[str, str]]:
    """Return the commands that make a virtual environment, by uv or else by pip, and their variables."""
    import shutil

    wanted, built_with = os.path.join(folder, "requirements.txt"), os.path.join(folder, "build.txt")
    _write(wanted, record["requirements"])
    _write(built_with, record["build_constraints"])
    uv = shutil.which("uv", path=env.get("PATH"))
    if uv is not None:
        limits = ["--build-constraint", built_with] if record["build_constraints"] else []
        what = ["--requirement", wanted, *limits]
        steps = [
            [uv, "venv", "--quiet", "--system-site-packages", "--python", sys.executable, made],
            [uv, "pip", "install", "--quiet", "--python", made + "/bin/python", *what],
        ]
        return steps, dict(env)
    pip = [made + "/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
    steps = [
        [sys.executable, "-m", "venv", "--system-site-packages", made],
        [*pip, "install", "--requirement", wanted],
    ]
    return steps, build_env(env, built_with if record["build_constraints"] else "")


def _write(path: str, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8") as stream:
        stream.writelines(line + "\n" for line in lines)


def build_env(env: Mapping[str, str], built_with: str) -> Dict[str, str]:
    """Return the variables with which pip builds old source distributions with *built_with*.

    Before pip 25.3, only PIP_CONSTRAINT reaches these builds.
    https://pip.pypa.io/en/stable/user_guide/#constraints-files
    """
    if not built_with:
        return dict(env)
    both = " ".join(word for word in (env.get("PIP_CONSTRAINT"), built_with) if word)
    return dict(env, PIP_CONSTRAINT=both, PIP_BUILD_CONSTRAINT=built_with)


def _run(step: List[str], env: Mapping[str, str]) -> None:
    done = subprocess.run(step, env=dict(env), stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise Failure(
            "the job's packages cannot be installed: {} ended with exit code {}; {}".format(
                step[0], done.returncode, OFFLINE
            ),
            USAGE,
        )
