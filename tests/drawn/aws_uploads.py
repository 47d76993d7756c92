"""Folders on their way into the bucket: they are sent in parts, and what was cut off is taken up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple
from xml.etree import ElementTree

from hypothesis import strategies as st

from runspec_aws.store import multipart
from runspec_jobs.load.bundle import bundle
from runspec_jobs.provider import Bundle, Request, RunspecError
from runspec_jobs.provider.streams.tar_stream import tar_blocks
from tests.drawn.aws_account import BUCKET, Account
from tests.drawn.aws_cases import Case, Place, pages, worlds
from tests.drawn.aws_errors import refusals
from tests.drawn.aws_truths import part_of

SIZE = 10_000
KEY = "p/blobs/x"
PUT = Request("s3", "put_object", {"Bucket": BUCKET, "Key": KEY, "Body": {}})
SPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Sent(NamedTuple):
    """A folder as it went: the tar in pieces, the parts by their numbers, and what they were put together from."""

    pieces: Mapping[int, bytes]
    parts: Mapping[int, bytes]
    together: list[tuple[int, str]]


def folder(place: Place) -> Bundle:
    path = place.folder / "data"
    path.mkdir(exist_ok=True)
    (path / "f").write_bytes(bytes(range(250)) * (SIZE // 250))
    return bundle(path)


def pieces_of(made: Bundle) -> dict[int, bytes]:
    whole = tar_blocks(made, lambda done, whole: None)
    parts = multipart.parts(whole, multipart.LEAST_BYTES)
    return {number: bytes(part) for number, part in enumerate(parts, 1)}


def stage(place: Place, made: Bundle) -> None:
    place.client.stage(PUT, made, lambda done, whole: None)


def sent(account: Account, pieces: Mapping[int, bytes]) -> Sent:
    """Return what the service has by now, of what it was sent."""
    parts = account.called("UploadPart")
    last = [call.params["body"] for call in account.called("CompleteMultipartUpload")][-1:]
    return Sent(
        pieces,
        {int(call.params["partNumber"]): call.params["body"] for call in parts},
        [pair for body in last for pair in named(body)],
    )


def named(body: bytes) -> Iterator[tuple[int, str]]:
    """Yield the parts that a CompleteMultipartUpload names."""
    for part in ElementTree.fromstring(body):
        said = {one.tag.removeprefix(SPACE): one.text or "" for one in part}
        yield int(said["PartNumber"]), said["ETag"]


def large(place: Place) -> Sent:
    made = folder(place)
    pieces = pieces_of(made)
    stage(place, made)
    return sent(place.account, pieces)


def taken_up(place: Place) -> Sent:
    """Put a folder of which some parts are there, and others with other bytes."""
    made = folder(place)
    pieces = pieces_of(made)
    right = {str(number): data for number, data in pieces.items()}
    wrong = {f"{number}x": data[::-1] for number, data in pieces.items()}
    place.account.world = replace(place.account.world, files={**right, **wrong})
    stage(place, made)
    return sent(place.account, pieces)


def whole(account: Account, found: Sent) -> bool:
    """Say whether all of a folder was put together: each part as it is, sent now or there before."""
    there = {name for page in account.world.parts for name in page}
    tags = []
    for number, data in found.pieces.items():
        if number not in found.parts and str(number) not in there:
            return False
        if found.parts.get(number, data) != data:
            return False
        tags.append((number, '"p"' if number in found.parts else part_of(number, data)["ETag"]))
    done = "CompleteMultipartUpload" in account.done
    return done and sorted(found.together) == tags == found.together


def given_up(place: Place) -> bool:
    """Put a folder that changes meanwhile: that is said, however the aborting of the upload goes."""
    made = folder(place)
    (place.folder / "data" / "f").write_bytes(b"less")
    try:
        stage(place, made)
    except RunspecError:
        return "CompleteMultipartUpload" not in place.account.done
    return False


def right_end(account: Account, found: bool) -> bool:
    return found


ABORT = frozenset({"", *(one.code for one in refusals("s3", "AbortMultipartUpload"))})
NEW = worlds(pages=st.just(((),)))
BEGUN = worlds(
    pages=st.just((("1",),)), parts=pages("1", "2") | pages("1x", "3") | pages("2") | pages()
)


def cases() -> Iterator[Case]:
    for operation in ("CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"):
        yield Case(operation, "apply", large, whole, NEW)
    yield Case("AbortMultipartUpload", "apply", given_up, right_end, NEW, around=ABORT)
    for operation in ("ListParts", "UploadPart", "CompleteMultipartUpload"):
        yield Case(operation, "apply again", taken_up, whole, BEGUN)


UPLOADS = {case.name: case for case in cases()}
