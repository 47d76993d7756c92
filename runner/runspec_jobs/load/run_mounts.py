"""Resolves the mounts of a spec that are outputs of other runs: read in place, or copied to the store of the job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.errors import RunspecError
from runspec_jobs.provider import Facts, Provider, SavedOutput, Spec, SupportsRunMounts
from runspec_jobs.spec.chain_rules import wrong_output
from runspec_jobs.spec.needs import RunOutput
from runspec_jobs.spec.placeholders import count_tasks


class SourceRun(NamedTuple):
    """A run whose outputs can be mounted, which may not have started yet.

    *place* is what `saves_place` of its provider returns. *digest* returns the digest of the content of an output, and
    is None as long as the run has not ended, or is not asked.
    """

    run: str
    spec: Spec
    place: str | None
    best_task: Callable[[], int | None]
    digest: Callable[[RunOutput], str] | None = None


FindRun = Callable[[str], SourceRun]
"""Returns the run that a job or a run means; raises RunspecError if there is none."""


class MountedRun(NamedTuple):
    """The output of a run that a mount refers to, with the digest of its content; "" before the run has ended."""

    run: str
    output: str
    digest: str = ""
    task: int | None = None


@dataclass
class RunMounts:
    """The outputs of runs that a job mounts, by mount name.

    *outputs* are those that jobs of the provider read as they were saved, and *copied* those that go to another store.
    """

    outputs: dict[str, SavedOutput] = field(default_factory=dict)
    copied: set[str] = field(default_factory=set)
    inputs: dict[str, MountedRun] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def resolve(spec: Spec, provider: Provider, facts: Facts, find: FindRun) -> RunMounts:
    """Return what the mounts of *spec* that are outputs of runs refer to; *facts* are complete but for mounts."""
    mounts = RunMounts()
    store = provider.saves_place(spec, facts) if isinstance(provider, SupportsRunMounts) else None
    for number, mount in enumerate(spec.mounts):
        output = mount.of_run
        if output is None:
            continue
        where = ("mounts", number, "source")
        try:
            source = find(output.job)
            wrong = list(wrong_output(output, source.spec, spec, where))
            mounts.problems += wrong
            if not wrong:
                _resolve_one(mounts, mount.name, output, source, store)
        except RunspecError as exc:
            mounts.problems.append(Problem(where, exc.message, exc.hint))
    return mounts


def _resolve_one(
    mounts: RunMounts, name: str, output: RunOutput, source: SourceRun, place: str | None
) -> None:
    if output.best:
        output = output._replace(task=source.best_task(), best=False)
    digest = "" if source.digest is None else source.digest(output)
    mounts.inputs[name] = MountedRun(source.run, output.output, digest, output.task)
    if place is None and output.same:
        message = "?task=same is for jobs with a Python agent"
        raise RunspecError(message, "mount the output of all tasks, and read the folder of one")
    if place is not None:
        mounts.outputs[name] = saved_output(source.run, source.spec, output)
    if place is None or source.place != place:
        mounts.copied.add(name)


def saved_output(run: str, spec: Spec, output: RunOutput) -> SavedOutput:
    """Return the output of a *run* of *spec*, with the tasks and nodes that save it."""
    nodes = spec.cluster.nodes
    saved = next(candidate for candidate in spec.outputs if candidate.name == output.output)
    of_first = (saved.origin or ("first" if nodes.elastic else "all")) == "first"
    tasks = count_tasks(spec.sweep) if spec.sweep else 1
    many = 1 if of_first else nodes.max
    return SavedOutput(run, output.output, tasks, many, output.task, output.same)


def none_known(name: str) -> SourceRun:
    """Refuse every run: of a spec that is checked without the records of this machine."""
    raise RunspecError(f"the run '{name}' is not known here")
