"""The files of a job in a spec: `mounts` and `outputs`, and places in stores of other owners."""

from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from runspec_agent.base.light_typing import NamedTuple
from runspec_jobs.spec.needs import WRITE_SOURCE, RunOutput, run_output
from runspec_jobs.spec.types import (
    Folder,
    Key,
    Model,
    Saves,
    Seconds,
    Sha256,
    Truth,
    Word,
    compiled,
    make_error,
)

SOURCE = r"^(\.{1,2}(/|$)|/|~/|store://.|shared://.|run://.|s3://.|az://.|https://.)"


class Foreign(NamedTuple):
    """A kind of stores of other owners: what follows its scheme, an example, and the *variable* that has a key."""

    pattern: str
    example: str
    variable: str


# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
# https://learn.microsoft.com/azure/azure-resource-manager/management/resource-name-rules#microsoftstorage
FOREIGN = {
    "s3": Foreign(
        r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", "s3://BUCKET/PREFIX", "AWS_ACCESS_KEY_ID"
    ),
    "az": Foreign(
        r"[a-z0-9]{3,24}/[a-z0-9$][a-z0-9-]{2,62}(/.*)?",
        "az://ACCOUNT/CONTAINER/PREFIX",
        "AZURE_STORAGE_SAS_TOKEN",
    ),
}


TARGET = r"^(s3|az)://."


def check_target(url: str) -> str:
    """Return *url*, to which an output is written, if it names a place in a store; raise an error if not."""
    if not compiled(TARGET).match(url):
        examples = " or ".join(kind.example for kind in FOREIGN.values())
        raise make_error(
            f"'{url}' is no store that an output could be written to", f"write {examples}"
        )
    check_foreign(url)
    return url


# What makes a URL a key for everybody who reads it, in a record or a log.
SIGNED_URL = r"(?i)https://[^/]*@|.*[?&]([a-z-]*signature|sig|token|access_token|key|api_key)="


def check_url(url: str, sha256: str | None) -> None:
    """Raise an error if *url* is no public address, or has no digest."""
    if compiled(SIGNED_URL).match(url):
        message = "the address has a password, a token or a signature"
        hint = "download the file, and mount it from this machine"
        raise make_error(message, hint, private=True)
    if not compiled(r"https://[A-Za-z0-9.:\[\]-]+/[!-~]+").fullmatch(url):
        raise make_error(
            f"'{url}' is no address of a file", "write https://HOST/PATH, with %20 for a space"
        )
    if sha256 is None:
        hint = f"add sha256: DIGEST, which this prints: curl -sSL '{url}' | sha256sum"
        raise make_error(f"'{url}' needs a digest, because it may change", hint)


def check_foreign(url: str) -> None:
    """Raise an error if *url*, whose scheme is one of FOREIGN, names no bucket or container."""
    scheme, _, place = url.partition("://")
    kind = FOREIGN[scheme]
    if not compiled(kind.pattern).fullmatch(place):
        raise make_error(f"'{url}' names no place in a store", f"write {kind.example}")
    if {"", ".", ".."} & set(place.rstrip("/").split("/")):
        raise make_error(f"'{url}' must have no empty part, '.' or '..'")


class Mount(Model):
    """Data that the job reads, placed at `target` on every node."""

    name: Key = Field(description="Name of the mount: `${mounts.NAME}` in the command is its path.")
    source: Annotated[
        Word, WithJsonSchema({"type": "string", "pattern": SOURCE, "minLength": 1})
    ] = Field(
        description="Where the data is: a folder or a file, relative to the spec (`./mnist`), a place in the "
        "profile's object store (`store://datasets/mnist`) or in a shared file system "
        "(`shared://workspace`), or an output of another job (`run://prepare/data`; of one task of a "
        "sweep, `run://search/model?task=3`, `?best` or, for each task that of its own number, `?task=same`), or a "
        "bucket or container of another owner (`s3://bucket/prefix`, `az://account/container/prefix`), which the job "
        "reads by its own identity, or a public file (`https://host/path`), with its `sha256`."
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="The SHA-256 of a file from `https://`, in hexadecimal digits.",
    )
    target: Folder = Field(
        description="Absolute path of the mount in the job; of a file, the path of the file itself. Without a "
        "container it may be below a folder of the job instead: `${mounts.NAME}` is right everywhere."
    )
    mode: Literal["ro", "rw", "lazy"] | None = Field(
        default=None,
        description="`ro` (read-only) or `rw` (read-write). The default is `rw` for shared file systems "
        "and `ro` for all other sources. `lazy`, for `store://`, is read-only: files are read when the program opens "
        "them, where the provider can mount its store, and copied before it starts elsewhere.",
    )
    anonymous: Truth = Field(
        default=False,
        description="Read a public bucket or container without any identity; for `s3://` and `az://`.",
    )

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if not compiled(SOURCE).match(self.source):
            raise make_error(
                f"'{self.source}' cannot be mounted",
                "write ./folder, store://place, shared://place, run://JOB/OUTPUT, s3://BUCKET/PREFIX, "
                "az://ACCOUNT/CONTAINER/PREFIX or https://HOST/PATH",
            )
        if self.scheme == "run" and self.of_run is None:
            raise make_error(f"'{self.source}' names no output of a job", WRITE_SOURCE)
        if self.scheme != "file" and ".." in self.source.split("/"):
            raise make_error(f"'{self.source}' must not contain '..'")
        if self.is_foreign:
            check_foreign(self.source)
            if self.mode == "rw":
                raise make_error("files that the job writes there would be lost", "remove mode: rw")
        elif self.url:
            check_url(self.url, self.sha256)
        if self.mode == "lazy" and self.scheme != "store":
            way = (
                "remove it: such files are read where they are"
                if self.scheme == "shared"
                else "use store://"
            )
            raise make_error("'mode: lazy' is for store:// alone", way)
        if self.sha256 and not self.url:
            raise make_error("'sha256' is for https:// alone", "remove it")
        if self.anonymous and not self.is_foreign:
            raise make_error("'anonymous' is for s3:// and az:// alone", "remove it")
        return self

    @property
    def url(self) -> str | None:
        """The address of a public file, which this machine downloads and uploads as others; None for other sources."""
        return self.source if self.source.startswith("https://") else None

    @property
    def is_foreign(self) -> bool:
        """Whether the source is a bucket or container of another owner."""
        return self.scheme in FOREIGN

    @property
    def scheme(self) -> Literal["file", "store", "shared", "run", "s3", "az"]:
        """The kind of the source: what this machine uploads, the object store, a shared file system, or an output.

        The last two are buckets and containers of other owners.
        """
        if self.source.startswith("s3://"):
            return "s3"
        if self.source.startswith("az://"):
            return "az"
        if self.source.startswith("store://"):
            return "store"
        if self.source.startswith("run://"):
            return "run"
        return "shared" if self.source.startswith("shared://") else "file"

    @property
    def of_run(self) -> RunOutput | None:
        """The output of another job that the source names, or None."""
        return run_output(self.source)

    @property
    def place(self) -> str:
        """The source without its scheme."""
        return self.source.split("://", 1)[-1]

    @property
    def read_only(self) -> bool:
        return (self.mode or ("rw" if self.scheme == "shared" else "ro")) != "rw"


def _check_pattern(value: str) -> str:
    if {"", ".", ".."} & set(value.split("/")):  # no path of a file has such a part
        raise make_error(
            f"'{value}' is no pattern of files in the output", "write '*.pt' or 'logs/*'"
        )
    return value


FilePattern = Annotated[Word, AfterValidator(_check_pattern)]


class Output(Model):
    """A folder that the job writes. runspec saves it to the store, even if the job fails.

    A save has files, folders and links, with their permissions and times, but no links that lead out of the folder,
    named pipes, sockets, devices, owners, extended attributes, setuid, setgid and sticky bits. Two hard links come back
    as two files. An output takes at most twice its size in the store.
    """

    model_config = ConfigDict(serialize_by_alias=True)

    name: Key = Field(
        description="Name of the output: `${outputs.NAME}` in the command is its path."
    )
    path: Folder = Field(
        description="Absolute path of the folder in the job. Without a container it may be below a folder "
        "of the job instead: `${outputs.NAME}` is right everywhere."
    )
    sync: Seconds | None = Field(
        default=None,
        description="How often the folder is saved while the job runs, such as `60s`. It is always saved "
        "when the job ends.",
    )
    origin: Literal["first", "all"] | None = Field(
        default=None,
        alias="from",
        description="Which nodes' copies of the folder are saved: `first` for the first node (rank 0) "
        "only, `all` for every node, each in a place of its own. The default is `first` for "
        "elastic jobs and `all` for all others.",
    )
    target: (
        Annotated[
            Word,
            AfterValidator(check_target),
            WithJsonSchema({"type": "string", "pattern": TARGET, "minLength": 1}),
        ]
        | None
    ) = Field(
        default=None,
        description="A bucket or container of another owner (`s3://bucket/prefix`, `az://account/container/prefix`) to "
        "which each save writes the files as well, under their plain names and by the job's own identity.",
    )
    include: tuple[FilePattern, ...] = Field(
        default=(),
        description="Patterns of the files that are saved, such as `*.pt` or `logs/*`; without them, all are. One "
        "without `/` is that of a name in any folder, and one with `/` that of a path in the output, in which `*` may "
        "stand for several folders and `**/` for none, and which may lead through a link to a folder. Such links are "
        "kept unless `exclude` names them. What is left out, a later attempt does not find. Elastic jobs and jobs "
        "without an agent refuse both fields.",
    )
    exclude: tuple[FilePattern, ...] = Field(
        default=(), description="Patterns of files that are not saved, such as `*.tmp`."
    )
    keep: Saves = Field(
        default=1,
        description="How many saves are kept: `last` for the last one, `last 3` for the last three.",
    )
