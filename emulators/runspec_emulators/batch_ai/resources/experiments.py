"""Experiments: jobs of a workspace that belong together."""

from __future__ import annotations

from runspec_emulators.batch_ai.api import descriptions
from runspec_emulators.batch_ai.api.requests import Request
from runspec_emulators.batch_ai.api.responses import Response, page
from runspec_emulators.batch_ai.model import PROVIDER, Experiment
from runspec_emulators.batch_ai.resources import jobs
from runspec_emulators.batch_ai.resources.long_running import NOTHING, created, deleted
from runspec_emulators.batch_ai.world import World


def create_experiment(world: World, request: Request) -> Response:
    workspace, name = world.workspace(request), request.path["experimentName"]
    existing = workspace.experiments.get(name.lower())
    if existing is None:
        kind = f"{PROVIDER}/workspaces/experiments"
        existing = Experiment(f"{workspace.id}/experiments/{name}", name, kind, {})
        workspace.experiments[name.lower()] = existing
    experiment = existing
    return created(world, experiment, lambda: descriptions.experiment(experiment))


def get_experiment(world: World, request: Request) -> Response:
    return Response(200, descriptions.experiment(world.experiment(request)))


def list_experiments(world: World, request: Request) -> Response:
    experiments = world.workspace(request).experiments.values()
    return page(
        world.url, request, [descriptions.experiment(experiment) for experiment in experiments]
    )


def delete_experiment(world: World, request: Request) -> Response:
    workspace, name = world.workspace(request), request.path["experimentName"].lower()
    experiment = workspace.experiments.get(name)
    if experiment is None:
        return NOTHING
    for job in list(experiment.jobs.values()):
        jobs.remove(world, workspace, job)

    def gone() -> bool:
        if not experiment.jobs:
            workspace.experiments.pop(name, None)
        return name not in workspace.experiments

    return deleted(world, experiment, gone)
