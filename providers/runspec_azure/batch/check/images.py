"""Problems with the operating system image of the machines: its node agent, where it is, and its GPU driver."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_azure.batch.decision import Decision
from runspec_azure.batch.options import BatchOptions
from runspec_azure.naming import setting
from runspec_azure.resources import request, vm_sizes
from runspec_jobs.provider import Problem, Spec

# https://learn.microsoft.com/azure/batch/batch-custom-image-pools-to-azure-compute-gallery-migration-guide
RETIRED = "2026-03-31"


def problems(decision: Decision, spec: Spec) -> Iterator[Problem]:
    yield from _agent(spec, decision.options)
    yield from _managed(spec, decision.options)
    yield from _driver(decision, spec)


def _agent(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """Yield a problem if the node agent does not belong to the image, which would make nodes unusable."""
    agent = request.NODE_AGENTS.get(options.image.rpartition(":")[0])
    if agent and agent != options.node_agent:
        what = f"node_agent: '{options.node_agent}' does not belong to {options.image}"
        yield Problem(setting(spec, "image"), what, f"set node_agent: {agent}")


def _managed(spec: Spec, options: BatchOptions) -> Iterator[Problem]:
    """Yield a problem for an image with an id that is in no gallery."""
    if options.image.startswith("/") and "/galleries/" not in options.image.lower():
        what = f"Azure Batch retired pools with managed images on {RETIRED}: this image is in no gallery"
        hint = "put it into an Azure Compute Gallery, and set image: /subscriptions/.../galleries/GALLERY/images/NAME"
        yield Problem(setting(spec, "image"), what, hint)


def _driver(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield a problem if the GPUs of the machines do not work with the image."""
    options, name = decision.options, decision.vm_size
    kind = vm_sizes.gpu_type(name)
    if not decision.request.gpus or not request.lacks_driver(kind, options.image):
        return
    at = setting(spec, "vm_size") if options.vm_size else ("cluster", "gpu_type")
    if not options.vm_size and decision.request.gpu_type is None:
        at = ("cluster", "gpus")
    needed = request.driver(kind)
    what = f"the {kind} of {name} needs the driver {needed.name}, which {options.image} lacks"
    if options.start_task:
        yield Problem(at, f"{what}: start_task must install it", severity="note")
        return
    if image := request.image_with(kind):
        agent = request.NODE_AGENTS[image.rpartition(":")[0]]
        known = f"image: {image} and node_agent: {agent}"
    else:
        known = "an image with that driver"
    hint = f"set {known} in the profile, or a start_task that installs it, or another gpu_type"
    yield Problem(at, what, hint)
