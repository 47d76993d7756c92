"""Probes of S3: assumptions about conditional writes, signed URLs, lists and multipart uploads."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.awsrequest import AWSRequest
from botocore.exceptions import ClientError
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies

from runspec_agent.base.light_typing import NamedTuple
from runspec_aws.client import AwsClient
from runspec_aws.errors import translated
from runspec_jobs.provider import Request
from runspec_jobs.provider.probe import Observation, ProbeContext, Verdict

AT_ONCE = 8
LISTED = 20
LOST_RACE = (409, 412)


class Reply(NamedTuple):
    """The response to a request that was sent to a signed URL."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def observation(holds: bool, seen: str) -> Observation:
    """Return the observation *seen*, by which an assumption *holds* or is refuted."""
    return Observation(Verdict.CONFIRMED if holds else Verdict.REFUTED, seen)


def folder(client: AwsClient, context: ProbeContext) -> str:
    """Return the key prefix for this session; all objects under it are deleted at the end."""
    bucket, prefix = client.session.bucket, f"{client.files.prefix}/runs/{context.name}/"
    context.note(
        f"objects below s3://{bucket}/{prefix}",
        f"aws s3 rm --recursive s3://{bucket}/{prefix}",
        Request("runspec", "empty_prefix", {"bucket": bucket, "prefix": prefix}),
    )
    return prefix


def status(call: Callable[[], Mapping[str, Any]]) -> int:
    """Return the HTTP status of *call*, also if it is an error."""
    with translated("a probe of S3"):
        try:
            answer = call()
        except ClientError as exc:
            answer = exc.response
    code: int = answer["ResponseMetadata"]["HTTPStatusCode"]
    return code


def put(client: AwsClient, key: str, body: bytes, **more: str) -> int:
    s3, bucket = client.session.make("s3"), client.session.bucket
    return status(lambda: s3.put_object(Bucket=bucket, Key=key, Body=body, **more))


def etag(client: AwsClient, key: str) -> str:
    with translated(f"read the ETag of {key}"):
        answer = client.session.look("s3").head_object(Bucket=client.session.bucket, Key=key)
    return str(answer["ETag"])


def signed(client: AwsClient, access: str) -> str:
    """Return the signed URL that a job gets for *access*, such as `GET key`."""
    url: str = client.files.with_urls({"$signed": access})
    return url


def http(method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Reply:
    """Send a request as a job does: with the URL alone, without credentials."""
    bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE")
    session = URLLib3Session(verify=bundle or True, proxies=get_environ_proxies(url))
    request = AWSRequest(method=method, url=url, headers=dict(headers), data=body)
    try:
        with translated("request a signed URL"):
            answer = session.send(request.prepare())
            return Reply(answer.status_code, answer.headers, answer.content)
    finally:
        session.close()


def put_where_none_is(client: AwsClient, context: ProbeContext) -> Observation:
    key = f"{folder(client, context)}once"
    client.session.make("s3")

    def one(number: int) -> int:
        return put(client, key, b"%d" % number, IfNoneMatch="*")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        codes = sorted(pool.map(one, range(AT_ONCE)))
    later = put(client, key, b"later", IfNoneMatch="*")
    holds = codes.count(200) == 1 and all(code in LOST_RACE for code in codes[1:]) and later == 412
    return observation(holds, f"{AT_ONCE} PUTs at once: {codes}, another one later: {later}")


def put_where_it_is_unchanged(client: AwsClient, context: ProbeContext) -> Observation:
    key = f"{folder(client, context)}swapped"
    put(client, key, b"first")
    first = etag(client, key)
    right = put(client, key, b"second", IfMatch=first)
    wrong = put(client, key, b"third", IfMatch=first)
    return observation(
        (right, wrong) == (200, 412),
        f"PUT with the current ETag: {right}, with an older one: {wrong}",
    )


def put_where_it_was_deleted(client: AwsClient, context: ProbeContext) -> Observation:
    key = f"{folder(client, context)}deleted"
    put(client, key, b"first")
    first = etag(client, key)
    with translated(f"delete {key}"):
        client.session.make("s3").delete_object(Bucket=client.session.bucket, Key=key)
    code = put(client, key, b"second", IfMatch=first)
    return observation(code in (404, *LOST_RACE), f"PUT with the ETag of a deleted object: {code}")


def claim_by_url(client: AwsClient, context: ProbeContext) -> Observation:
    url = signed(client, f"CLAIM {folder(client, context)}claimed")
    codes = [
        http("PUT", url, {"If-None-Match": "*"}, body).status for body in (b"first", b"second")
    ]
    return observation(codes == [200, 412], f"two PUTs to a signed URL: {codes}")


def claim_without_its_header(client: AwsClient, context: ProbeContext) -> Observation:
    url = signed(client, f"CLAIM {folder(client, context)}forced")
    code = http("PUT", url, {}, b"forced").status
    return observation(
        code == 403, f"PUT to a signed URL without the header that was signed: {code}"
    )


def range_by_url(client: AwsClient, context: ProbeContext) -> Observation:
    key = f"{folder(client, context)}range"
    put(client, key, b"0123456789")
    url = signed(client, f"GET {key}")
    reply = http("GET", url, {"Range": "bytes=2-4"})
    holds = (reply.status, reply.body) == (206, b"234")
    host = url.partition("//")[2].partition("/")[0]
    return observation(
        holds, f"{host} answered {reply.status} with {len(reply.body)} bytes, for a range of 3"
    )


def listed_at_once(client: AwsClient, context: ProbeContext) -> Observation:
    prefix = f"{folder(client, context)}listed/"
    late = 0
    for number in range(LISTED):
        put(client, f"{prefix}{number:02}", b"")
        late += len(list(client.files.listing(prefix))) != number + 1
    return observation(
        not late, f"{late} of {LISTED} objects were not listed immediately after they were written"
    )


def parts_by_digest(client: AwsClient, context: ProbeContext) -> Observation:
    key, body = f"{folder(client, context)}parts", b"a part"
    bucket, s3 = client.session.bucket, client.session.make("s3")
    context.note(
        f"a multipart upload of s3://{bucket}/{key}",
        f"aws s3api list-multipart-uploads --bucket {bucket} --prefix {key}",
        Request("runspec", "remove_upload", {"bucket": bucket, "key": key}),
    )
    with translated("a multipart upload"):
        upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        where = {"Bucket": bucket, "Key": key, "UploadId": upload}
        s3.upload_part(**where, PartNumber=1, Body=body)
        begun = s3.list_multipart_uploads(Bucket=bucket, Prefix=key).get("Uploads", ())
        parts = s3.list_parts(**where).get("Parts", ())
    is_listed = any(upload_begun["UploadId"] == upload for upload_begun in begun)
    digest = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
    same = [part["ETag"] for part in parts] == [digest]
    how = "its MD5" if same else "not its MD5 (is the bucket encrypted by KMS?)"
    listed = f"the upload is {'' if is_listed else 'not '}listed"
    return observation(is_listed and same, f"{listed}; the ETag of a part is {how}")
