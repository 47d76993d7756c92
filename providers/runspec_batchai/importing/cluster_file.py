"""Import a cluster.json of `az batchai`: its machines go to the profile, and the needs of a job to the spec."""

from __future__ import annotations

from typing import Any

from runspec_batchai.importing.draft import Draft
from runspec_batchai.importing.foreign_file import ForeignObject
from runspec_batchai.resources import known
from runspec_batchai.store_volumes import ROOTS


def take(source: ForeignObject, draft: Draft) -> None:
    profile, cluster = draft.profile, draft.spec.setdefault("cluster", {"nodes": 1})
    profile["vm_size"] = source.text("vmSize")
    if (size := known(profile["vm_size"])) and size.gpus:
        cluster["gpus"] = int(size.gpus)
        draft.notes.append(f"{size.name} had {size.gpus:g} {size.gpu} for each node")
    priority = source.text("vmPriority")
    if priority == "lowpriority":
        cluster["capacity"] = "spot"
    elif priority not in (None, "dedicated"):
        source.left("vmPriority", "the value is neither dedicated nor lowpriority")
    _scale(source.inner("scaleSettings"), draft)
    _image(source.inner("virtualMachineConfiguration"), draft)
    _setup(source.inner("nodeSetup"), draft)
    _user(source.inner("userAccountSettings"), draft)
    subnet = source.inner("subnet")
    profile["subnet"] = subnet.text("id")
    subnet.end()
    source.end()


def _scale(source: ForeignObject, draft: Draft) -> None:
    profile, manual, auto = draft.profile, source.inner("manual"), source.inner("autoScale")
    if manual:
        profile["scale"] = "manual"
        count = manual.number("targetNodeCount")
        profile["max_nodes"] = count or None
        if not count:
            manual.left(
                "targetNodeCount", "a cluster of fixed size has at least the nodes of one job"
            )
        profile["deallocation"] = manual.text("nodeDeallocationOption")
    if auto:
        profile["min_nodes"] = auto.number("minimumNodeCount")
        profile["max_nodes"] = auto.number("maximumNodeCount") or None
        profile["initial_nodes"] = auto.number("initialNodeCount")
    for part in (manual, auto, source):
        part.end()


def _image(source: ForeignObject, draft: Draft) -> None:
    image = source.inner("imageReference")
    if image:
        names = {"publisher": "publisher", "offer": "offer", "sku": "sku", "version": "version"}
        names["virtualMachineImageId"] = "id"
        whole = {ours: image.text(theirs) for theirs, ours in names.items()}
        draft.profile["machine_image"] = {k: v for k, v in whole.items() if v is not None}
    image.end()
    source.end()


def _setup(source: ForeignObject, draft: Draft) -> None:
    task = source.inner("setupTask")
    if task:
        setup: dict[str, Any] = {"command": task.text("commandLine")}
        env: dict[str, str] = {}
        hidden: dict[str, str] = {}
        for variable in task.each("environmentVariables"):
            env[variable.text("name") or ""] = variable.text("value") or ""
            variable.end()
        for variable in task.each("secrets"):
            name = variable.text("name") or ""
            value, vault = variable.text("value"), variable.inner("valueSecretReference")
            hidden[name] = draft.secret(name, name, value, vault, variable.path)
            variable.end()
        setup |= {"env": env} if env else {}
        setup |= {"secrets": hidden} if hidden else {}
        draft.profile["setup"] = {**setup, "logs": task.text("stdOutErrPathPrefix")}
    task.end()
    draft.volumes(source.inner("mountVolumes"), "cluster", ROOTS["cluster"])
    _insights(source.inner("performanceCountersSettings"), draft)
    source.end()


def _insights(source: ForeignObject, draft: Draft) -> None:
    reference = source.inner("appInsightsReference")
    if reference:
        component = reference.inner("component")
        insights = {"component": component.text("id")}
        component.end()
        value, vault = (
            reference.text("instrumentationKey"),
            reference.inner("instrumentationKeySecretReference"),
        )
        if value or vault:
            insights["key"] = draft.secret(
                "insights-key", "INSTRUMENTATION_KEY", value, vault, reference.path
            )
        draft.profile["insights"] = insights
    reference.end()
    source.end()


def _user(source: ForeignObject, draft: Draft) -> None:
    draft.profile["admin_user"] = source.text("adminUserName")
    draft.profile["ssh_public_key"] = source.text("adminUserSshPublicKey")
    password = source.text("adminUserPassword")
    if password:
        path = f"{source.path}.adminUserPassword"
        nothing = ForeignObject(None, path, draft.notes)
        name = draft.secret("admin-password", "ADMIN_PASSWORD", password, nothing, path)
        draft.profile["admin_password"] = name
    source.end()
