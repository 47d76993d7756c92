"""The differences between what two plans were made from, in the words of the spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runspec_jobs.plan.diff import Change
from runspec_jobs.provider import Facts, Source, Spec
from runspec_jobs.provider.types import NOT_YET


def find_differences(before: tuple[Spec, Facts], after: tuple[Spec, Facts]) -> list[Change]:
    """Return the fields of the spec that differ, then the folders, the requirements and the settings.

    A path is what a user writes, such as `env.GREETING`, `mounts.code` for the files of a folder, or `profile.bucket`.
    """
    return list(_compare(before, after))


def _compare(before: tuple[Spec, Facts], after: tuple[Spec, Facts]) -> Iterator[Change]:
    old, new = (spec.model_dump(mode="json", by_alias=True) for spec, _ in (before, after))
    for fields in (old, new):
        for key in ("mounts", "outputs"):
            # By name, so that a mount which was added at the front does not change all others.
            fields[key] = {item["name"]: item for item in fields[key]}
    yield from _compare_fields("", old, new)
    yield from _compare_folders(before[1].sources, after[1].sources)
    named = [(spec.container.conda, spec.container.requirements) for spec, _ in (before, after)]
    # Otherwise the field itself is already listed.
    if before[1].requirements != after[1].requirements and named[0] == named[1]:
        path = "container.conda" if named[1][0] else "container.requirements"
        yield Change(path, list(before[1].requirements), list(after[1].requirements))
    settings = (pair[1].options.model_dump(mode="json", by_alias=True) for pair in (before, after))
    yield from (
        change
        for change in _compare_fields("profile", *settings)
        if not _is_of_spec(change.path, old, new)
    )


def _is_of_spec(path: str, *specs: Mapping[str, Any]) -> bool:
    """Return whether a spec itself contains the setting at *path* of the profile."""
    name = path.split(".")[1]
    return any(name in settings for spec in specs for settings in spec["providers"].values())


def _compare_fields(path: str, before: Any, after: Any) -> Iterator[Change]:
    """Yield the fields that differ; a list that differs is one field."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _compare_fields(
                f"{path}.{key}" if path else key, before.get(key), after.get(key)
            )
    elif before != after:
        yield Change(path, before, after)


def _compare_folders(before: Mapping[str, Source], after: Mapping[str, Source]) -> Iterator[Change]:
    for name in (name for name in before if name in after):
        old, new = before[name], after[name]
        if old.digest != new.digest and new != NOT_YET:
            yield Change(f"mounts.{name}", _describe_content(old), _describe_content(new))


def _describe_content(source: Source) -> str:
    return f"{source.counted}, {source.bytes:,} bytes, {source.name[:12]}"
