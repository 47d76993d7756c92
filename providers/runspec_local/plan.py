"""The steps of a plan that run a spec on this machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runspec_jobs.provider import Facts, Mount, Request, Scope, Source, Spec, Step
from runspec_jobs.provider.commands import argv, tasks
from runspec_jobs.provider.job_manifest import (
    CONTEXT,
    foreign_source,
    kept_outputs,
    reach,
    resumed,
    saves as saves_mount,
    uploads,
)

SERVICE = "local"


def steps(spec: Spec, run: str, facts: Facts) -> tuple[Step, ...]:
    return (*_uploads(spec, facts), *_environment(spec, facts), _job(spec, run, facts))


def request(operation: str, **params: Any) -> Request:
    return Request(SERVICE, operation, params)


def _uploads(spec: Spec, facts: Facts) -> Iterator[Step]:
    for name, what, source in uploads(spec, facts):
        path = _blob(facts, source)
        yield Step(
            f"upload-{name}",
            f"copy {what} ({source.counted}, {_size(source.bytes)})",
            Scope.SITE,
            request("put_folder", path=path, content={"$file": name}),
            request("remove_folder", path=path),
        )


def _size(count: float) -> str:
    """Return *count* bytes in the largest unit that fits.

    >>> _size(1023), _size(1000 << 10), _size(1 << 20)
    ('1023 bytes', '1000.0 KiB', '1.0 MiB')
    """
    if count < 1024:
        return f"{count:.0f} bytes"
    power = min(3, (int(count).bit_length() - 1) // 10)
    return f"{count / 1024**power:.1f} {('KiB', 'MiB', 'GiB')[power - 1]}"


def _blob(facts: Facts, source: Source) -> str:
    # Half of the hash is enough to tell contents apart.
    return f"{facts.survey['root']}/blobs/{source.name[:32]}"


def _environment(spec: Spec, facts: Facts) -> Iterator[Step]:
    if facts.survey["engine"] != "process":
        yield from _image(spec, facts)
    elif facts.requirements:
        # An environment of another Python is another one, although its requirements are the same.
        python = facts.survey["python"]
        made = {
            "requirements": list(facts.requirements),
            "build_constraints": list(spec.container.build_constraints),
            "python": python["version"],
        }
        path = f"{facts.survey['root']}/envs/{short_hash(made)}"
        yield Step(
            "environment",
            f"build the environment of {_counted(facts.requirements)}",
            Scope.SITE,
            request("build_environment", path=path, interpreter=python["path"], **made),
            request("remove_environment", path=path),
        )


def _context(spec: Spec, facts: Facts) -> Iterator[Step]:
    """Yield the steps that copy the context of an image and build it; its name is that of the content."""
    engine, source = facts.survey["engine"], facts.sources[CONTEXT]
    # The engine reads the copy and not the user's folder, which may change while the image is built.
    path, image = _blob(facts, source), name_image(spec, facts)
    build = spec.container.build
    assert build is not None, "BUG: a context of no build"
    yield Step(
        "context",
        f"copy {build.context} ({source.counted}, {_size(source.bytes)})",
        Scope.SITE,
        request("put_folder", path=path, content={"$file": CONTEXT}),
        request("remove_folder", path=path),
    )
    yield Step(
        "image",
        f"build an image from {build.context}",
        Scope.SITE,
        request("build_context", engine=engine, image=image, context=path, file=build.file),
        request("remove_image", engine=engine, image=image),
    )


def name_image(spec: Spec, facts: Facts) -> str | None:
    """Return the image of the job; one that is built is named by a hash of what it is built from."""
    build = spec.container.build
    if build is None:
        return spec.container.image
    made = {"context": facts.sources[CONTEXT].name, "file": build.file}
    return f"localhost/runspec-build:{short_hash(made)}"


def _image(spec: Spec, facts: Facts) -> Iterator[Step]:
    image = name_image(spec, facts)
    if spec.container.build is None:
        yield _pull(image, facts)
    else:
        yield from _context(spec, facts)
    if facts.requirements:
        yield _added(spec, image, facts)


def _pull(image: str | None, facts: Facts) -> Step:
    engine = facts.survey["engine"]
    logins = facts.options.login(image)
    # An image that is pulled has no undo: the user or another run may have had it before.
    login = {} if logins is None else {"login": logins}
    return Step(
        "image",
        f"get the image {image}",
        Scope.SITE,
        request("pull_image", engine=engine, image=image, **login),
    )


def _added(spec: Spec, image: str | None, facts: Facts) -> Step:
    engine = facts.survey["engine"]
    made = {
        "base": image,
        "requirements": list(facts.requirements),
        "build_constraints": list(spec.container.build_constraints),
    }
    added = f"localhost/runspec-env:{short_hash(made)}"
    return Step(
        "environment",
        f"add {_counted(facts.requirements)} to the image",
        Scope.SITE,
        request("build_image", engine=engine, image=added, **made),
        request("remove_image", engine=engine, image=added),
    )


def _counted(requirements: Sequence[str]) -> str:
    return "1 requirement" if len(requirements) == 1 else f"{len(requirements)} requirements"


def _where(engine: str) -> str:
    return "without a container" if engine == "process" else f"in {engine}"


def short_hash(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _job(spec: Spec, run: str, facts: Facts) -> Step:
    folder = f"{facts.survey['root']}/runs/{run}"
    made = {"$ref": "environment.environment"} if facts.requirements else None
    return Step(
        "job",
        f"start {_count(spec)} {_where(facts.survey['engine'])}",
        Scope.RUN,
        request(
            "start",
            run=run,
            folder=folder,
            engine=facts.survey["engine"],
            environment=made,
            argv=list(argv(spec)),
            tasks=list(tasks(spec)),
            max_parallel=spec.max_parallel or _fitting(spec, facts),
            nodes=spec.cluster.nodes.max,
            slots=spec.processes_per_node,
            launch=str(spec.launch),
            mounts=[_mount(mount, facts) for mount in spec.mounts],
            outputs=kept_outputs(spec),
            env=spec.program_env,
            secrets={
                variable: {"$secret": facts.options.secrets[name]}
                for variable, name in spec.secrets.items()
            },
            container=_limits(spec, facts) if facts.survey["engine"] != "process" else None,
            attempts=spec.retry.attempts,
            timeout_s=spec.timeout,
            grace_s=facts.options.grace,
            **_shared(spec, facts),
            **_parents(facts),
            **reach(spec, ""),  # loopback addresses need no firewall rule
        ),
        request("remove_run", run=run, folder=folder),
    )


def _shared(spec: Spec, facts: Facts) -> dict[str, Any]:
    """Return the parameters that only some jobs have."""
    nodes = spec.cluster.nodes
    shared: dict[str, Any] = resumed(facts, lambda copy: _blob(facts, copy))
    if spec.global_batch is not None:
        shared["global_batch"] = spec.global_batch
    if spec.signal is not None:
        shared["signal"] = {"name": spec.signal.name, "before_s": spec.signal.before}
    if spec.cluster.gpus:
        shared["gpus"] = spec.cluster.gpus
        # Rehearsals run jobs for GPUs on machines without one.
        if facts.options.without_gpus:
            shared["without_gpus"] = True
    # Processes see /job/... at these paths by a mount namespace; in containers they are mounts of the engine.
    wanted = facts.options.namespace is not False
    if facts.survey["engine"] == "process" and wanted and tops(spec):
        shared["namespace"] = tops(spec)
    shared |= spec.retry.rules
    if spec.max_failed is not None:
        shared["max_failed"] = spec.max_failed
    if nodes.elastic:
        shared |= {
            "elastic": {"min": nodes.min, "max": nodes.max},
            "spot_attempts": spec.retry.spot_attempts,
        }
    return shared


def _parents(facts: Facts) -> dict[str, Any]:
    """Return what the supervisor needs to wait for other runs."""
    if not facts.parents:
        return {}
    root = facts.survey["root"]
    return {
        "needs": [
            {
                "run": parent.run,
                "folder": f"{root}/runs/{parent.run}",
                "condition": parent.condition,
            }
            for parent in facts.parents
        ]
    }


def tops(spec: Spec) -> list[str]:
    """Return the folders at the root of the machine that contain the mounts and outputs of *spec*, such as `/job`."""
    paths = [*(mount.target for mount in spec.mounts), *(output.path for output in spec.outputs)]
    return list(dict.fromkeys(f"/{path.split('/')[1]}" for path in paths))


def _count(spec: Spec) -> str:
    nodes, count = spec.cluster.nodes.max, len(tasks(spec))
    text = f"{nodes} nodes" if nodes > 1 else "1 node"
    if spec.cluster.nodes.elastic:
        text = f"{spec.cluster.nodes.min} to {nodes} nodes (elastic)"
    return f"{count:,} tasks of {text}" if spec.sweep else text


def _fitting(spec: Spec, facts: Facts) -> int:
    """Return how many tasks run at once: as many as fit on this machine's cores, and at least one."""
    # Nodes of one task run at the same time, because they wait for each other.
    needed = (spec.cluster.cpus or 1) * spec.cluster.nodes.max
    return max(1, int(facts.survey["cpus"]) // needed)


def _mount(mount: Mount, facts: Facts) -> dict[str, Any]:
    root = facts.survey["root"]
    sources = {"store": f"{root}/store/{mount.place}", "shared": f"{root}/shared/{mount.place}"}
    contained = (
        facts.survey["engine"] != "process"
    )  # a container engine enforces the mode of a mount
    if mount.scheme == "run":
        # An output of a run on this machine is read where it lies; those of other providers were copied by the plan.
        copied = facts.sources.get(mount.name)
        saved = saves_mount(facts.outputs[mount.name], copied=copied is not None)
        return {
            "name": mount.name,
            "source": root if copied is None else _blob(facts, copied),
            "target": mount.target,
            "read_only": mount.read_only,
            "copy": True,
            "saves": {"name": mount.name, **saved},
        }
    if mount.is_foreign:
        return {
            "name": mount.name,
            "source": "",
            "target": mount.target,
            "read_only": True,
            "copy": True,
            "foreign": foreign_source(mount),
        }
    if mount.scheme == "file":
        source = _blob(facts, facts.sources[mount.name])
        if facts.sources[mount.name].is_file:
            # The bundle of one file is a folder with that file.
            source += f"/{mount.target.rpartition('/')[2]}"
    else:
        source = sources[mount.scheme]
    return {
        "name": mount.name,
        "source": source,
        "target": mount.target,
        "read_only": mount.read_only,
        "copy": mount.scheme == "file" and (not mount.read_only or not contained),
    }


def _limits(spec: Spec, facts: Facts) -> dict[str, Any]:
    return {
        "image": name_image(spec, facts),
        "cpus": spec.cluster.cpus,
        "memory_bytes": spec.cluster.memory,
        "shm_bytes": spec.container.shm,
        **({"entrypoint": True} if spec.container.entrypoint else {}),
        **({"ulimits": spec.ulimits.given} if spec.ulimits.given else {}),
    }
