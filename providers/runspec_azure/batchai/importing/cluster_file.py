"""A cluster.json of `az batchai`, taken in: machines are the account's, what a job needs is the spec's."""

from __future__ import annotations

from typing import Any

from runspec_azure.batchai.importing.draft import Draft
from runspec_azure.batchai.importing.foreign_file import Taken
from runspec_azure.batchai.resources import KNOWN
from runspec_azure.batchai.store.volumes import ROOTS


def take(found: Taken, draft: Draft) -> None:
    profile, cluster = draft.profile, draft.spec.setdefault("cluster", {"nodes": 1})
    profile["vm_size"] = found.text("vmSize")
    if (size := KNOWN.get((profile["vm_size"] or "").upper())) and size.gpus:
        cluster["gpus"] = size.gpus
        draft.notes.append(f"{size.name} had {size.gpus} {size.gpu_type} for each node")
    priority = found.text("vmPriority")
    if priority == "lowpriority":
        cluster["capacity"] = "spot"
    elif priority not in (None, "dedicated"):
        found.left("vmPriority", "it is neither dedicated nor lowpriority")
    _scale(found.inner("scaleSettings"), draft)
    _image(found.inner("virtualMachineConfiguration"), draft)
    _setup(found.inner("nodeSetup"), draft)
    _user(found.inner("userAccountSettings"), draft)
    subnet = found.inner("subnet")
    profile["subnet"] = subnet.text("id")
    subnet.end()
    found.end()


def _scale(found: Taken, draft: Draft) -> None:
    profile, manual, auto = draft.profile, found.inner("manual"), found.inner("autoScale")
    if manual:
        profile["scale"] = "manual"
        count = manual.number("targetNodeCount")
        profile["max_nodes"] = count or None
        if not count:
            manual.left("targetNodeCount", "a fixed cluster here has at least the nodes of one job")
        profile["deallocation"] = manual.text("nodeDeallocationOption")
    if auto:
        profile["min_nodes"] = auto.number("minimumNodeCount")
        profile["max_nodes"] = auto.number("maximumNodeCount") or None
        profile["initial_nodes"] = auto.number("initialNodeCount")
    for part in (manual, auto, found):
        part.end()


def _image(found: Taken, draft: Draft) -> None:
    image = found.inner("imageReference")
    if image:
        names = {"publisher": "publisher", "offer": "offer", "sku": "sku", "version": "version"}
        names["virtualMachineImageId"] = "id"
        whole = {ours: image.text(theirs) for theirs, ours in names.items()}
        draft.profile["machine_image"] = {k: v for k, v in whole.items() if v is not None}
    image.end()
    found.end()


def _setup(found: Taken, draft: Draft) -> None:
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


def _insights(found: Taken, draft: Draft) -> None:
    told = found.inner("appInsightsReference")
    if told:
        component = told.inner("component")
        insights = {"component": component.text("id")}
        component.end()
        value, vault = (
            told.text("instrumentationKey"),
            told.inner("instrumentationKeySecretReference"),
        )
        if value or vault:
            insights["key"] = draft.secret(
                "insights-key", "INSTRUMENTATION_KEY", value, vault, told.path
            )
        draft.profile["insights"] = insights
    told.end()
    found.end()


def _user(found: Taken, draft: Draft) -> None:
    draft.profile["admin_user"] = found.text("adminUserName")
    draft.profile["ssh_public_key"] = found.text("adminUserSshPublicKey")
    password = found.text("adminUserPassword")
    if password:
        path = f"{found.path}.adminUserPassword"
        nothing = Taken(None, path, draft.notes)
        name = draft.secret("admin-password", "ADMIN_PASSWORD", password, nothing, path)
        draft.profile["admin_password"] = name
    found.end()
