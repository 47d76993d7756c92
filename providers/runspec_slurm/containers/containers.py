"""How an image is run: by podman, Apptainer or Pyxis, and by none where the requirements can be installed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.provider import Facts, Spec, nodes_each
from runspec_slurm import resources
from runspec_slurm.options import SlurmOptions
from runspec_slurm.session.quoting import HERE, quoted

# Those that take an image as it is first, and keep a job within what Slurm gave it.
ORDER = ("pyxis", "apptainer", "podman")
UNKNOWN = "podman"  # where nobody has asked the cluster
# What of a job's own variables its program may want to see, beside the contract's.
PASSED = (
    "SLURM_JOB_ID SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_NODEID SLURM_RESTART_COUNT "
    "SLURM_JOB_NODELIST CUDA_VISIBLE_DEVICES"
).split()


def local(image: str) -> bool:
    """Return whether *image* is of one machine, and so in no registry."""
    return image.startswith("localhost/")


def is_file(image: str) -> bool:
    """Return whether *image* is a file of the cluster (.sif, .sqsh)."""
    return image.startswith(("/", ".", "~"))


def engine(spec: Spec, facts: Facts) -> str:
    """Return what runs the image: `podman`, `apptainer`, `pyxis`, or `none`.

    The requirements stand in for an image that nothing there can run.
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


def rooted(spec: Spec, facts: Facts) -> bool:
    """Return whether the job has a root of its own, in which `/job` can be made."""
    return engine(spec, facts) in ("podman", "pyxis")


def by_srun(spec: Spec, facts: Facts) -> bool:
    """Return whether srun starts the nodes: all of many, and what Pyxis runs, which is a plugin of srun."""
    return nodes_each(spec) > 1 or engine(spec, facts) == "pyxis"


def variables(spec: Spec, facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what the script sets of `env`: what podman passes on, it is told on its command line.

    Apptainer reads a list of `--env` with commas between, so it gets variables of its own:
    https://apptainer.org/docs/user/latest/environment_and_metadata.html#environment-overview
    """
    kind = engine(spec, facts)
    if kind == "podman":
        return
    prefix = "APPTAINERENV_" if kind == "apptainer" else ""
    for name, value in spec.env.items():
        yield prefix + name, value


def options_of_srun(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return what Pyxis adds to srun, as words of the script.

    https://github.com/NVIDIA/pyxis/wiki/Usage
    """
    if engine(spec, facts) != "pyxis":
        return ()
    bound = ",".join(f"{path}:{path}" for path in shared(spec, facts))
    found = [
        f"--container-image={quoted(uri(spec.container.image or ''))}",
        f'--container-mounts="{HERE}:{HERE}"' + (f",{quoted(bound)}" if bound else ""),
        "--container-writable",
        "--container-remap-root",
        "--no-container-mount-home",
        "--no-container-entrypoint",
    ]
    if spec.env:  # or the image's own values win
        found.append(f"--container-env={','.join(spec.env)}")
    return tuple(found)


def words(spec: Spec, facts: Facts, exported: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of the script that start python in the image; *exported* are to be passed on.

    There are none for no image.
    """
    kind = engine(spec, facts)
    if kind == "podman":
        return _podman(spec, facts, exported)
    if kind == "apptainer":
        return _apptainer(spec, facts)
    return ("python3",) if kind == "pyxis" else ()


def _podman(spec: Spec, facts: Facts, exported: tuple[str, ...]) -> tuple[str, ...]:
    """Return podman's words; those of the profile come first, so that ours win.

    The container's root is who submitted, without root's rights on the node; another user of the image could not
    read the workspace. Without the label of SELinux off, no folder of a home or a shared file system could be read,
    and giving them a label would change them for all.
    https://docs.podman.io/en/latest/markdown/podman-run.1.html
    """
    found = ["podman", "run", *map(quoted, facts.options.podman)]
    found += ["--rm", "--network=host", "--user=0:0"]
    found += ["--security-opt=no-new-privileges", "--security-opt=label=disable"]
    found.append(f'--volume="{HERE}:{HERE}"')
    for path in shared(spec, facts):
        found.append(f"--volume={quoted(f'{path}:{path}')}")
    found += [f"--env={quoted(f'{name}={value}')}" for name, value in spec.env.items()]
    found += [f"--env={name}" for name in (*exported, *PASSED)]
    if spec.container.shm:
        found.append(f"--shm-size={spec.container.shm}b")
    elif spec.cluster.gpus:
        found.append("--ipc=host")  # data loaders share batches there: 64 MiB is too little
    if spec.cluster.gpus:
        found.append("--device=nvidia.com/gpu=all")  # CUDA_VISIBLE_DEVICES says which are the job's
    image = docker(spec.container.image or "")
    return (*found, "--entrypoint=python3", quoted(image))


def _apptainer(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """https://apptainer.org/docs/user/latest/cli/apptainer_exec.html"""
    found = ["apptainer", "exec", f'--bind="{HERE}"']
    found += [f"--bind={quoted(path)}" for path in shared(spec, facts)]
    if spec.cluster.gpus:
        found.append("--nv")
    image = spec.container.image or ""
    if not (is_file(image) or "://" in image):
        image = f"docker://{docker(image)}"
    return (*found, quoted(image), "python3")


def shared(spec: Spec, facts: Facts) -> tuple[str, ...]:
    """Return the folders of shared file systems that the job reads, each once."""
    options: SlurmOptions = facts.options
    keys = [m.place.partition("/")[0] for m in spec.mounts if m.scheme == "shared"]
    return tuple(dict.fromkeys(options.shared[key] for key in keys))


def docker(image: str) -> str:
    """Return *image* as podman writes it, also where it was written for enroot.

    >>> docker("nvcr.io#nvidia/tensorflow:18.10-py3")
    'nvcr.io/nvidia/tensorflow:18.10-py3'
    """
    return image.replace("#", "/", 1)


def uri(image: str) -> str:
    """Return *image* as enroot writes it: a # ends the name of a registry.

    https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md

    >>> uri("nvcr.io/nvidia/tensorflow:18.10-py3"), uri("ubuntu:22.04")
    ('nvcr.io#nvidia/tensorflow:18.10-py3', 'ubuntu:22.04')
    """
    image = image.removeprefix("docker://")
    if is_file(image) or "#" in image:
        return image
    host, slash, rest = image.partition("/")
    return f"{host}#{rest}" if slash and re.search(r"[.:]|^localhost$", host) else image
