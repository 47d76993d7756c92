"""Convert job definitions of AWS Batch, and the request that submits one, to specs and settings for a profile."""

from __future__ import annotations

import re
import shlex
from fnmatch import fnmatchcase

from runspec_aws.importing.containers import take_container, take_program
from runspec_aws.importing.definitions import find_definitions, read_submission
from runspec_jobs.provider import UsageError
from runspec_jobs.provider.importing.documents import Map
from runspec_jobs.provider.importing.draft import Draft, list_codes, write_duration, write_imported
from runspec_jobs.provider.importing.mapping import ForeignMap, Notes
from runspec_jobs.provider.types import ForeignFile, Imported

IDENTITY = ("jobDefinitionArn", "revision", "status", "containerOrchestrationType")
# What a definition needs no word of: runspec tags the tasks, and deletes its own definitions.
NEEDLESS = ("propagateTags", "resourceRetentionPolicy")
LOST_MACHINE = re.compile(r"host ec2\*?|\*?host ec2.*", re.IGNORECASE)
ANYTHING = re.compile(r"\*+")
LAST_CODE = 255
# By words in reasons: https://docs.aws.amazon.com/batch/latest/userguide/best-practices.html#bestpractice6
REASONS = {
    "cannotpull": "image",
    "dockertimeout": "image",
    "outofmemory": "oom",
    "attempt duration exceeded": "timeout",
}


def convert(file: ForeignFile, second: ForeignFile | None) -> Imported:
    """Return the job definitions in *file* as specs. Raise OtherFormat if it has none."""
    notes = Notes(file.name)
    definitions = find_definitions(file, notes)
    submission, submit_notes = Map(), notes
    if second is not None:
        submission = read_submission(second)
        submit_notes = notes.of_other(second.name)
        definitions = [_choose(definitions, submission, second.name)]
    drafts = [
        _take(ForeignMap(definition, "", notes), ForeignMap(submission, "", submit_notes))
        for definition in definitions
    ]
    needed = ["region", "bucket"]
    if any("queue" not in draft.settings for draft in drafts):
        needed += ["subnets", "security_groups", "instance_role"]
    notes.add(
        f"the file does not say {', '.join(needed)}: add them to the profile, see runspec docs aws-batch"
    )
    return write_imported(drafts, notes)


def _choose(definitions: list[Map], submission: Map, name: str) -> Map:
    wanted = str(submission["jobDefinition"]).rpartition("/")[2].partition(":")[0]
    found = [one for one in definitions if str(one.get("jobDefinitionName")) == wanted]
    if len(definitions) > 1 and not found:
        named = ", ".join(str(one.get("jobDefinitionName")) for one in definitions)
        raise UsageError(f"{name} submits {wanted}, and there are {named}")
    return found[0] if found else definitions[0]


def _take(definition: ForeignMap, request: ForeignMap) -> Draft:
    name = request.text("jobName") or definition.text("jobDefinitionName", "job")
    draft = Draft(name, "aws-batch", definition.notes)
    definition.skip("jobDefinitionName", "type", *IDENTITY, *NEEDLESS)
    request.skip("jobDefinition", *NEEDLESS)
    parameters: dict[str, str] = {**definition.pairs("parameters"), **request.pairs("parameters")}
    if "nodeProperties" in definition:
        _take_nodes(
            definition.map("nodeProperties"), request.map("nodeOverrides"), draft, parameters
        )
    elif "ecsProperties" in definition:
        _take_task(definition.map("ecsProperties"), draft, parameters)
    elif "eksProperties" in definition:
        definition.lose("eksProperties", "write the pod as a Kubernetes Job, and import that file")
    else:
        take_container(definition.map("containerProperties"), draft, parameters)
    _take_retries(definition.map("retryStrategy"), draft)
    draft.notes = request.notes
    take_program(request.map("containerOverrides"), draft, parameters)
    _take_retries(request.map("retryStrategy"), draft)
    for source in (definition, request):
        if seconds := source.map("timeout").number("attemptDurationSeconds"):
            draft.spec["timeout"] = write_duration(seconds)
        if tags := source.pairs("tags"):
            draft.settings.setdefault("tags", {}).update(tags)
    if "FARGATE" in definition.texts("platformCapabilities"):
        draft.settings["fargate"] = True
    _take_queue(definition, request, draft)
    _take_array(request, draft)
    draft.notes = definition.notes
    if "job_role" not in draft.profile and draft.cluster.get("nodes", 1) == 1:
        draft.settings["files"] = "signed"  # the job has no role with which to reach the bucket
    if not draft.spec.get("command") and "run" not in draft.spec:
        draft.spec["command"] = ["true"]
        what = "the program of the image"
        draft.notes.lose(what, "write command, as its Dockerfile has it", definition.value)
    return draft


def _take_nodes(
    source: ForeignMap, overrides: ForeignMap, draft: Draft, parameters: dict[str, str]
) -> None:
    """Add a multi-node definition: the container of the first range, and the commands of the others by rank."""
    nodes = overrides.number("numNodes") or source.number("numNodes") or 1
    draft.cluster["nodes"] = nodes
    source.skip("numNodes")
    if source.number("mainNode"):
        source.lose("mainNode", "the first node is the main one")
    commands: list[tuple[str, list[str]]] = []
    for number, group in enumerate(source.maps("nodeRangeProperties")):
        where = group.text("targetNodes", "0:")
        one = draft if not number else Draft(draft.spec["name"], "aws-batch", draft.notes)
        if "ecsProperties" in group:
            _take_task(group.map("ecsProperties"), one, parameters)
        else:
            take_container(group.map("container"), one, parameters)
        if types := group.texts("instanceTypes"):
            one.settings["instance_types"] = list(types)
        commands.append((where, one.spec.pop("command", [])))
        if number and _rest(one) != _rest(draft):
            draft.notes.lose(
                f"the container of nodes {where}", "all nodes have that of the first", group.value
            )
    for override in overrides.maps("nodePropertyOverrides"):
        override.skip("targetNodes")
        take_program(override.map("containerOverrides"), draft, parameters)
        override_command = draft.spec.pop("command", None)
        commands = [(where, override_command or words) for where, words in commands]
    words = [words for _, words in commands]
    if words and all(one == words[0] for one in words):
        draft.spec["command"] = words[0]
    elif words:
        draft.spec["run"] = _write_roles(commands, nodes)


def _rest(draft: Draft) -> tuple[object, ...]:
    env = (draft.spec.get("env"), draft.spec.get("secrets"), draft.spec.get("mounts"))
    sizes = {key: value for key, value in draft.cluster.items() if key != "nodes"}
    return draft.container, sizes, env


def _write_roles(commands: list[tuple[str, list[str]]], nodes: int) -> str:
    """Return a script that runs on each node the command of its range.

    >>> print(_write_roles([("0", ["a"]), ("1:", ["b", "c d"])], 3), end="")
    if [ "$RUNSPEC_RANK" -ge 0 ] && [ "$RUNSPEC_RANK" -le 0 ]; then exec a; fi
    if [ "$RUNSPEC_RANK" -ge 1 ] && [ "$RUNSPEC_RANK" -le 2 ]; then exec b 'c d'; fi
    """
    text = ""
    for where, words in commands:
        first, colon, last = where.partition(":")
        end = (last or str(nodes - 1)) if colon else first
        if words and (first or "0").isdecimal() and end.isdecimal():
            test = f'[ "$RUNSPEC_RANK" -ge {first or 0} ] && [ "$RUNSPEC_RANK" -le {end} ]'
            text += f"if {test}; then exec {shlex.join(words)}; fi\n"
    return text or "true\n"


def _take_task(source: ForeignMap, draft: Draft, parameters: dict[str, str]) -> None:
    """Add the one container of an ECS task."""
    for number, task in enumerate(source.maps("taskProperties")):
        containers = task.maps("containers")
        for other in containers[1:] if not number else containers:
            draft.notes.lose(
                f"container {other.text('name')}", "a job has one container", other.value
            )
            other.clear()
        if number or not containers:
            continue
        containers[0].skip("name", "essential")
        take_container(containers[0], draft, parameters)
        if role := task.text("taskRoleArn"):
            draft.profile["job_role"] = role
        if role := task.text("executionRoleArn"):
            draft.profile["execution_role"] = role


def _take_retries(source: ForeignMap, draft: Draft) -> None:
    """Add attempts: those that a lost machine costs are counted apart.

    https://docs.aws.amazon.com/batch/latest/userguide/job_retries.html: the first rule that fits decides, and without
    one, a job is retried.
    """
    attempts = source.number("attempts")
    found: list[dict[str, object]] = []
    restarts = ends = False
    for rule in source.maps("evaluateOnExit"):
        action = "stop" if rule.text("action").upper() == "EXIT" else "retry"
        status, reason, code = (rule.text(k) for k in ("onStatusReason", "onReason", "onExitCode"))
        others = [text for text in (status, reason) if text and not ANYTHING.fullmatch(text)]
        codes = [n for n in range(1, LAST_CODE + 1) if fnmatchcase(str(n), code)] if code else []
        if others == [status] and not code and LOST_MACHINE.fullmatch(status):
            restarts = action == "retry"
        elif len(others) == 1 and not code and (known := _find_reason(others[0])):
            found.append({"reason": known, "action": action})
        elif others or (code and not codes):
            why = "exit codes, and the reasons image, oom and timeout, decide"
            draft.notes.lose(f"{rule.path}: {action}", why, rule.value)
        elif code and len(codes) < LAST_CODE:
            found.append({"exit_codes": list_codes(codes), "action": action})
        elif not ends:
            found.append({"action": action})
            ends = True
    if not attempts or attempts > 10:
        return
    retry: dict[str, object] = {"spot_attempts": attempts} if restarts else {}
    if found != [{"action": "stop"}] and attempts > 1:
        retry |= {"attempts": attempts, "on": found} if found else {"attempts": attempts}
    draft.spec["retry"] = retry


def _find_reason(pattern: str) -> str | None:
    """Return runspec's word for the reasons that *pattern* of a rule means."""
    text = pattern.lower()
    return next((reason for word, reason in REASONS.items() if word in text), None)


def _take_queue(definition: ForeignMap, request: ForeignMap, draft: Draft) -> None:
    if queue := request.text("jobQueue").rpartition("/")[2]:
        draft.settings["queue"] = queue
    priority = definition.number("schedulingPriority")
    priority = request.number("schedulingPriorityOverride") or priority
    if share := request.text("shareIdentifier"):
        draft.settings["share"] = share
        draft.settings |= {"priority": priority} if priority is not None else {}
    elif priority is not None:
        definition.lose(
            "schedulingPriority",
            "it counts among jobs with one share: write settings share and priority",
        )
    for parent in request.maps("dependsOn"):
        parent.skip("jobId", "type")
        parent.notes.lose(
            "dependsOn",
            "write the jobs into one file, and name them under needs: runspec docs chains",
        )


def _take_array(request: ForeignMap, draft: Draft) -> None:
    if size := request.map("arrayProperties").number("size"):
        draft.spec["sweep"] = {"index": f"0..{size - 1}"}
