"""Running an image with podman, Apptainer or Pyxis, or without any if its requirements can be installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runspec_jobs.provider import Facts, Problem, Spec
from runspec_jobs.provider.commands import ENTRYPOINT, python_fits
from runspec_slurm import resources
from runspec_slurm.decision import ENGINES, Decision
from runspec_slurm.naming import docker_notation, enroot_notation, is_file, is_local, setting
from runspec_slurm.session.process import HERE, quoted

# Files of the run with the login at a registry: docker's, and enroot's, which has this name in a folder of settings.
# https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md
LOGIN_FOLDER = "login"
LOGIN, ENROOT_LOGIN = f"{LOGIN_FOLDER}/config.json", f"{LOGIN_FOLDER}/.credentials"
# Variables of Slurm that a program may need, in addition to those of the contract.
PASSED = (
    "SLURM_JOB_ID SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_NODEID SLURM_RESTART_COUNT "
    "SLURM_JOB_NODELIST CUDA_VISIBLE_DEVICES"
).split()

ENTRYPOINTS = {
    "apptainer": ("/.singularity.d/runscript",),
    "pyxis": ("/bin/sh", "/etc/rc"),
}

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
    visible = ("ROCR_VISIBLE_DEVICES",) if decision.stack == "ROCm" else ()
    argv += [f"--env={name}" for name in (*exported, *PASSED, *visible)]
    if decision.shm_bytes:
        argv.append(f"--shm-size={decision.shm_bytes}b")
    elif decision.gpus:
        # Data loaders share batches in /dev/shm, for which the default of 64 MiB is too little.
        argv.append("--ipc=host")
    argv += [f"--ulimit={name}={value}:{value}" for name, value in decision.ulimits.items()]
    if decision.gpus and decision.stack is None:
        argv.append("--device=nvidia.com/gpu=all")  # CUDA_VISIBLE_DEVICES selects those of the job
    elif decision.gpus and decision.stack == "ROCm":
        # ROCR_VISIBLE_DEVICES selects those of the job:
        # https://rocm.docs.amd.com/projects/install-on-linux/en/latest/how-to/docker.html
        argv += ["--device=/dev/kfd", "--device=/dev/dri"]
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
    if decision.gpus and decision.stack in (None, "ROCm"):
        # https://apptainer.org/docs/user/latest/gpu.html
        argv.append("--rocm" if decision.stack else "--nv")
    image = decision.image
    if not (is_file(image) or "://" in image.removeprefix("docker://")):
        image = f"docker://{docker_notation(image.removeprefix('docker://'))}"
    return (*argv, quoted(image), "python3")


def choose_entrypoint(decision: Decision) -> tuple[str, ...]:
    """Return the words that run the ENTRYPOINT of the image with the words after them.

    Apptainer and enroot write it into a file of the image when they convert it. Of podman, the batch script asks it.
    https://apptainer.org/docs/user/latest/docker_and_oci.html#cmd-entrypoint-behaviour,
    https://github.com/NVIDIA/enroot/blob/master/doc/image-format.md
    """
    return ENTRYPOINTS.get(decision.engine, ENTRYPOINT)


def _login_file(decision: Decision) -> tuple[str, ...]:
    """Return the option of podman and Apptainer that names the file with the login, which is docker's."""
    return (f'--authfile="{HERE}/runs/$RUNSPEC_RUN/{LOGIN}"',) if decision.login else ()


# Checks of the image and the Python of a spec on a cluster.


IMAGE, ENTRY = ("container", "image"), ("container", "entrypoint")
AGENT_PYTHON = ">=3.6"  # the Python that the agent needs
ENROOT_ENDS = set("@# ")  # what ends a user name in enroot's notation of images
# What an engine takes before the name of an image: https://apptainer.org/docs/user/latest/cli/apptainer_exec.html
SCHEMES = {
    "podman": ("docker",),
    "pyxis": ("docker",),
    "apptainer": (
        "docker",
        "library",
        "oras",
        "shub",
        "instance",
        "http",
        "https",
        "docker-daemon",
    ),
}
ARCHIVES = (".tar", ".tar.gz", ".tgz")
# https://apptainer.org/docs/user/latest/docker_and_oci.html#docker-archive-files-docker-archive and
# https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md
CONVERT = {
    "apptainer": "apptainer build IMAGE.sif docker-archive:ARCHIVE",
    "pyxis": "podman load -i ARCHIVE, and enroot import -o IMAGE.sqsh podman://NAME:TAG",
}
IMAGE_NAMES = {"podman": "podman", "apptainer": "Apptainer", "pyxis": "Pyxis"}


def check_image(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    if decision.image:
        yield from _engine(decision, spec, facts)
    if decision.is_contained:
        yield from _image(decision, spec)
    else:
        yield from _nodes_own(decision, spec, facts)
        if spec.container.entrypoint:
            what = "the job runs without the image, so it has no entrypoint"
            yield Problem(ENTRY, what, "write command: [program, argument]", at="key")
    yield from _python(decision, spec, facts)


def _engine(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    engines, preferred = resources.read_cluster(facts).get("containers"), decision.options.container
    buildable = spec.container.requirements is not None
    if not decision.is_contained:
        why = _why_none(decision, buildable)
        if buildable or preferred == "none":
            instead = (
                "with its requirements installed on the node"
                if buildable
                else "on the node as it is"
            )
            yield Problem(
                IMAGE, f"{why}: the job runs without the image, {instead}", severity="note"
            )
        else:
            hint = (
                "ask for podman, Apptainer or Pyxis to be installed, or set container.requirements"
            )
            yield Problem(IMAGE, why, hint)
    elif engines is not None and decision.engine not in engines:
        what = f"container: {decision.engine} is set, but the cluster has no {IMAGE_NAMES[decision.engine]}"
        others = " or ".join(name for name in ENGINES if name in engines)
        yield Problem(setting(spec, "container"), what, f"set container: {others or 'none'}")
    elif engines is None and preferred == "auto":
        what = (
            f"the container engine of the cluster is unknown: using {decision.engine}, unless the profile sets "
            "container"
        )
        yield Problem(IMAGE, what, severity="note")


def _why_none(decision: Decision, buildable: bool) -> str:
    if decision.options.container == "none":
        return "the profile has container: none"
    if is_local(decision.image) and buildable:
        return "the image exists on one machine only"
    return "the cluster has no container engine"


def _image(decision: Decision, spec: Spec) -> Iterator[Problem]:
    engine = decision.engine
    yield from _name(decision)
    yield from _login(decision)
    if spec.container.requirements is not None:
        what = "installed when the job starts, by the python3 of the image, which must have venv or pip"
        yield Problem(("container", "requirements"), what, at="key", severity="note")
    if spec.container.python:
        what = "the job uses the Python of the image, which should be such a version"
        yield Problem(("container", "python"), what, severity="note")
    if engine == "apptainer" and (spec.mounts or spec.outputs):
        what = "Apptainer cannot make folders in the root of an image: use ${mounts.NAME} and ${outputs.NAME} as paths"
        yield Problem(IMAGE, what, severity="note")
    if engine != "podman":
        yield from _shm(decision)


def _name(decision: Decision) -> Iterator[Problem]:
    """Yield what the engine cannot do with the name of the image."""
    image, engine = decision.image, decision.engine
    if is_file(image):
        if engine == "podman":
            what = f"'{image}' is a file, but podman needs an image in a registry"
            yield Problem(
                IMAGE, what, "push it to a registry, or set container: apptainer or pyxis"
            )
        elif not image.startswith("/"):
            what = f"'{image}' is a relative path, but images on the cluster need an absolute one"
            yield Problem(IMAGE, what, "write the absolute path on the cluster")
        elif engine == "pyxis" and image.endswith(".sif"):
            what = f"'{image}' is an image of Apptainer, and Pyxis needs one of enroot"
            yield Problem(
                IMAGE, what, "name the image that it was built from, or set container: apptainer"
            )
        elif image.endswith(ARCHIVES):
            what = f"'{image}' is an archive, which {IMAGE_NAMES[engine]} does not run"
            yield Problem(IMAGE, what, f"convert it: {CONVERT[engine]}")
    elif image.partition("://")[0] not in SCHEMES[engine] and "://" in image:
        yield _foreign(image, engine)
    elif is_local(image):
        if engine == decision.options.container == "podman":
            what = "an image that is in no registry: each node must have it"
            yield Problem(IMAGE, what, severity="note")
        else:
            hint = "push it to a registry, or set container.requirements"
            yield Problem(IMAGE, "no registry has an image named localhost/...", hint)
    if engine == "pyxis" and "@sha256:" in image:
        # https://github.com/NVIDIA/enroot/blob/v3.5.0/src/docker.sh takes what is before the @ for a user
        what = "enroot reads the digest of an image since version 4.0: older nodes need a tag"
        yield Problem(IMAGE, what, severity="note")


def _foreign(image: str, engine: str) -> Problem:
    """Return the problem that *image* has a scheme that *engine* does not know."""
    name, hint = IMAGE_NAMES[engine], "write it as REGISTRY/NAME:TAG"
    if image.partition("://")[0] not in SCHEMES["apptainer"]:
        return Problem(
            IMAGE, f"'{image}' is written for another container engine than {name}", hint
        )
    what = f"'{image}' is written for Apptainer, and {name} runs images of registries"
    return Problem(IMAGE, what, f"{hint}, or set container: apptainer")


def _login(decision: Decision) -> Iterator[Problem]:
    login = decision.login
    if login is None:
        return
    what = (
        "the login at its registry is stored in a file of the workspace until the run is destroyed; "
        "only you and root can read it"
    )
    yield Problem(IMAGE, what, severity="note")
    if decision.engine == "pyxis" and set(login["user"]) & ENROOT_ENDS:
        what = f"enroot cannot log in as '{login['user']}': it has a space, @ or #"
        yield Problem(("provider",), what, "use another registry_user, such as the name of a token")


def _nodes_own(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    yield from _shm(decision)
    wanted, version = spec.container.python, resources.read_cluster(facts).get("python") or ""
    if wanted and not version:
        what = "the job uses the Python of the node, which should be such a version"
        yield Problem(("container", "python"), what, severity="note")
    elif wanted and not python_fits(version, wanted):
        what = f"'{wanted}', but {decision.options.python} of the cluster is {version}"
        hint = f"use another one: providers: {{{spec.provider}: {{python: /PATH/python3}}}}"
        yield Problem(("container", "python"), what, hint)


def _shm(decision: Decision) -> Iterator[Problem]:
    if decision.shm_bytes:
        what = "has no effect: the job uses the /dev/shm of the node"
        yield Problem(("container", "shm"), what, severity="note")


def _python(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield problems with the Python of the nodes, which starts every job, even one with an image."""
    cluster, name = resources.read_cluster(facts), decision.options.python
    if "python" not in cluster:
        return
    version, at = cluster["python"], setting(spec, "python")
    if version is None:
        what = f"the cluster has no '{name}', which starts every job"
        yield Problem(at, what, "set option python: /PATH/python3")
    elif not python_fits(version, AGENT_PYTHON):
        what = f"'{name}' of the cluster is Python {version}, but runspec needs 3.6 or newer"
        yield Problem(at, what, "set option python to a newer one: python: /PATH/python3")
