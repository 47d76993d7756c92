"""The settings of the local provider."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from runspec_agent.base import limits
from runspec_jobs.provider.registry_login import RegistryOptions
from runspec_jobs.provider.settings import Anyone, Seconds, Truth, User, Word


def _absolute(path: str) -> str:
    """Return *path*. Raise an error for a relative path, which would depend on the current folder."""
    if not path.startswith(("/", "~")):
        facts = {"what": f"'{path}' is not an absolute path", "hint": "begin it with / or ~"}
        raise PydanticCustomError("runspec", "{what}", facts)
    return path


Place = Annotated[
    Word,
    AfterValidator(_absolute),
    WithJsonSchema({"type": "string", "minLength": 1, "pattern": "^[/~]"}),
]


class LocalOptions(RegistryOptions):
    """Settings of `local`, under `providers` in a profile. A spec may set the fields marked `anyone`."""

    has_pools: ClassVar[bool] = False
    places: ClassVar[str | None] = "remove it: the job runs on this machine"

    engine: Anyone[Literal["auto", "podman", "docker", "process"]] = Field(
        default="auto",
        description="What runs the nodes: containers of `podman` or `docker`, or plain processes "
        "(`process`). `auto` uses podman, else docker, if the engine works and the image is "
        "available, and processes otherwise.",
    )
    python: User[Word | None] = Field(
        default=None, description="Path of the Python interpreter for `container.requirements`."
    )
    root: User[Place | None] = Field(
        default=None,
        description="Folder of the local object store and of the runs' files, as an absolute path.",
    )
    grace: Anyone[Seconds] = Field(
        default=limits.GRACE_S,
        description="Time between SIGTERM and SIGKILL when a job is stopped.",
    )
    without_gpus: Anyone[Truth] = Field(
        default=False, description="Run a job that asks for GPUs although this machine has none."
    )
    # None means true: an older version of runspec, which lacks the option, can then read the record of a run.
    namespace: Anyone[Truth | None] = Field(
        default=None,
        description="Give processes a mount namespace, in which mounts and outputs have their paths of the spec. "
        "The default is true. Set it to false for a job that runs sudo, mounts file systems or starts containers.",
    )
