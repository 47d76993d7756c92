"""Import a cluster.json of `az batchai`: its machines go to the profile, and the needs of a job to the spec."""

from __future__ import annotations

from typing import Any

from runspec_batchai.importing.draft import Draft
from runspec_batchai.importing.foreign_file import ForeignObject
from runspec_batchai.resources import known
from runspec_batchai.store_volumes import ROOTS


def take(found: ForeignObject, draft: Draft) -> None:
    profile, cluster = draft.profile, draft.spec.setdefault("cluster", {"nodes": 1})
    profile["vm_size"] = found.text("vmSize")
    if (size := known(profile["vm_size"])) and size.gpus:
        cluster["gpus"] = int(size.gpus)
        draft.notes.append(f"{size.name} had {size.gpus:g} {size.gpu} for each node")
    priority = found.text("vmPriority")
    if priority == "lowpriority":
        cluster["capacity"] = "spot"
    elif priority not in (None, "dedicated"):
        found.left("vmPriority", "the value is neither dedicated nor lowpriority")
    _scale(found.inner("scaleSettings"), draft)
    _image(found.inner("virtualMachineConfiguration"), draft)
    _setup(found.inner("nodeSetup"), draft)
    _user(found.inner("userAccountSettings"), draft)
    subnet = found.inner("subnet")
    profile["subnet"] = subnet.text("id")
    subnet.end()
    found.end()


def _scale(found: ForeignObject, draft: Draft) -> None:
    profile, manual, auto = draft.profile, found.inner("manual"), found.inner("autoScale")
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
    for part in (manual, auto, found):
        part.end()


def _image(found: ForeignObject, draft: Draft) -> None:
    image = found.inner("imageReference")
    if image:
        names = {"publisher": "publisher", "offer": "offer", "sku": "sku", "version": "version"}
        names["virtualMachineImageId"] = "id"
        whole = {ours: image.text(theirs) for theirs, ours in names.items()}
        draft.profile["machine_image"] = {k: v for k, v in whole.items() if v is not None}
    image.end()
    found.end()


def _setup(found: ForeignObject, draft: Draft) -> None:
    task = found.inner("setupTask")
    if task:
        setup: dict[str, Any] = {"command": task.text("commandLine")}
        env: dict[str, str] = {}
        hidden: dict[str, str] = {}
        for one in task.each("environmentVariables"):
            env[one.text("name") or ""] = one.text("value") or ""
            one.end()
        for one in task.each("secrets"):
            name = one.text("name") or ""
            value, vault = one.text("value"), one.inner("valueSecretReference")
            hidden[name] = draft.secret(name, name, value, vault, one.path)
            one.end()
        setup |= {"env": env} if env else {}
        setup |= {"secrets": hidden} if hidden else {}
        draft.profile["setup"] = {**setup, "logs": task.text("stdOutErrPathPrefix")}
    task.end()
    draft.volumes(found.inner("mountVolumes"), "cluster", ROOTS["cluster"])
    _insights(found.inner("performanceCountersSettings"), draft)
    found.end()


def _insights(found: ForeignObject, draft: Draft) -> None:
    reference = found.inner("appInsightsReference")
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
    found.end()


def _user(found: ForeignObject, draft: Draft) -> None:
    draft.profile["admin_user"] = found.text("adminUserName")
    draft.profile["ssh_public_key"] = found.text("adminUserSshPublicKey")
    password = found.text("adminUserPassword")
    if password:
        path = f"{found.path}.adminUserPassword"
        nothing = ForeignObject(None, path, draft.notes)
        name = draft.secret("admin-password", "ADMIN_PASSWORD", password, nothing, path)
        draft.profile["admin_password"] = name
    found.end()
