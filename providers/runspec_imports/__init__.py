"""Importers of formats that belong to no provider of runspec: a spec that they make names its provider in one field."""

from __future__ import annotations

from runspec_jobs.provider.types import ForeignFile, Imported


class SkyPilotImporter:
    """Reads the tasks and pipelines of SkyPilot."""

    reads = "tasks of SkyPilot"

    def imports(self, job: ForeignFile, provider: str | None) -> Imported:
        from runspec_imports.skypilot import convert

        return convert(job, provider)


class KubernetesImporter:
    """Reads Jobs of Kubernetes, with the ConfigMaps and Secrets beside them."""

    reads = "Jobs of Kubernetes"

    def imports(self, job: ForeignFile, provider: str | None) -> Imported:
        from runspec_imports.kubernetes import convert

        return convert(job, provider)


KUBERNETES = KubernetesImporter()
SKYPILOT = SkyPilotImporter()
