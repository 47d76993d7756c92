"""The Kubernetes provider, as the core uses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from runspec_jobs.provider import Client, Facts, Finding, Options, Problem, Spec, Step
from runspec_jobs.provider.machines import Offer
from runspec_jobs.provider.types import Emulation
from runspec_kubernetes import check, offer, plan, policy
from runspec_kubernetes.options import KubernetesOptions


class KubernetesProvider:
    """Runs jobs on a cluster of Kubernetes."""

    name = "kubernetes"
    options_model: type[Options] = KubernetesOptions
    enters = ("shell", "tunnel")

    def check(self, spec: Spec, facts: Facts) -> Iterable[Problem]:
        return check.problems(spec, facts)

    def offer(self, spec: Spec, facts: Facts) -> Offer:
        return offer.offer(spec, facts)

    def plan(self, spec: Spec, run: str, facts: Facts) -> Sequence[Step]:
        return plan.steps(spec, run, facts)

    def saves_place(self, spec: Spec, facts: Facts) -> str | None:
        options: KubernetesOptions = facts.options
        return f"{options.store_url or ''} {options.store}" if options.store else None

    def first_profile(self) -> str:
        from runspec_kubernetes.options import PROFILE_TEMPLATE

        return PROFILE_TEMPLATE

    def examine(self, options: Any) -> Iterable[Finding]:
        from runspec_kubernetes.doctor import cluster

        return cluster.examine(options)

    def examine_job(self, spec: Spec, facts: Facts, steps: Sequence[Step]) -> Iterable[Finding]:
        from runspec_kubernetes.doctor import job

        return job.examine(spec, facts, steps)

    def doctor_policy(self, options: Any) -> Mapping[str, Any]:
        return policy.doctor_policy(options)

    def policy(self, steps: Iterable[Step], options: Any, *, of_job: bool) -> Mapping[str, Any]:
        return policy.policy(steps, options, of_job=of_job)

    def fill(self, stage: Emulation, container: str, folder: Path) -> None:
        from runspec_kubernetes.emulator import fill

        fill(stage, container, folder)

    def rehearse(
        self, options: Mapping[str, Any], folder: Path, engine: str | None
    ) -> AbstractContextManager[Emulation]:
        from runspec_kubernetes.emulator import stage

        return stage(options, folder, engine)

    def connect(self, facts: Facts) -> Client:
        from runspec_kubernetes.client import connect

        return connect(facts)


PROVIDER = KubernetesProvider()
