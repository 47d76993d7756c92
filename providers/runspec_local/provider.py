"""The local provider, as the core uses it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runspec_jobs.provider import Client, Facts, Finding, Options, Problem, Spec, Step
from runspec_local import check, plan
from runspec_local.options import LocalOptions

if TYPE_CHECKING:
    from runspec_jobs.provider.machines import Offer


class LocalProvider:
    """Runs jobs on this machine."""

    name = "local"
    options_model: type[Options] = LocalOptions
    enters = ("shell", "tunnel")

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        return check.problems(spec, facts)

    def saves_place(self, spec: Spec, facts: Facts) -> str | None:
        return f"local:{facts.survey['root']}" if facts.survey else None

    conditions = ("succeeded", "failed", "ended")
    most_parents = 200  # as many as a chain has jobs

    def waiting_place(self, spec: Spec, facts: Facts) -> str | None:
        return self.saves_place(spec, facts)

    def tells_end(self, spec: Spec, condition: str) -> bool:
        return True

    def has_job_per_task(self, spec: Spec) -> bool:
        return False  # one process starts all tasks of a run

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        return plan.steps(spec, run, facts)

    def offer(self, spec: Spec, facts: Facts) -> Offer:
        """Return no machine: a price is that of the profile. Nothing here is reclaimed but nodes of elastic jobs."""
        from runspec_jobs.provider.machines import Offer  # slow to import, and not for `validate`

        again = spec.retry.spot_attempts - 1 if spec.cluster.nodes.elastic else 0
        return Offer((), attempts=spec.retry.attempts + again)

    def survey(self, spec: Spec, options: Any) -> Mapping[str, Any]:
        from runspec_local.discover import (
            survey,
        )  # reads facts about this machine: not allowed in the pure half

        return survey(spec, options)

    def examine(self, options: Any) -> Iterable[Finding]:
        from runspec_local.discover import examine

        return examine(options)

    def examine_job(self, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        from runspec_local.discover import examine_job

        return examine_job(spec, facts)

    def end_by_id(self, run: str, texts: Collection[str], *, delete: bool) -> bool:
        from runspec_local.client import LocalClient
        from runspec_local.orphans import end  # has effects: not allowed in the pure half

        return end(run, texts, LocalClient, delete=delete)

    def connect(self, facts: Facts) -> Client:
        from runspec_local import timing
        from runspec_local.client import LocalClient
        from runspec_local.discover import root

        # `gc` connects without a spec, and so without discovery
        return LocalClient(facts.survey.get("root") or root(facts.options), timing.DEFAULT)


PROVIDER = LocalProvider()
