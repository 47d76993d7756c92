"""The container of a job in a spec: `container` and `ulimits`."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from runspec_jobs.document.nodes import Text, resolve, resolve_kind
from runspec_jobs.spec.types import (
    BYTES,
    KIB,
    Bytes,
    Free,
    Image,
    Model,
    Positive,
    Word,
    compiled,
    make_error,
    make_serializer,
    parse_size,
)

CONTEXT = r"^(\.{1,2}(/|$)|/|~/)"
# A path within the context: neither absolute nor with `..`.
RECIPE = r"^(?!(.*/)?\.\.(/|$))[^/\0][^\0]*$"


class Build(Model):
    """A container image that is built for the job from a folder beside the spec.

    Podman or docker of this machine builds it before the job starts. It is named by the content of the context, so a
    second `apply` builds nothing unless a file has changed: to build anew for a base image that changed, name that by
    its digest. `.git`, caches and what `.runspecignore` names are left out. Links that leave the context, files that
    look like secrets, and a pattern such as `!data/small.csv` below a folder that is left out are errors. The build
    gets the proxies of this machine, and no other arguments. `runspec destroy --shared` removes the image on `local`
    and AWS Batch.
    """

    context: Annotated[Word, WithJsonSchema({"type": "string", "pattern": CONTEXT})] = Field(
        description="The folder with what the image is built from, relative to the spec, such as `./`. Files that its "
        "`.containerignore`, or else its `.dockerignore`, leaves out are no part of it."
    )
    file: Annotated[Word, WithJsonSchema({"type": "string", "pattern": RECIPE})] | None = Field(
        default=None,
        description="The Containerfile, relative to the context. The default is `Containerfile`, or else "
        "`Dockerfile`.",
    )

    @model_validator(mode="after")
    def _check_paths(self) -> Self:
        if not compiled(CONTEXT).match(self.context):
            raise make_error(f"'{self.context}' is no folder", "write context: ./FOLDER")
        if self.file is not None and not compiled(RECIPE).match(self.file):
            hint = "write the path of a file in the context, such as file: docker/Containerfile"
            raise make_error(f"file: '{self.file}' is not in the context", hint)
        return self


class Container(Model):
    """What the job runs in: a container image, or Python packages where there is no container engine."""

    image: Image | None = Field(
        default=None,
        description="The container image. Name it with a tag or, so that it is always the same image, "
        "with a digest.",
    )
    build: Build | None = Field(
        default=None,
        description="Builds the image in place of naming one: `{context: ./, file: Containerfile}`. Where jobs do "
        "not run on this machine, the image is pushed: see runspec docs images.",
    )
    python: Word | None = Field(
        default=None,
        description="The Python versions that `requirements` work with, such as `>=3.9,<3.12`. Used "
        "where runspec builds an environment without an image.",
    )
    requirements: (
        Annotated[
            Annotated[Word, Tag("file")] | Annotated[tuple[Word, ...], Tag("list")],
            Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "file"),
        ]
        | None
    ) = Field(
        default=None,
        description="Python packages: the path of a requirements file beside the spec, or a list. They "
        "are installed in addition to the image, or into a new environment where the job "
        "runs without a container.",
    )
    conda: Word | None = Field(
        default=None,
        description="A conda environment instead of `requirements`: the path of an `environment.yml` beside the spec. "
        "Micromamba builds it where the job runs without an image. Only on Slurm and ParallelCluster.",
    )
    build_constraints: tuple[Word, ...] = Field(
        default=(),
        description="Version constraints for building source packages, as pip's build constraints: "
        "`[setuptools<74]`.",
    )
    entrypoint: Literal["image"] | None = Field(
        default=None,
        description="`image` runs the ENTRYPOINT of the image with `args`, in the folder that its WORKDIR names, in "
        "place of `command` and `run`. The image needs /bin/sh. A provider that cannot do so refuses it.",
    )
    args: tuple[Free, ...] = Field(
        default=(),
        description="The arguments of `entrypoint: image`. Without any, they are the CMD of the image.",
    )
    shm: Bytes | None = Field(
        default=None, description="Size of the shared memory `/dev/shm`, such as `8GiB`."
    )


UNLIMITED = -1
LIMIT_SCHEMA = {
    "oneOf": [
        {"type": "integer", "enum": [UNLIMITED]},
        {"type": "string", "pattern": rf"^unlimited$|{BYTES}"},
    ]
}


def _read_limit(value: Any) -> Any:
    if isinstance(value, Text):
        is_none = resolve_kind(value) == "int" and resolve(value) == UNLIMITED
        return UNLIMITED if is_none or value == "unlimited" else parse_size(value)
    return value


Limit = Annotated[
    int,
    BeforeValidator(_read_limit),
    make_serializer(lambda size: "unlimited" if size == UNLIMITED else f"{size // KIB}KiB"),
    WithJsonSchema(LIMIT_SCHEMA),
]


class Ulimits(Model):
    """Limits of each process of the job, by the names that container engines have for them.

    Containers of `local`, AWS Batch, Azure Batch, and podman on Slurm are started with these limits; elsewhere, only an
    administrator can raise the hard limits. If the hard limit is lower, the job ends with exit code 2, and its log
    names both. Fargate and Azure Batch AI refuse them.
    """

    memlock: Limit | None = Field(
        default=None,
        description="Memory that a process may lock, such as `64MiB`, or `unlimited` (`-1`), as RDMA needs it.",
    )
    nofile: Positive | None = Field(
        default=None, description="Number of open files, such as `65536`."
    )
    stack: Limit | None = Field(
        default=None, description="Size of the stack, such as `64MiB`, or `unlimited` (`-1`)."
    )

    @property
    def given(self) -> dict[str, int]:
        """The limits that the spec has, in bytes or open files, by name; -1 for none."""
        return {name: value for name, value in self if value is not None}
