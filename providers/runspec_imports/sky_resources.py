"""Import the machines that a task of SkyPilot asks for.

https://docs.skypilot.co/en/latest/reference/yaml-spec.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspec_jobs.provider.importing.documents import Map, Seq, Text, Value
from runspec_jobs.provider.importing.draft import Draft, list_codes
from runspec_jobs.provider.importing.mapping import ForeignMap, Notes

PROVIDERS = {
    "aws": "aws-batch",
    "azure": "azure-batch",
    "slurm": "slurm",
    "kubernetes": "kubernetes",
    "k8s": "kubernetes",
}
CHOICE = "any_of", "ordered"
# What chooses the place, and is the same for all alternatives of a spec.
PLACES = ("infra", "cloud", "region", "zone", "instance_type")
MACHINE = {"aws-batch": "instance_types", "azure-batch": "vm_size"}
LABELS = {"aws-batch": "tags", "kubernetes": "labels"}
SIZE = re.compile(r"(\d+(?:\.\d+)?)(?:GB|Gi?|GiB)?\+?", re.IGNORECASE)
ACCELERATOR = re.compile(r"(?P<name>[A-Za-z][\w.-]*)(?::(?P<count>\d+(?:\.\d+)?))?")
OF_MEMORY = re.compile(r"(?:[a-z]+:)?(\d+)(?:GB|GiB)?\+?(?::(\d+))?", re.IGNORECASE)
MOST_ATTEMPTS, MOST_PORTS = 10, 16
TIERS = {**dict.fromkeys(("low", "medium", "high", "best")), "ultra": "best"}
# The tiers that a service with one kind of disk takes.
TIERS_OF = {"azure-batch": ("low", "medium", "best"), "slurm": ("low", "best")}


def find_provider(source: ForeignMap) -> str | None:
    """Return the provider of the service that the task names first, or None."""
    choices = [source.value, *_list_choices(source.value)]
    for choice in choices:
        place = choice.get("infra") or choice.get("cloud") if isinstance(choice, Map) else None
        if isinstance(place, Text) and place.split("/")[0].lower() in PROVIDERS:
            return PROVIDERS[place.split("/")[0].lower()]
    return None


def _list_choices(value: Value | None) -> Iterator[Value]:
    for key in CHOICE:
        found = value.get(key) if isinstance(value, Map) else None
        yield from found if isinstance(found, Seq) else ()


def take_resources(source: ForeignMap, draft: Draft) -> None:
    """Add everything in *source* to *draft*: of alternatives, what one spec can say, and of the rest the first."""
    whole, choices = source.value, [c for c in _list_choices(source.value) if isinstance(c, Map)]
    kinds = [source.pop("accelerators"), *(choice.get("accelerators") for choice in choices)]
    spots = {_is_true(choice.get("use_spot")) for choice in choices if "use_spot" in choice}
    if choices and isinstance(whole, Map):
        merged = Map({**{k: v for k, v in whole.items() if k not in CHOICE}, **choices[0]})
        merged.span = whole.span
        merged.pop("accelerators", None)
        source.clear()
        _list_lost(choices, draft.notes)
        source = ForeignMap(merged, source.path, draft.notes)
    _take_accelerators([kind for kind in kinds if kind is not None], draft)
    _take_place(source, draft)
    _take_sizes(source, draft)
    _take_tier(source, draft)
    if source.truth("use_spot") or True in spots:
        draft.cluster["capacity"] = "spot-then-on-demand" if len(spots) > 1 else "spot"
    _take_recovery(source, draft)
    image = source.text("image_id")
    if image.startswith("docker:"):
        draft.container["image"] = image.removeprefix("docker:")
    elif image:
        source.lose("image_id", "it is an image of a machine: write container: {image: ...}")
    _take_ports(source, draft)
    source.skip("autostop")  # runspec's machines go when no job needs them
    labels = source.pairs("labels")
    if labels and draft.provider in LABELS:
        draft.settings[LABELS[draft.provider]] = labels
    elif labels:
        source.lose("labels")
    if source.text("network_tier") == "best":
        draft.cluster["placement"] = "close"
        if draft.provider == "aws-batch":
            draft.settings["efa"] = True


def _is_true(value: Value | None) -> bool:
    return isinstance(value, Text) and value.lower() in ("true", "yes", "on")


def _list_lost(choices: list[Map], notes: Notes) -> None:
    """List what the alternatives after the first say, except for accelerators and spot machines."""
    for number, choice in enumerate(choices[1:], start=2):
        for key, value in choice.items():
            if key not in ("accelerators", "use_spot") and choices[0].get(key) != value:
                notes.lose(
                    f"{key} of alternative {number}", "a spec has one: the first is imported", key
                )


def _take_accelerators(values: list[Value], draft: Draft) -> None:
    found: list[tuple[str, int, object]] = []
    for value in values:
        found += [(*one, value) for one in _read_accelerators(value, draft)]
    if not found:
        return
    count = found[0][1]
    kinds = list(dict.fromkeys(name for name, number, _ in found if name and number == count))
    draft.cluster["gpus"] = count
    if kinds:
        draft.cluster["gpu_type"] = kinds if len(kinds) > 1 else kinds[0]
    for name, number, at in found:
        if number != count:
            draft.notes.lose(f"{number} x {name}", f"each alternative has {count} GPUs", at)


def _read_accelerators(value: Value, draft: Draft) -> Iterator[tuple[str, int]]:
    """Yield names and numbers: `H100:8`, `{H100: 8}`, or a list of such."""
    if isinstance(value, Seq):
        for inner in value:
            yield from _read_accelerators(inner, draft)
        return
    texts = (
        [f"{k}:{v}" if v else k for k, v in value.items()] if isinstance(value, Map) else [value]
    )
    for text in texts:
        match = ACCELERATOR.fullmatch(str(text))
        memory = OF_MEMORY.fullmatch(str(text))
        if memory:
            draft.cluster["gpu_memory"] = f"{memory[1]}GiB"
            yield "", int(memory[2] or 1)
        elif match is None or match["name"].lower().startswith("tpu"):
            draft.notes.lose(f"accelerator {str(text)[:60]!r}", "runspec knows GPUs", value)
        else:
            yield match["name"], max(1, round(float(match["count"] or 1)))


def _take_place(source: ForeignMap, draft: Draft) -> None:
    cloud, *parts = (source.text("infra") or source.text("cloud")).split("/")
    region = source.text("region") or (parts[0] if parts else "")
    zone = source.text("zone") or (parts[1] if len(parts) > 1 else "")
    if cloud not in ("", "*") and PROVIDERS.get(cloud.lower()) != draft.provider:
        draft.notes.lose(
            f"infra {cloud}",
            f"the spec is for {draft.provider}: change its field provider",
            source.value,
        )
        region = zone = ""
    if region not in ("", "*") and draft.provider == "aws-batch":
        draft.settings["region"] = region
    elif region not in ("", "*") and draft.provider == "kubernetes":
        draft.profile["context"] = "/".join(parts) or region
        zone = ""
    elif region not in ("", "*") and draft.provider == "slurm":
        draft.settings |= {"partition": zone} if zone else {}
        zone = ""
        draft.notes.lose(
            f"cluster {region}", "the profile says how to reach it: host", source.value
        )
    elif region not in ("", "*"):
        draft.notes.lose(f"region {region}", "write it to the profile", source.value)
    if zone not in ("", "*"):
        draft.notes.lose(f"zone {zone}", "the subnets of the profile decide", source.value)
    if machine := source.text("instance_type"):
        if draft.provider in MACHINE:
            name = MACHINE[draft.provider]
            draft.settings[name] = [machine] if name.endswith("s") else machine
        else:
            source.lose("instance_type", f"{draft.provider} has no such machines")


def _take_sizes(source: ForeignMap, draft: Draft) -> None:
    for key, field, unit in (
        ("cpus", "cpus", ""),
        ("memory", "memory", "GiB"),
        ("disk_size", "disk", "GiB"),
    ):
        text = source.text(key)
        match = SIZE.fullmatch(text)
        if match and float(match[1]):
            number = -(-float(match[1]) // 1)
            draft.cluster[field] = f"{number:.0f}{unit}" if unit else int(number)
        elif text:
            source.lose(key, "it is not a plain number")


def _take_tier(source: ForeignMap, draft: Draft) -> None:
    text = source.text("disk_tier").lower()
    tier = TIERS.get(text) or text
    if not text or text == "none":
        return
    if text not in TIERS or tier not in TIERS_OF.get(draft.provider, TIERS):
        source.lose("disk_tier", f"{draft.provider} has no such disks")
        return
    size = draft.cluster.pop("disk", None)
    draft.cluster["disk"] = {**({"size": size} if size else {}), "tier": tier}


def _take_ports(source: ForeignMap, draft: Draft) -> None:
    ports: list[int] = []
    for text in source.texts("ports"):
        first, _, last = text.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and len(text) < 12:
            ports += range(int(first), int(last or first) + 1)
    if len(ports) > MOST_PORTS or len(ports) != len(set(ports)):
        source.lose("ports", f"write at most {MOST_PORTS} of them")
    elif ports:
        draft.spec["ports"] = ports


def _take_recovery(source: ForeignMap, draft: Draft) -> None:
    value = source.pop("job_recovery")
    if isinstance(value, Text):
        return  # a strategy: runspec finds other machines by itself
    recovery = ForeignMap(value, f"{source.path}.job_recovery", draft.notes)
    recovery.skip("strategy")
    restarts = recovery.number("max_restarts_on_errors")
    codes = [int(text) for text in recovery.texts("recover_on_exit_codes") if text.isdecimal()]
    if restarts:
        draft.spec["retry"] = {"attempts": min(restarts + 1, MOST_ATTEMPTS)}
    elif codes:
        rules = [{"exit_codes": list_codes(codes), "action": "retry"}, {"action": "stop"}]
        draft.spec["retry"] = {"attempts": MOST_ATTEMPTS, "on": rules}
