"""Probes of Blob storage: assumptions about conditional writes, signatures, ranges and lists."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from azure.core import PipelineClient
from azure.core.rest import HttpRequest, HttpResponse

from runspec_azure import store_layout
from runspec_azure.batch.client import AzureClient
from runspec_azure.errors import translated
from runspec_jobs.provider import Request
from runspec_jobs.provider.probe import Observation, ProbeContext, Verdict

AT_ONCE = 8
LISTED = 20
RIGHTS = "racwdl"  # the permissions of a job
LOST_RACE = (409, 412)
BLOCK = {"x-ms-blob-type": "BlockBlob"}


def observation(holds: bool, seen: str) -> Observation:
    """Return the observation of an assumption that *holds* or not."""
    return Observation(Verdict.CONFIRMED if holds else Verdict.REFUTED, seen)


def folder(client: AzureClient, context: ProbeContext) -> str:
    """Return the prefix of the blobs of this session, which are deleted at the end."""
    container, account = client.blobs.options.container, client.blobs.options.storage_account
    prefix = client.blobs.key("runs", context.name, "")
    context.note(
        f"blobs below {prefix} in {container}",
        f"az storage blob delete-batch --source {container} --pattern '{prefix}*' --account-name {account}",
        Request("runspec", "empty_prefix", {"container": container, "prefix": prefix}),
    )
    return prefix


def url_of(client: AzureClient, key: str, rights: str = RIGHTS) -> str:
    """Return the URL of a blob, signed as for a job with *rights*."""
    query = client.signer.with_urls({"$signed": rights})
    return f"{store_layout.endpoint(client.blobs.options)}/{client.blobs.options.container}/{key}?{query}"


def http(method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> HttpResponse:
    """Send a request as a job would: with a URL, without credentials."""
    opened: PipelineClient[HttpRequest, HttpResponse] = PipelineClient(url, policies=[])
    with translated("a signed URL"), opened as client:
        request = HttpRequest(method, url, headers=dict(headers), content=body or None)
        response = client.send_request(request)
        response.read()
        return response


def put(url: str, body: bytes, **conditions: str) -> HttpResponse:
    headers = {**BLOCK, "Content-Length": str(len(body))}
    headers |= {name.replace("_", "-"): value for name, value in conditions.items()}
    return http("PUT", url, headers, body)


def put_where_none_is(client: AzureClient, context: ProbeContext) -> Observation:
    folder(client, context)
    key = client.blobs.key("runs", context.name, "once")

    def one(number: int) -> bool:
        return client.blobs.put_new(key, b"%d" % number)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        count = sum(pool.map(one, range(AT_ONCE)))
    later = client.blobs.put_new(key, b"later")
    return observation(
        (count, later) == (1, False),
        f"{count} of {AT_ONCE} parallel writes succeeded, a later one: {later}",
    )


def claim_by_signature(client: AzureClient, context: ProbeContext) -> Observation:
    url = url_of(client, f"{folder(client, context)}claimed")
    codes = [put(url, body, If_None_Match="*").status_code for body in (b"first", b"second")]
    return observation(
        codes[0] == 201 and codes[1] in LOST_RACE, f"two writes with a signature: {codes}"
    )


def put_where_it_is_unchanged(client: AzureClient, context: ProbeContext) -> Observation:
    url = url_of(client, f"{folder(client, context)}swapped")
    first = put(url, b"first").headers.get("ETag", "")
    right = put(url, b"second", If_Match=first).status_code
    wrong = put(url, b"third", If_Match=first).status_code
    http("DELETE", url, {})
    gone = put(url, b"fourth", If_Match=first).status_code
    holds = (right, wrong) == (201, 412) and gone in (404, *LOST_RACE)
    return observation(
        holds, f"with the ETag {right}, with an older one {wrong}, for a deleted blob {gone}"
    )


def read_alone(client: AzureClient, context: ProbeContext) -> Observation:
    key = f"{folder(client, context)}read"
    put(url_of(client, key), b"first")
    url = url_of(client, key, "r")
    codes = [http("GET", url, {}).status_code, put(url, b"second").status_code]
    return observation(
        codes == [200, 403], f"with a signature to read: GET {codes[0]}, PUT {codes[1]}"
    )


def ranges(client: AzureClient, context: ProbeContext) -> Observation:
    url = url_of(client, f"{folder(client, context)}range")
    put(url, b"0123456789")
    part = http("GET", url, {"Range": "bytes=2-4"})
    holds = (part.status_code, part.content) == (206, b"234")
    return observation(holds, f"{part.status_code} and {len(part.content)} bytes of 3")


def listed_at_once(client: AzureClient, context: ProbeContext) -> Observation:
    prefix, late = f"{folder(client, context)}listed/", 0
    for number in range(LISTED):
        client.blobs.put(f"{prefix}{number:02}", b"")
        late += len(list(client.blobs.listing(prefix))) != number + 1
    return observation(
        not late, f"{late} of {LISTED} blobs were not in a list right after their write"
    )


def blocks_are_no_blob(client: AzureClient, context: ProbeContext) -> Observation:
    url = url_of(client, f"{folder(client, context)}blocks")
    name = base64.b64encode(b"0").decode()
    size = {"Content-Length": "4"}
    http("PUT", f"{url}&comp=block&blockid={quote(name)}", size, b"half")
    before = http("GET", url, {}).status_code
    listed = f"<BlockList><Latest>{name}</Latest></BlockList>".encode()
    http("PUT", f"{url}&comp=blocklist", {"Content-Length": str(len(listed))}, listed)
    after = http("GET", url, {})
    holds = before == 404 and (after.status_code, after.content) == (200, b"half")
    return observation(holds, f"before the block list {before}, after it {after.status_code}")
