"""Running an image with podman, Apptainer or Pyxis, or without any if its requirements can be installed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runspec_jobs.provider import Facts, Spec, nodes_each
from runspec_slurm import resources
from runspec_slurm.options import SlurmOptions
from runspec_slurm.session.quoting import HERE, quoted

# First those that run an image unchanged and keep the job within its allocation.
ORDER = ("pyxis", "apptainer", "podman")
UNKNOWN = "podman"  # without discovery
# Files of the run with the login at a registry: docker's, and enroot's, which has this name in a folder of settings.
# https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md
LOGIN_FOLDER = "login"
LOGIN, ENROOT_LOGIN = f"{LOGIN_FOLDER}/config.json", f"{LOGIN_FOLDER}/.credentials"
# Variables of Slurm that a program may need, in addition to those of the contract.
PASSED = (
    "SLURM_JOB_ID SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_NODEID SLURM_RESTART_COUNT "
    "SLURM_JOB_NODELIST CUDA_VISIBLE_DEVICES"
).split()

# InfiniBand and EFA pin memory, for which the usual soft limit of 64 KiB or 8 MiB is too small; containers inherit the
# limits. Whether there are adapters is looked at where the script runs, on the first node.
ADAPTERS = (
    'ulimit -S -l "$(ulimit -H -l)" 2>/dev/null || :',
    "[ -d /dev/infiniband ] && runspec_ib=/dev/infiniband || runspec_ib=",
)


def local(image: str) -> bool:
    """Return whether *image* exists on one machine only, and in no registry."""
    return image.startswith("localhost/")


def is_file(image: str) -> bool:
    """Return whether *image* is a file on the cluster (.sif, .sqsh)."""
    return image.startswith(("/", ".", "~"))


def engine(spec: Spec, facts: Facts) -> str:
    """Return the engine that runs the image: `podman`, `apptainer`, `pyxis`, or `none`.

    With `none`, the requirements are installed in place of the image.
    """
    options: SlurmOptions = facts.options
    image = spec.container.image
    if image is None or options.container == "none":
        return "none"
    if options.container != "auto":
        return options.container
    there = resources.found(facts).get("containers")
    buildable = spec.container.requirements is not None
    if local(image) and buildable:
        return "none"
    if there is None:
        return UNKNOWN
    return next((name for name in ORDER if name in there), "none")


def login(spec: Spec, facts: Facts) -> Mapping[str, Any] | None:
    """Return the login that the engine needs to pull the image, as part of a request; None if it needs none."""
    image = spec.container.image or ""
    if engine(spec, facts) == "none" or is_file(image):
        return None
    found: Mapping[str, Any] | None = facts.options.login(docker(image.removeprefix("docker://")))
    return found


def _login_file(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return the option of podman and Apptainer that names the file with the login, which is docker's."""
    return (f'--authfile="{HERE}/runs/$RUNSPEC_RUN/{LOGIN}"',) if login(spec, facts) else ()


def rooted(spec: Spec, facts: Facts) -> bool:
    """Return whether the job has a root file system of its own, in which `/job` can be made."""
    return engine(spec, facts) in ("podman", "pyxis")


def by_srun(spec: Spec, facts: Facts) -> bool:
    """Return whether srun starts the nodes: if there are several, or with Pyxis, which is a plugin of srun."""
    return nodes_each(spec) > 1 or engine(spec, facts) == "pyxis"


def adapters(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return the lines of the script that give network adapters to containers of jobs that may use some."""
    return ADAPTERS if engine(spec, facts) != "none" and _is_wide(spec) else ()


def _is_wide(spec: Spec) -> bool:
    return spec.cluster.nodes.max > 1 or bool(spec.cluster.gpus)


def variables(spec: Spec, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the variables of `env` that the script sets; podman gets them on its command line instead.

    Apptainer splits the value of `--env` at commas, so it gets variables with its own prefix:
    https://apptainer.org/docs/user/latest/environment_and_metadata.html#environment-overview
    """
    kind = engine(spec, facts)
    if kind == "podman":
        return
    prefix = "APPTAINERENV_" if kind == "apptainer" else ""
    for name, value in spec.program_env.items():
        yield prefix + name, value


def options_of_srun(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return the options of srun for Pyxis, as words of the script.

    https://github.com/NVIDIA/pyxis/wiki/Usage
    """
    if engine(spec, facts) != "pyxis":
        return ()
    bound = ",".join(f"{path}:{path}" for path in shared(spec, facts))
    own = f"{HERE}:{HERE}" + ("${runspec_ib:+,$runspec_ib:$runspec_ib}" if _is_wide(spec) else "")
    image = uri(spec.container.image or "")
    if there := login(spec, facts):
        image = f"{there['user']}@{image}"  # enroot looks for the password of this user
    found = [
        f"--container-image={quoted(image)}",
        f'--container-mounts="{own}"' + (f",{quoted(bound)}" if bound else ""),
        "--container-writable",
        "--container-remap-root",
        "--no-container-mount-home",
        "--no-container-entrypoint",
    ]
    # Otherwise, the values of the image would take effect.
    found.append(f"--container-env={','.join(spec.program_env)}")
    return tuple(found)


def words(spec: Spec, facts: Facts, exported: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of the script that start Python in the image, with the variables in *exported*.

    The tuple is empty without an image.
    """
    kind = engine(spec, facts)
    if kind == "podman":
        return _podman(spec, facts, exported)
    if kind == "apptainer":
        return _apptainer(spec, facts)
    return ("python3",) if kind == "pyxis" else ()


def _podman(spec: Spec, facts: Facts, exported: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments of podman. Those of the profile are first, so that runspec's take effect.

    Root in the container is the submitter, without root's permissions on the node; another user of the image could
    not read the workspace. SELinux labels are disabled, or the container could not read folders of a home or a shared
    file system; relabeling those would affect other users.
    https://docs.podman.io/en/latest/markdown/podman-run.1.html
    """
    found = ["podman", "run", *map(quoted, facts.options.podman)]
    found += ["--rm", "--network=host", "--user=0:0"]
    found += ["--security-opt=no-new-privileges", "--security-opt=label=disable"]
    found += _login_file(spec, facts)
    found.append(f'--volume="{HERE}:{HERE}"')
    for path in shared(spec, facts):
        found.append(f"--volume={quoted(f'{path}:{path}')}")
    found += [f"--env={quoted(f'{name}={value}')}" for name, value in spec.program_env.items()]
    found += [f"--env={name}" for name in (*exported, *PASSED)]
    if spec.container.shm:
        found.append(f"--shm-size={spec.container.shm}b")
    elif spec.cluster.gpus:
        # Data loaders share batches in /dev/shm, for which the default of 64 MiB is too little.
        found.append("--ipc=host")
    if spec.cluster.gpus:
        found.append("--device=nvidia.com/gpu=all")  # CUDA_VISIBLE_DEVICES selects those of the job
    if _is_wide(spec):
        found.append("${runspec_ib:+--device=$runspec_ib}")
    image = docker(spec.container.image or "")
    return (*found, "--entrypoint=python3", quoted(image))


def _apptainer(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return the arguments of apptainer: https://apptainer.org/docs/user/latest/cli/apptainer_exec.html"""
    found = ["apptainer", "exec", *_login_file(spec, facts), f'--bind="{HERE}"']
    found += [f"--bind={quoted(path)}" for path in shared(spec, facts)]
    if _is_wide(
        spec
    ):  # it has all of /dev already, unless apptainer.conf says `mount dev = minimal`
        found.append("${runspec_ib:+--bind=$runspec_ib}")
    if spec.cluster.gpus:
        found.append("--nv")
    image = spec.container.image or ""
    if not (is_file(image) or "://" in image):
        image = f"docker://{docker(image)}"
    return (*found, quoted(image), "python3")


def shared(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return the shared folders that the job mounts, without duplicates."""
    options: SlurmOptions = facts.options
    keys = [m.place.partition("/")[0] for m in spec.mounts if m.scheme == "shared"]
    return tuple(dict.fromkeys(options.shared[key] for key in keys))


def docker(image: str) -> str:
    """Return *image* in podman's notation, also if it is in enroot's.

    >>> docker("nvcr.io#nvidia/tensorflow:18.10-py3")
    'nvcr.io/nvidia/tensorflow:18.10-py3'
    """
    return image.replace("#", "/", 1)


def uri(image: str) -> str:
    """Return *image* in enroot's notation, where # follows the name of a registry.

    https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md

    >>> uri("nvcr.io/nvidia/tensorflow:18.10-py3"), uri("ubuntu:22.04")
    ('nvcr.io#nvidia/tensorflow:18.10-py3', 'ubuntu:22.04')
    """
    image = image.removeprefix("docker://")
    if is_file(image) or "#" in image:
        return image
    host, slash, rest = image.partition("/")
    return f"{host}#{rest}" if slash and re.search(r"[.:]|^localhost$", host) else image
