"""Buckets and containers of other owners, which a job reads by its own identity: `s3://BUCKET`, `az://ACCOUNT/CONTAINER`.

The identity is that of the program: credentials in its environment, or the role or identity of its machine.
"""

import os
import sys
from http.client import HTTPException
from typing import Any, Dict, List, Mapping, Optional, Tuple

from runspec_agent.base import boot
from runspec_agent.base.boot import Answer, Ask
from runspec_agent.base.job_env import USAGE, Failure
from runspec_agent.store import parallel
from runspec_agent.store.base import Bucket
from runspec_agent.store.blob import VERSION, BlobBucket, BlobStore
from runspec_agent.store.s3 import S3Bucket, S3Store
from runspec_agent.store.workload_identity import find_aws, find_azure
from runspec_agent.transfer import inputs

USAGE_LINE = "usage: foreign RECORD TARGET"
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# Where the tools of AWS look: https://docs.aws.amazon.com/sdkref/latest/guide/file-location.html
SHARED_FILE = "~/.aws/credentials"
TOKEN = "AZURE_STORAGE_SAS_TOKEN"  # as Azure's command line calls it
AZURE = "blob.core.windows.net"
PUBLIC = "write anonymous: true if it is public"


class _S3Store(S3Store):
    def __init__(self, env: Mapping[str, str], anonymous: bool) -> None:
        super().__init__(env)
        self.anonymous = anonymous
        if env.get(KEYS[0]):  # as in the tools of AWS, they come before an identity of the pod
            self.keys = None

    def sign(self, ask: Ask, path: str, query: str) -> Dict[str, str]:
        return dict(ask.headers) if self.anonymous else super().sign(ask, path, query)


class _S3(S3Bucket):
    def __init__(self, url: str, env: Mapping[str, str], anonymous: bool) -> None:
        self.url, self.anonymous = url, anonymous
        bucket = url.partition("://")[2].partition("/")[0]
        region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or env.get("RUNSPEC_REGION")
        self._env = dict(env, RUNSPEC_STORE="s3://{}/".format(bucket))
        if not anonymous and (env.get(KEYS[0]) or find_aws(env, "") is None):
            _take_keys(env, url)
        self._move(region or "us-east-1")
        self._find_region()

    def _move(self, region: str) -> None:
        self.store = _S3Store(dict(self._env, RUNSPEC_REGION=region), self.anonymous)

    def _find_region(self) -> None:
        """Go on in the region of the bucket, which S3 names even in a refusal.

        https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html
        """
        answer = self.send(Ask("HEAD", ""))
        region = answer.headers["x-amz-bucket-region"]
        if answer.status == 404:
            raise Failure("{}: there is no such bucket (404)".format(self.url), USAGE)
        if region and region != self.store.region:
            self._move(region)

    def _checked(self, answer: Answer, key: str) -> Answer:
        if answer.status in (301, 400, 401, 403):
            raise _refused(self.url, answer, self.anonymous, "the role of the job")
        return super()._checked(answer, key)


class _BlobStore(BlobStore):
    def __init__(
        self, account: str, container: str, own: Optional[BlobStore], sas: str, anonymous: bool
    ) -> None:
        self.https, self.host, self.bucket = True, "{}.{}".format(account, AZURE), container
        if own is not None:
            self.https = own.https
            self.host = "{}.{}".format(account, own.host.partition(".")[2])
            if "/" in own.bucket:  # an emulator, which has one account, in the path
                self.host = own.host
                self.bucket = "{}/{}".format(own.bucket.rpartition("/")[0], container)
        self.prefix, self._sas, self.anonymous = "", sas.lstrip("?"), anonymous

    def sign(self, ask: Ask, path: str, query: str) -> Dict[str, str]:
        if self.anonymous:
            return {"Host": self.host, "x-ms-version": VERSION, **dict(ask.headers)}
        return super().sign(ask, path, query)


class _Blob(BlobBucket):
    def __init__(
        self, url: str, env: Mapping[str, str], own: Optional[BlobStore], anonymous: bool
    ) -> None:
        self.url, self.anonymous = url, anonymous
        account, container = url.partition("://")[2].split("/")[:2]
        sas = "" if anonymous else env.get(TOKEN, "")
        login = own.login if own is not None else find_azure(env)
        if not (anonymous or sas or login):
            text = "{}: the job has no identity for it: put {} under secrets, or {}"
            raise Failure(text.format(url, TOKEN, PUBLIC), USAGE)
        self.store = _BlobStore(account, container, own, sas, anonymous)
        self.store.login = None if sas or anonymous else login

    def _checked(self, answer: Answer, key: str) -> Answer:
        missing = answer.status == 404 and b"<Code>ContainerNotFound<" in answer.body
        # A container that is not public looks as if it did not exist.
        hidden = answer.status in (404, 409) and self.anonymous
        if answer.status in (401, 403) or missing or hidden:
            raise _refused(self.url, answer, self.anonymous, "the identity of the job")
        return super()._checked(answer, key)


def _refused(url: str, answer: Answer, anonymous: bool, who: str) -> Failure:
    code = answer.body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode("ascii", "replace")
    status = "{} {}".format(answer.status, code).rstrip()
    why = (
        "it is not public: remove anonymous: true"
        if anonymous
        else "{} has no right to it: see what runspec policy prints".format(who)
    )
    return Failure("{}: {} ({}){}".format(url, why, status, boot.skewed(answer)), USAGE)


def _take_keys(env: Mapping[str, str], url: str) -> None:
    """Let `boot.credentials` find what the program has: keys in its environment or in a file, or the machine's role."""
    keys = {name: env[name] for name in KEYS if env.get(name)}
    roles = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    if KEYS[0] not in keys and not any(map(env.get, roles)):
        keys = _read_shared(env)
    os.environ.update(keys)
    try:
        boot.credentials()
    except (OSError, ValueError, LookupError, HTTPException) as error:
        text = "{}: the job has no credentials of AWS ({}): put {} and {} under secrets, or {}"
        raise Failure(text.format(url, error, KEYS[0], KEYS[1], PUBLIC), USAGE) from None


def _read_shared(env: Mapping[str, str]) -> Dict[str, str]:
    import configparser  # few jobs need it

    path = env.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.expanduser(SHARED_FILE)
    parser = configparser.RawConfigParser()
    try:
        parser.read(path)
        section = dict(parser.items(env.get("AWS_PROFILE") or "default"))
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}
    return {name: section[name.lower()] for name in KEYS if section.get(name.lower())}


def connect(
    url: str, env: Mapping[str, str], own: Optional[Bucket] = None, anonymous: bool = False
) -> Tuple[Bucket, str]:
    """Return the bucket or container of *url*, and the rest of its path.

    *env* is the environment of the program. *own* is the store of the job, whose identity is used if that is in Azure.
    Raise Failure if the job has no identity for it.
    """
    scheme, _, path = url.partition("://")
    if scheme == "s3":
        return _S3(url, env, anonymous), path.partition("/")[2]
    store = own.store if isinstance(own, BlobBucket) else None
    return _Blob(url, env, store, anonymous), "/".join(path.split("/")[2:])


def get(
    mount: Mapping[str, Any], path: str, env: Mapping[str, str], own: Optional[Bucket] = None
) -> None:
    """Download what *mount* names to *path*: all objects below a prefix as a folder, or else the object itself."""
    bucket, prefix = connect(mount["source"], env, own, bool(mount.get("anonymous")))
    below = prefix if not prefix or prefix.endswith("/") else prefix + "/"
    try:
        keys = _files([o.key for o in bucket.listing(below)])
    except Failure:  # of a public container, perhaps only its blobs can be read
        if below == prefix or not mount.get("anonymous"):
            raise
        try:
            _get_one(bucket, prefix, path)
            return
        except Failure:  # the error about the prefix is raised below
            pass
        raise
    if keys:
        parallel.each(lambda key: inputs.get_object(bucket, key, below, path), keys)
        return
    first = None if below == prefix else next(iter(bucket.listing(prefix)), None)
    if first is None or first.key != prefix:
        raise Failure("{}: there is nothing".format(mount["source"]), USAGE)
    _get_one(bucket, prefix, path)


def _get_one(bucket: Bucket, key: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    bucket.get_file(key, path)


def _files(keys: List[str]) -> List[str]:
    """Return the *keys* that are files: consoles and file systems make empty objects for folders."""
    folders = {key[:at] for key in keys for at, letter in enumerate(key) if letter == "/"}
    return [key for key in keys if not key.endswith("/") and key not in folders]


def main(argv: List[str]) -> int:
    """Bring a mount for a job of this machine."""
    import json

    try:
        record, target = argv
    except ValueError:
        raise Failure(USAGE_LINE) from None
    try:
        get(json.loads(record), target, os.environ)
    except (Failure, OSError) as error:
        print("runspec: {}".format(error), file=sys.stderr)
        return USAGE
    return 0
