"""The rules between the jobs of a chain, and the order in which they run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.needs import Condition, RunOutput
from runspec_jobs.spec.placeholders import count_tasks


def conditions(spec: Spec) -> dict[str, Condition]:
    """Return the jobs and runs that *spec* needs, with how each must have ended.

    A mounted output needs a job that has succeeded, unless `needs` says otherwise.
    """
    mounted = [mount.of_run for mount in spec.mounts]
    of_mounts = {output.job: Condition.SUCCEEDED for output in mounted if output is not None}
    return {**of_mounts, **spec.needs}


def parents(spec: Spec, jobs: Mapping[str, Spec]) -> dict[str, Condition]:
    """Return those of `conditions` that are jobs of the chain *jobs*."""
    return {job: how for job, how in conditions(spec).items() if job in jobs}


def list_paired(spec: Spec) -> set[str]:
    """Return the jobs whose task of the same number is all that each task of *spec* needs.

    Not those that are under `needs`, too: of those, all tasks must have ended.
    """
    mounted = [mount.of_run for mount in spec.mounts if mount.of_run is not None]
    whole = {output.job for output in mounted if not output.same}
    return {output.job for output in mounted if output.same} - whole - spec.needs.keys()


def wrong_chain(specs: Sequence[Spec], chain: str) -> Iterator[tuple[int, Problem]]:
    """Yield each rule that the jobs *specs* of the chain called *chain* break, with the number of the job."""
    jobs: dict[str, Spec] = {}
    for number, spec in enumerate(specs):
        if spec.name == chain and len(specs) > 1:
            message = (
                f"'{chain}' is the name of the chain, too, which has that of its file or folder"
            )
            yield number, Problem(("name",), message, "rename the job or the file")
        if spec.name in jobs:
            message = f"'{spec.name}' is the name of another job of the same chain"
            yield number, Problem(("name",), message, "give each job a name of its own")
        jobs.setdefault(spec.name, spec)
        if spec.scaling is not None and len(specs) > 1:
            message = "a job of a chain has one size"
            hint = "put the spec with scaling into a file of its own"
            yield number, Problem(("scaling",), message, hint, at="key")
    for number, spec in enumerate(specs):
        for problem in (*_wrong_needs(spec, jobs), *_wrong_mounts(spec, jobs)):
            yield number, problem
    cycle = find_cycle(jobs)
    if cycle:
        number = next(i for i, spec in enumerate(specs) if spec.name == cycle[0])
        message = f"the jobs need each other: {' -> '.join((*cycle, cycle[0]))}"
        yield number, Problem(_place(jobs[cycle[0]], cycle[1 % len(cycle)]), message)


def _place(spec: Spec, job: str) -> Path:
    """Return the path in *spec* at which it says that it needs *job*."""
    if job in spec.needs:
        return ("needs",)
    at = (i for i, mount in enumerate(spec.mounts) if mount.of_run and mount.of_run.job == job)
    return ("mounts", next(at), "source")


def _wrong_needs(spec: Spec, jobs: Mapping[str, Spec]) -> Iterator[Problem]:
    for number, job in enumerate(spec.needs):
        if job in jobs:
            continue
        message = f"there is no job '{job}' in this chain"
        hint = did_you_mean(job, [name for name in jobs if name != spec.name])
        if hint is None and len(jobs) == 1:
            hint = "write both jobs into one file, with a line --- between them"
        yield Problem(("needs", job if _is_mapping(spec) else number), message, hint)


def _is_mapping(spec: Spec) -> bool:
    return any(how is not Condition.SUCCEEDED for how in spec.needs.values())


def _wrong_mounts(spec: Spec, jobs: Mapping[str, Spec]) -> Iterator[Problem]:
    for number, mount in enumerate(spec.mounts):
        source = mount.of_run
        if source is not None and source.job in jobs:
            where = ("mounts", number, "source")
            yield from wrong_output(source, jobs[source.job], spec, where)


def wrong_output(source: RunOutput, of: Spec, by: Spec, where: Path) -> Iterator[Problem]:
    """Yield a problem if the spec *of* of a job has no such output or task.

    *where* is the mount in the spec *by* that names it.
    """
    names = [output.name for output in of.outputs]
    if source.output not in names:
        message = f"the job '{of.name}' has no output '{source.output}'"
        hint = did_you_mean(source.output, names) or (
            f"its outputs: {', '.join(names)}" if names else "add one to its `outputs`"
        )
        yield Problem(where, message, hint)
    count = count_tasks(of.sweep)
    if source.best and (not of.sweep or of.metric is None):
        message = f"the job '{of.name}' has no best task"
        yield Problem(where, message, "?best is for a job with a sweep and a metric")
    own = count_tasks(by.sweep) if by.sweep else 0
    if source.same and (not of.sweep or own != count):
        message = f"?task=same needs a sweep with as many tasks as '{of.name}' has"
        tasks = f"'{of.name}' has {count:,}" if of.sweep else f"'{of.name}' has no sweep"
        yield Problem(where, message, f"{tasks}, and this job {f'{own:,}' if own else 'has none'}")
    if source.task is not None and not of.sweep:
        yield Problem(where, f"the job '{of.name}' has no sweep", "remove ?task")
    elif source.task is not None and source.task >= count:
        message = f"the job '{of.name}' has no task {source.task}"
        yield Problem(where, message, f"it has {count:,} tasks, numbered from 0")


def find_cycle(jobs: Mapping[str, Spec]) -> list[str]:
    """Return jobs each of which needs the next one, and the last one the first; an empty list if there are none."""
    left = {name: set(parents(spec, jobs)) for name, spec in jobs.items()}
    # Jobs without open needs are removed, round by round. What is left needs each other in a circle.
    while ready := [name for name, needs in left.items() if not needs & left.keys()]:
        for name in ready:
            del left[name]
    walk: list[str] = []
    job = next(iter(left), None)
    while job is not None and job not in walk:
        walk.append(job)
        job = next(other for other in jobs if other in left[job] and other in left)
    return walk[walk.index(job) :] if job is not None else []


def in_order(jobs: Mapping[str, Spec]) -> list[str]:
    """Return the names of *jobs*, each after those that it needs, else as they are written. There is no cycle."""
    done: list[str] = []
    while len(done) < len(jobs):
        done.append(
            next(
                name
                for name, spec in jobs.items()
                if name not in done and parents(spec, jobs).keys() <= set(done)
            )
        )
    return done


def ancestors(name: str, jobs: Mapping[str, Spec]) -> set[str]:
    """Return the jobs that *name* needs, those that they need, and so on."""
    needed: set[str] = set()
    todo = [name]
    while todo:
        more = parents(jobs[todo.pop()], jobs).keys() - needed
        needed |= more
        todo += more
    return needed


def with_copies(spec: Spec, copied: Collection[str]) -> Spec:
    """Return *spec* with a folder of this machine for each output of a run whose mount is among *copied*."""
    if not any(mount.scheme == "run" and mount.name in copied for mount in spec.mounts):
        return spec
    mounts = tuple(
        mount.model_copy(update={"source": f"./{mount.place}"})
        if mount.scheme == "run" and mount.name in copied
        else mount
        for mount in spec.mounts
    )
    return spec.model_copy(update={"mounts": mounts})
