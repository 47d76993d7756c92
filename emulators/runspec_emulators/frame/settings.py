"""Settings of emulators that may be changed while they run, each to what its type takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

Kind = tuple[Callable[[Any], bool], str]  # a test of a value, and what it says of a wrong one


class BadSetting(ValueError):
    """A setting has no such name or cannot have this value."""


def rehearsed_secrets(options: Mapping[str, Any]) -> dict[str, str]:
    """Return variables with a made-up value for every secret of a profile; the real ones are not read."""
    return {
        where.removeprefix("env:"): f"rehearsed secret '{name}'"
        for name, where in dict(options.get("secrets", {})).items()
        if where.startswith("env:")
    }


def number(value: Any) -> bool:
    return isinstance(value, int | float)


@dataclass(frozen=True)
class EmulatorSettings:
    """The settings of all emulators; those in FIXED cannot be changed while the emulator runs."""

    FIXED: ClassVar[frozenset[str]] = frozenset()
    KINDS: ClassVar[Mapping[Any, Kind]] = {
        float: (number, "not a number"),
        int: (number, "not a number"),
    }

    folder: Path
    """The folder that contains the folders of nodes and containers."""
    engine: Literal["process", "podman"] = "process"
    """With "podman", jobs that ask for a container run in one; otherwise all jobs are processes."""
    podman: tuple[str, ...] = ("podman",)
    own_root: bool = False
    """Whether processes have a root folder of their own, as in a container or on a machine of the service.

    Then what a job writes to `/job` is not on this machine. With "podman", containers have one in any case.
    """
    hosts: tuple[str, ...] = ()
    """Patterns of the host names by which clients know the emulator, where something stands before it."""
    machine_env: Mapping[str, str] = field(default_factory=dict)
    """The environment variables that machines pass to every job."""

    def changed(self, values: Mapping[str, Any]) -> Self:
        """Return these with *values* put in; raise BadSetting for what cannot be changed."""
        known = {f.name for f in fields(self)} - self.FIXED - {"hosts", "own_root"}
        hints = get_type_hints(type(self))
        for name, value in values.items():
            if name not in known:
                raise BadSetting(f"no setting {name!r} may be changed; there are {sorted(known)}")
            hint = hints[name]
            if get_origin(hint) is Literal and value not in get_args(hint):
                raise BadSetting(f"{name}: {value!r} is none of {get_args(hint)}")
            good, what = self.KINDS.get(hint, (None, ""))
            if good and not good(value):
                raise BadSetting(f"{name}: {value!r} is {what}")
        return replace(self, **values)
