"""Build `container.requirements` into a virtual environment when the job starts."""

import os
import subprocess
import sys
from typing import Any, Dict, List, Mapping

from runspec_agent.base.job_env import USAGE, Failure


def build(record: Mapping[str, Any], folder: str, env: Dict[str, str]) -> None:
    """Make a virtual environment below *folder* and put it first in *env*. Raise Failure if that does not work."""
    import shutil

    made = os.path.join(folder, "env")
    wanted, built_with = os.path.join(folder, "requirements.txt"), os.path.join(folder, "build.txt")
    for path, lines in (
        (wanted, record["requirements"]),
        (built_with, record["build_constraints"]),
    ):
        with open(path, "w", encoding="utf-8") as stream:
            stream.writelines(line + "\n" for line in lines)
    uv = shutil.which("uv", path=env.get("PATH"))
    if uv is not None:
        what = ["--requirement", wanted, "--build-constraint", built_with]
        steps = [
            [uv, "venv", "--quiet", "--system-site-packages", "--python", sys.executable, made],
            [uv, "pip", "install", "--quiet", "--python", made + "/bin/python", *what],
        ]
    else:
        pip = [made + "/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        steps = [
            [sys.executable, "-m", "venv", "--system-site-packages", made],
            [*pip, "install", "--requirement", wanted],
        ]
    told = (
        env if uv is not None else build_env(env, built_with if record["build_constraints"] else "")
    )
    print(
        "runspec: building the environment of {} requirements".format(len(record["requirements"]))
    )
    sys.stdout.flush()
    for step in steps:
        _run(step, told)
    env.update(
        VIRTUAL_ENV=made, PATH=os.path.join(made, "bin") + os.pathsep + env.get("PATH", os.defpath)
    )
    env["RUNSPEC_PYTHON"] = made + "/bin/python"


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
            "the job's packages cannot be installed: {} ended with exit code {}".format(
                step[0], done.returncode
            ),
            USAGE,
        )
