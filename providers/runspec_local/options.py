"""The settings of the local provider."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from runspec.provider import Anyone, Options, Seconds, Truth, User, Word


def _absolute(path: str) -> str:
    """Refuse what would depend on the folder that runspec is called from."""
    if not path.startswith(("/", "~")):
        facts = {"what": f"'{path}' is not an absolute path", "hint": "begin it with / or ~"}
        raise PydanticCustomError("runspec", "{what}", facts)
    return path


Place = Annotated[
    Word,
    AfterValidator(_absolute),
    WithJsonSchema({"type": "string", "minLength": 1, "pattern": "^[/~]"}),
]


class LocalOptions(Options):
    """`providers: {local: {...}}` in a profile, and in a spec what anyone may set."""

    has_pools: ClassVar[bool] = False

    engine: Anyone[Literal["auto", "podman", "docker", "process"]] = Field(
        default="auto",
        description="What runs the nodes. `auto` takes podman, then docker, where the engine "
        "works and the image can be had, else processes.",
    )
    python: User[Word | None] = Field(
        default=None, description="The interpreter for `container.requirements`, as a path."
    )
    root: User[Place | None] = Field(
        default=None, description="The folder of the local store and of runs; absolute."
    )
    grace: Anyone[Seconds] = Field(
        default=10, description="From asking a job to end until it is ended: `10s`."
    )
    without_gpus: Anyone[Truth] = Field(
        default=False, description="Run a job that asks for GPUs here although there are none."
    )
