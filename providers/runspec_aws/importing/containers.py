"""Import the container of a job definition.

https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerProperties.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from runspec_aws.options import ARN, SHARED
from runspec_jobs.provider.commands import literal
from runspec_jobs.provider.importing.draft import Draft, make_key
from runspec_jobs.provider.importing.mapping import ForeignMap

REFERENCE = re.compile(r"Ref::([A-Za-z0-9_-]+)")
RESERVED = "AWS_BATCH"  # the service sets these variables itself
SIZES = {"VCPU": "cpus", "MEMORY": "memory", "GPU": "gpus"}
# Limits that every provider has; those in bytes have units.
LIMITS, SIZED = ("memlock", "nofile", "stack"), ("memlock", "stack")
EFA = "/dev/infiniband/"
NONE_NEEDED = "the container's own disk has room for it"


def take_container(source: ForeignMap, draft: Draft, parameters: Mapping[str, str]) -> None:
    """Add everything in *source* to *draft*, with the values of *parameters* in the command."""
    draft.container["image"] = source.text("image")
    take_program(source, draft, parameters)
    _take_roles(source, draft)
    _take_volumes(source, draft)
    _take_linux(source.map("linuxParameters"), draft)
    _take_logs(source.map("logConfiguration"), draft)
    _take_limits(source, draft)
    _take_platform(source, draft)
    for secret in source.maps("secrets"):
        name, place = secret.text("name"), secret.text("valueFrom")
        kind = "aws-sm" if ":secretsmanager:" in place else "aws-ssm"
        draft.add_secret(name, f"{kind}:{place}", source.value)
    if user := source.text("user"):
        draft.settings["user"] = user
    for key in ("privileged", "readonlyRootFilesystem", "enableExecuteCommand"):
        if source.truth(key):
            source.lose(key, "a job of runspec has no such right")


def take_program(source: ForeignMap, draft: Draft, parameters: Mapping[str, str]) -> None:
    """Add what a definition has, and a request that submits it can override: command, variables and sizes."""
    if words := source.texts("command"):
        draft.spec["command"] = [_fill(word, draft, parameters, at=word) for word in words]
    for variable in source.maps("environment"):
        name = variable.text("name")
        if name.startswith(RESERVED):
            draft.notes.lose(f"variable {name}", "AWS Batch sets it itself", variable.value)
            variable.skip("value")
        elif "value" in variable:
            draft.add_env(name, variable.text("value"), variable.value)
    sizes = {"VCPU": source.text("vcpus"), "MEMORY": source.text("memory")}
    for requirement in source.maps("resourceRequirements"):
        kind = requirement.text("type")
        if kind not in SIZES:
            draft.notes.lose(f"resource requirement {kind}", at=requirement.value)
        sizes[kind] = requirement.text("value")
    for kind, value in sizes.items():
        _size(draft, kind, value, source)
    if machine := source.text("instanceType"):
        draft.settings["instance_types"] = [machine]


def _fill(word: str, draft: Draft, parameters: Mapping[str, str], at: object) -> str:
    """Return a word of a command; a parameter with a value is one of the spec, which `--param` can change."""
    text, end = "", 0
    for match in REFERENCE.finditer(word):
        name = match[1]
        text += literal(word[end : match.start()])
        if name in parameters and not re.search(r"[\n$]", parameters[name]):
            key = make_key(name, ())
            draft.spec.setdefault("params", {})[key] = parameters[name]
            text += f"${{params.{key}}}"
        elif name in parameters:
            text += literal(parameters[name])
        else:
            draft.notes.lose(f"parameter {name}", f"it has no value: replace replace-{name}", at)
            text += f"replace-{name}"
        end = match.end()
    return text + literal(word[end:])


def _size(draft: Draft, kind: str, value: str, source: ForeignMap) -> None:
    if not value or kind not in SIZES:
        return
    if not re.fullmatch(r"\d{1,9}(\.\d+)?", value) or not float(value):
        draft.notes.lose(f"{kind} in {source.path}", "it is not a number", source.value)
    elif kind == "MEMORY":
        draft.cluster["memory"] = f"{value}MiB"
    else:
        whole = -(-float(value) // 1)
        draft.cluster[SIZES[kind]] = int(whole)
        if whole != float(value):
            draft.notes.add(
                f"{value} vCPUs become {whole:.0f}: a spec counts whole ones", source.value
            )


def _take_roles(source: ForeignMap, draft: Draft) -> None:
    for key, setting in (("jobRoleArn", "job_role"), ("executionRoleArn", "execution_role")):
        role = source.text(key)
        if re.match(ARN, role):
            draft.profile[setting] = role
        elif role:
            source.lose(key, f"write the ARN of the role to the profile: {setting}")
    if secret := source.map("repositoryCredentials").text("credentialsParameter"):
        draft.profile["registry_secret"] = f"aws-sm:{secret}"
        draft.profile["registry"] = draft.container["image"].split("/")[0]


def _take_volumes(source: ForeignMap, draft: Draft) -> None:
    folders: dict[str, str] = {}
    for volume in source.maps("volumes"):
        name = volume.text("name")
        efs, host = volume.map("efsVolumeConfiguration"), volume.map("host").text("sourcePath")
        key = make_key(name, ())
        if efs:
            access = efs.map("authorizationConfig")
            point = access.text("accessPointId")
            access.skip("iam")  # the job's role mounts the file system
            place = f"efs:{efs.text('fileSystemId')}" + (f":{point}" if point else "")
            folders[name] = f"shared://{key}/{efs.text('rootDirectory').strip('/')}".rstrip("/")
            efs.skip("transitEncryption")  # runspec always encrypts
        elif host:
            place = f"host:{host}"
            folders[name] = f"shared://{key}"
        else:
            continue
        if re.match(SHARED, place):
            draft.profile.setdefault("shared", {})[key] = place
        else:
            draft.notes.lose(
                volume.path,
                f"write its address to the profile: shared: {{{key}: ...}}",
                volume.value,
            )
    for mount in source.maps("mountPoints"):
        name, target = mount.text("sourceVolume"), mount.text("containerPath")
        mode = "ro" if mount.truth("readOnly") else "rw"
        if name in folders:
            draft.add_mount(name, folders[name], target, mode)
        elif target:
            draft.notes.add(
                f"{target} is a folder of the container, as elsewhere: {NONE_NEEDED}", mount.value
            )


def _take_linux(source: ForeignMap, draft: Draft) -> None:
    if size := source.number("sharedMemorySize"):
        draft.container["shm"] = f"{size}MiB"
    for device in source.maps("devices"):
        if device.text("hostPath").startswith(EFA):
            draft.settings["efa"] = True
            device.clear()
        else:
            draft.notes.lose(device.path, "a job of runspec has no such device", device.value)
            device.clear()
    if source.truth("initProcessEnabled"):
        source.notes.add(
            "initProcessEnabled: runspec's own program starts the job, and waits for its processes"
        )


def _take_logs(source: ForeignMap, draft: Draft) -> None:
    driver = source.text("logDriver")
    options = source.map("options")
    if driver == "awslogs":
        if group := options.text("awslogs-group"):
            draft.profile["log_group"] = group
        # runspec names the streams, makes the group, and logs in its own region.
        options.skip("awslogs-region", "awslogs-stream-prefix", "awslogs-create-group", "mode")
    elif driver:
        source.notes.lose(
            f"log driver {driver}", "runspec reads logs from CloudWatch Logs", source.value
        )


def _take_limits(source: ForeignMap, draft: Draft) -> None:
    for limit in source.maps("ulimits"):
        name, hard, soft = limit.text("name"), limit.text("hardLimit"), limit.text("softLimit")
        if not re.fullmatch(r"-1|\d{1,15}", hard) or not re.fullmatch(r"[a-z]+", name):
            draft.notes.lose(f"ulimit {name}", "it is not a number", limit.value)
            continue
        if name in LIMITS:
            size = f"{int(hard) // 1024}KiB" if name in SIZED and hard != "-1" else int(hard)
            draft.spec.setdefault("ulimits", {})[name] = size
        else:
            draft.settings.setdefault("ulimits", {})[name] = int(hard)
        if soft not in ("", hard):
            draft.notes.lose(f"soft limit of {name}", "both limits are the hard one", limit.value)


def _take_platform(source: ForeignMap, draft: Draft) -> None:
    network = source.map("networkConfiguration")
    if network.text("assignPublicIp") == "ENABLED":
        draft.settings["public_ip"] = True
    fargate = source.map("fargatePlatformConfiguration")
    if fargate.text("platformVersion", "LATEST") != "LATEST":
        fargate.lose("platformVersion", "runspec uses the latest")
    if size := source.map("ephemeralStorage").number("sizeInGiB"):
        draft.cluster["disk"] = f"{size}GiB"
    platform = source.map("runtimePlatform")
    if (kind := platform.text("cpuArchitecture", "X86_64")) != "X86_64":
        platform.lose("cpuArchitecture", f"runspec chooses no machines with {kind}")
    if platform.text("operatingSystemFamily", "LINUX") != "LINUX":
        platform.lose("operatingSystemFamily", "jobs run on Linux")
