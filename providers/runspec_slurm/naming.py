"""Keys of the files in the workspace, requests about them, and the names of images."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from runspec_jobs.provider import Facts, Request, Spec
from runspec_jobs.provider.payload import pack_agent

AGENT_SHA256 = hashlib.sha256(pack_agent()).hexdigest()
AGENT_KEY = f"inside/{AGENT_SHA256}.pyz"


JOB_STEP = re.compile(r"job(?:-(\d+))?")  # see `job_step`


def environment(spec: Spec, facts: Facts) -> str:
    """Return the folder of the environments with these requirements; nodes add one for each kind of Python.

    An environment uses the packages of the image that it was made in.
    """
    container = spec.container
    content = [
        container.image,
        *(["conda"] if container.conda else []),
        list(facts.requirements),
        list(container.build_constraints),
    ]
    return f"environments/{hashlib.sha256(json.dumps(content).encode()).hexdigest()}"


def of_run(run: str, *parts: str) -> str:
    """Return the key of a file of *run*, relative to the workspace.

    >>> of_run("hello-abc123", "logs", "0-0.txt")
    'runs/hello-abc123/logs/0-0.txt'
    """
    return "/".join(("runs", run, *parts))


def job_name(run: str, array: int) -> str:
    """Return the name of a job of *run*, which may have several arrays; no run has a dot in its name.

    >>> job_name("hello-abc123", 0), job_name("hello-abc123", 2)
    ('hello-abc123', 'hello-abc123.2')
    """
    return f"{run}{suffix(array)}"


def suffix(array: int) -> str:
    """Return what follows the name of a job and the names of its files; nothing for the first array."""
    return f".{array}" if array else ""


def job_step(array: int) -> str:
    """Return the id of the step that submits that array."""
    return f"job-{array}" if array else "job"


def run_of(name: str) -> str:
    """Return the run of a job with that name."""
    return name.partition(".")[0]


def array_of(name: str) -> int:
    """Return the number of the array with that name; 0 for a name that runspec did not give."""
    number = name.partition(".")[2]
    return int(number) if number.isdecimal() else 0


def folder(operation: str, **params: Any) -> Request:
    """Return a request that reads or changes the workspace."""
    return Request("folder", operation, params)


def setting(spec: Spec, key: str) -> tuple[str, ...]:
    """Return the path of the setting *key*: in the spec if it is set there, or else `provider`."""
    settings = spec.providers.get(spec.provider, {})
    return ("providers", spec.provider, key) if key in settings else ("provider",)


def is_file(image: str) -> bool:
    """Return whether *image* is a file on the cluster (.sif, .sqsh)."""
    return image.startswith(("/", ".", "~"))


def is_local(image: str) -> bool:
    """Return whether *image* exists on one machine only, and in no registry."""
    return image.startswith("localhost/")


def docker_notation(image: str) -> str:
    """Return *image* in podman's notation, also if it is in enroot's, which may begin with a user.

    >>> docker_notation("docker://me@nvcr.io#nvidia/tensorflow:18.10-py3")
    'docker://nvcr.io/nvidia/tensorflow:18.10-py3'
    """
    if "#" in image:
        image = re.sub(r"^([a-z]+://)?[^@/#]+@", r"\1", image).replace("#", "/", 1)
    return _drop_tag(image)


def _drop_tag(image: str) -> str:
    """Return *image* without a tag beside its digest, which alone counts, and which not all engines take with a tag.

    >>> _drop_tag("example.org:5000/a:1@sha256:12")
    'example.org:5000/a@sha256:12'
    """
    return re.sub(r":[\w.-]+@(?=\w+:)", "@", image)


def enroot_notation(image: str) -> str:
    """Return *image* in enroot's notation, where # follows the name of a registry.

    https://github.com/NVIDIA/enroot/blob/master/doc/cmd/import.md

    >>> enroot_notation("nvcr.io/nvidia/tensorflow:18.10-py3"), enroot_notation("ubuntu:22.04")
    ('nvcr.io#nvidia/tensorflow:18.10-py3', 'ubuntu:22.04')
    """
    image = _drop_tag(image.removeprefix("docker://"))
    if is_file(image) or "#" in image:
        return image
    host, slash, rest = image.partition("/")
    return f"{host}#{rest}" if slash and re.search(r"[.:]|^localhost$", host) else image
