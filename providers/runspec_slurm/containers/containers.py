"""Running an image with podman, Apptainer or Pyxis, or without any if its requirements can be installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runspec_slurm.decision import Decision
from runspec_slurm.naming import docker_notation, enroot_notation, is_file
from runspec_slurm.session.quoting import HERE, quoted

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


def find_adapters(decision: Decision) -> tuple[str, ...]:
    """Return the lines of the script that find network adapters for containers of jobs that may use some."""
    return ADAPTERS if decision.is_contained and decision.has_adapters else ()


def export_variables(decision: Decision, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variables of *env* that the script sets; podman gets them on its command line instead.

    Apptainer splits the value of `--env` at commas, so it gets variables with its own prefix:
    https://apptainer.org/docs/user/latest/environment_and_metadata.html#environment-overview
    """
    if decision.engine == "podman":
        return
    prefix = "APPTAINERENV_" if decision.engine == "apptainer" else ""
    for name, value in env.items():
        yield prefix + name, value


def make_srun_options(decision: Decision, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of srun for Pyxis, as words of the script.

    https://github.com/NVIDIA/pyxis/wiki/Usage
    """
    if decision.engine != "pyxis":
        return ()
    adapter = "${runspec_ib:+,$runspec_ib:$runspec_ib}" if decision.has_adapters else ""
    folders = ",".join(f"{path}:{path}" for path in decision.shared)
    image = enroot_notation(decision.image)
    if decision.login:
        image = f"{decision.login['user']}@{image}"  # enroot looks for the password of this user
    return (
        f"--container-image={quoted(image)}",
        f'--container-mounts="{HERE}:{HERE}{adapter}"' + (f",{quoted(folders)}" if folders else ""),
        "--container-writable",
        "--container-remap-root",
        "--no-container-mount-home",
        "--no-container-entrypoint",
        # Otherwise, the values of the image would take effect.
        f"--container-env={','.join(env)}",
    )


def start_python(
    decision: Decision, env: Mapping[str, str], exported: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the words of the script that start Python in the image, with the variables in *exported*.

    The tuple is empty without an image.
    """
    match decision.engine:
        case "podman":
            return _podman(decision, env, exported)
        case "apptainer":
            return _apptainer(decision)
        case "pyxis":
            return ("python3",)
        case _:
            return ()


def _podman(
    decision: Decision, env: Mapping[str, str], exported: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the arguments of podman. Those of the profile are first, so that runspec's take effect.

    Root in the container is the submitter, without root's permissions on the node; another user of the image could
    not read the workspace. SELinux labels are disabled, or the container could not read folders of a home or a shared
    file system; relabeling those would affect other users.
    https://docs.podman.io/en/latest/markdown/podman-run.1.html
    """
    argv = ["podman", "run", *map(quoted, decision.options.podman)]
    argv += ["--rm", "--network=host", "--user=0:0"]
    argv += ["--security-opt=no-new-privileges", "--security-opt=label=disable"]
    argv += _login_file(decision)
    argv.append(f'--volume="{HERE}:{HERE}"')
    argv += [f"--volume={quoted(f'{path}:{path}')}" for path in decision.shared]
    argv += [f"--env={quoted(f'{name}={value}')}" for name, value in env.items()]
    argv += [f"--env={name}" for name in (*exported, *PASSED)]
    if decision.shm_bytes:
        argv.append(f"--shm-size={decision.shm_bytes}b")
    elif decision.gpus:
        # Data loaders share batches in /dev/shm, for which the default of 64 MiB is too little.
        argv.append("--ipc=host")
    if decision.gpus:
        argv.append("--device=nvidia.com/gpu=all")  # CUDA_VISIBLE_DEVICES selects those of the job
    if decision.has_adapters:
        argv.append("${runspec_ib:+--device=$runspec_ib}")
    return (*argv, "--entrypoint=python3", quoted(docker_notation(decision.image)))


def _apptainer(decision: Decision) -> tuple[str, ...]:
    """Return the arguments of apptainer: https://apptainer.org/docs/user/latest/cli/apptainer_exec.html"""
    argv = ["apptainer", "exec", *_login_file(decision), f'--bind="{HERE}"']
    argv += [f"--bind={quoted(path)}" for path in decision.shared]
    if decision.has_adapters:
        # It has all of /dev already, unless apptainer.conf says `mount dev = minimal`.
        argv.append("${runspec_ib:+--bind=$runspec_ib}")
    if decision.gpus:
        argv.append("--nv")
    image = decision.image
    if not (is_file(image) or "://" in image):
        image = f"docker://{docker_notation(image)}"
    return (*argv, quoted(image), "python3")


def _login_file(decision: Decision) -> tuple[str, ...]:
    """Return the option of podman and Apptainer that names the file with the login, which is docker's."""
    return (f'--authfile="{HERE}/runs/$RUNSPEC_RUN/{LOGIN}"',) if decision.login else ()
