"""Names that were given up for the field's terms (docs/glossary.md) do not come back."""

from __future__ import annotations

import ast

import pytest

from tests.support.root import ROOT

MODULES = set(
    """
abilities account answers applying archive argv arm around asking batch blame body booted bucket
cases changed changing check_queues check_storage children choosing clean cli clusters
collecting complaining console course curve curves definition dial disk doubt draws endings ends
engine enter environments exporting extras failures fetching finding first fitting flaws folders
foreign forked formats forward gang gather groups handed headway hiding home import_cluster
import_job import_paths inside instances interactive keep keeping kept launcher leftovers
library litter log looking main managed many measured measures measuring meet metrics
mirror near notice onward pace packages pages patterns place planning plots probe_jobs
probe_store probing problems publishing reach readers reading record refusals rehearsal
rehearsing relay reporting resuming roll rounds rsh run saving scalars scale seat seats shape
shelf signing simulating sized sizes smoking spec start state stopped stops stores streams
summaries sweeps sync table taken tars tasks team templates times together tool torch_handler
tree tries trusting turns values vault vaults walk watch whose words work yamlio yamltext
""".split()
)
# By package: classes whose names now stand in the glossary as the terms on its right.
CLASSES = {
    "runspec_jobs/provider": "Answer Who Change Litter Rehearsal Foreign Interactive Relay Way Survey "
    "Doctor DoctorOfNodes Permits Introduces Rehearses Exports Imports Stage Tail Outputs Talks Remembers "
    "Changes Stops Collects Shells Tunnels Enters Publishes Adopts Probes",
    "runspec_jobs/cli": "Told",
    "runspec_jobs/engine": "Hands Tell",
    "runspec_jobs/state": "Memory",
    "runspec_jobs/document/syntax_errors.py": "Flaw",
    "runspec_jobs/diagnostics": "Complaint",
    "runspec_jobs/load": "Text Wrong Job Judge",
    "runspec_jobs/access": "Kept Dialler",
    "runspec_jobs/logs": "Watch",
    "runspec_jobs/report": "Finder",
    "runspec_jobs/spec": "Bounded",
    "runspec_agent/rendezvous/shared_directory.py": "Meeting",
    "runspec_agent/rendezvous/participant.py": "Seat",
    "runspec_agent/retry": "Gang Verdict Round Team Ends Ears Heed",
    "runspec_agent/preemption": "Taken Watch Events",
    "runspec_agent/base": "Place Words",
    "runspec_agent/store": "Body",
    "runspec_agent/elastic/protocol.py": "Course",
    "runspec_agent/elastic/progress.py": "Headway",
    "runspec_agent/elastic/checkpoint.py": "Kept",
    "runspec_agent/elastic/fence.py": "Mark",
    "runspec_aws": "Asking Shape Needs Collector",
    "runspec_azure": "Needs Turns Hidden Collector",
    "runspec_batchai": "Needs Turns Hidden Collector",
    "runspec_parallelcluster": "Shelf Near Looks Doubts Whose Together Collector",
    "runspec_slurm": "Shelf Near Looks Doubts Whose Together Collector",
}


def test_no_module_has_a_retired_name() -> None:
    found = {
        path.relative_to(ROOT)
        for folder in ("runner", "providers")
        for path in (ROOT / folder).rglob("*.py")
        if path.stem in MODULES
    }

    assert found == set()


@pytest.mark.parametrize("place", CLASSES)
def test_no_class_has_a_retired_name(place: str) -> None:
    root = (
        ROOT
        / ("runner" if place.startswith(("runspec_jobs", "runspec_agent")) else "providers")
        / place
    )
    assert root.exists()
    paths = [root] if root.is_file() else [*root.rglob("*.py")]
    nodes = (node for path in paths for node in ast.parse(path.read_text()).body)

    found = {node.name for node in nodes if isinstance(node, ast.ClassDef)}

    assert found & set(CLASSES[place].split()) == set()
