"""Importers of formats that belong to no provider of runspec: a spec that they make names its provider in one field."""

from __future__ import annotations

from runspec_jobs.provider.types import ForeignFile, Imported


class SkyPilotImporter:
    """Reads the tasks and pipelines of SkyPilot."""

    reads = "tasks of SkyPilot"

    def imports(self, job: ForeignFile, provider: str | None) -> Imported:
        from runspec_imports.skypilot import convert

        return convert(job, provider)


SKYPILOT = SkyPilotImporter()
