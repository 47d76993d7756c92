"""Words that a shell offers after TAB. What cannot be read is left out, because an error would break the line.

The imports are few, and no code of providers runs: each TAB is a process of its own, which somebody waits for.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from runspec_jobs import entry_points, state_folder
from runspec_jobs.errors import RunspecError

SUFFIXES = (".yaml", ".yml")
PROVIDERS = "runspec.providers"  # as in `runspec_jobs.load.registry`, which imports far more


def specs(incomplete: str) -> list[str]:
    """Return the YAML files that begin so; none if a folder does too, so that the shell offers files and folders."""
    folder, begun = os.path.split(incomplete)
    files = []
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if not entry.name.startswith(begun) or (entry.name.startswith(".") and not begun):
                continue
            if entry.is_dir():
                return []
            if entry.name.endswith(SUFFIXES):
                files.append(os.path.join(folder, entry.name))
    return sorted(files)


def runs(incomplete: str) -> list[str]:
    """Return the names of specs that have runs, then the runs."""
    journals = sorted(entry.name for entry in _runs())
    names = sorted({run[:-7] for run in journals})
    return [word for word in (*names, *journals) if word.startswith(incomplete)]


def runs_and_chains(incomplete: str) -> list[str]:
    """Return the names of specs that have runs and those of chains, then the runs."""
    chains = [name for name in _chains() if name.startswith(incomplete)]
    return sorted({*chains}) + runs(incomplete)


def _chains() -> Iterator[str]:
    """Yield the names of chains: those of their records, which end with letters for the path."""
    with (
        contextlib.suppress(OSError, RunspecError),
        os.scandir(state_folder.find_chains_folder()) as entries,
    ):
        for entry in entries:
            name, ending = os.path.splitext(entry.name)
            if ending == ".json":
                yield name.rpartition("-")[0]


def outputs(ctx: Any, incomplete: str) -> list[str]:
    """Return the outputs of the run that is on the command line, or of the newest run of that name."""
    from runspec_jobs.document import reader  # slower to import than all others

    typed = str(ctx.params.get("run"))
    entries = [entry for entry in _runs() if typed in (entry.name, entry.name[:-7])]
    try:
        newest = max(entries, key=lambda entry: (entry.name == typed, entry.stat().st_mtime))
        with open(os.path.join(newest.path, "job.yaml"), "rb") as file:
            spec: Any = reader.read(file.read(reader.TEXT_BYTES)).value
        names = [str(one["name"]) for one in spec["outputs"]]
    except (OSError, ValueError, LookupError, TypeError, reader.YamlError):
        return []
    return [name for name in names if name.startswith(incomplete)]


def _runs() -> Iterator[os.DirEntry[str]]:
    with (
        contextlib.suppress(OSError, RunspecError),
        os.scandir(state_folder.find_runs_folder()) as entries,
    ):
        yield from (entry for entry in entries if not entry.name.startswith("."))


def explained(incomplete: str) -> list[str]:
    """Return the codes, states and terms that `runspec explain` knows."""
    from runspec_jobs import manual  # no other completion needs the pages

    with contextlib.suppress(OSError):
        return sorted({name for name in manual.list_known() if name.startswith(incomplete)})
    return []


def pages(incomplete: str) -> list[str]:
    """Return the pages of the documentation."""
    from runspec_jobs import manual

    return [name for name in manual.list_page_names() if name.startswith(incomplete)]


def providers(incomplete: str) -> list[str]:
    names = {point.name for point in entry_points.read(PROVIDERS)}
    return sorted(name for name in names if name.startswith(incomplete))
