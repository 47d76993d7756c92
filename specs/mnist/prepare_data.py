"""Find the pictures to train on: those of a mount, else MNIST, else scikit-learn's digits.

Only the standard library is needed, but for the digits: they are drawn in an environment of their
own, because scikit-learn and Chainer want different versions of NumPy. Either way OUT gets
train.npz and test.npz, with `x` (uint8, pictures by 784 pixels) and `y` (the digit that each picture shows).
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import math
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError

SIDE = 28  # pixels
SETS = ("train", "test")
IDX = {  # pictures, labels
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}

URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MD5 = {  # as published by torchvision, in torchvision/datasets/mnist.py
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}
CONNECT_S = 3.0  # to the first byte of an answer, and between bytes
DOWNLOAD_S = 60.0  # all four files, 11.6 MB
FILE_LIMIT = 32 * 2**20  # bytes; the largest file of MNIST has 9.9 MB

DIGITS_REQUIREMENTS = ("scikit-learn==1.9.1", "numpy==2.4.6", "scipy==1.17.1")
DIGITS_TRAINING = 1500  # of 1797
SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
DIGITS_S = 600.0  # its packages have 60 MB

RANK_WORDS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")  # Open MPI, MPICH, others


class DataError(Exception):
    """There are no pictures to be had this way; the message says why."""


@dataclass(frozen=True)
class Images:
    """One set of pictures: 784 bytes each, row by row, and one byte for the digit it shows."""

    pixels: bytes
    labels: bytes


def first_process(environ: Mapping[str, str]) -> bool:
    """Return whether this is the process that prepares the data for all.

    The launcher's own words are asked, because MPI itself is not up yet. A process that was started
    by hand is the only one.
    """
    return next((environ[word] for word in RANK_WORDS if word in environ), "0") == "0"


def prepare(out: Path, data: Path | None = None, url: str = URL) -> str:
    """Put train.npz and test.npz in *out* and return what the pictures are called.

    *data* is a folder that holds them already; nothing else is tried then. Raises DataError.
    """
    out.mkdir(parents=True, exist_ok=True)
    if data is not None:
        return take_folder(data, out)
    try:
        images = download(url)
    except DataError as exc:
        say(f"MNIST is not used: {exc}")
        say("drawing scikit-learn's digits instead, in an environment of their own")
        run_digits(out)
        return "scikit-learn digits"
    save_all(out, images)
    return "MNIST"


def say(text: str) -> None:
    print(f"prepare_data: {text}", file=sys.stderr, flush=True)


# A folder that holds the data


def take_folder(folder: Path, out: Path) -> str:
    """Bring the data of *folder* to *out* and return what it is called."""
    if all((folder / f"{name}.npz").is_file() for name in SETS):
        copy_npz(folder, out)
        return "train.npz and test.npz as given"
    raw = {name: read_raw(folder, name) for name in MD5}
    save_all(out, unpack_all(raw))
    return "MNIST" if all(is_published(name, raw[name]) for name in MD5) else "idx files as given"


def copy_npz(folder: Path, out: Path) -> None:
    for name in SETS:
        check_npz(folder / f"{name}.npz")
    with complete(out):
        for name in SETS:
            with (
                (folder / f"{name}.npz").open("rb") as source,
                replacing(out / f"{name}.npz") as target,
            ):
                shutil.copyfileobj(source, target)


def check_npz(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
            missing = {"x.npy", "y.npy"} - set(archive.namelist())
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as exc:
        raise DataError(f"{path}: not a whole npz file: {exc}") from exc
    if damaged or missing:
        raise DataError(
            f"{path}: {damaged or min(missing)} is {'damaged' if damaged else 'missing'}"
        )


def read_raw(folder: Path, name: str) -> bytes:
    """Return the bytes of *name*, packed or plain, whichever *folder* has."""
    for path in (folder / f"{name}.gz", folder / name):
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
    raise DataError(
        f"'{folder}' has neither train.npz and test.npz nor MNIST's four files: "
        f"there is no {name}.gz and no {name}"
    )


# MNIST from the network


def download(url: str, seconds: float = DOWNLOAD_S) -> dict[str, Images]:
    """Return MNIST from the folder at *url*, if all four files are whole and as published.

    Raises DataError, at the latest a few moments after *seconds*.
    """
    deadline = time.monotonic() + seconds
    raw = {name: fetch(f"{url.rstrip('/')}/{name}.gz", deadline) for name in MD5}
    for name, body in raw.items():
        if not is_published(name, body):
            raise DataError(f"{url}: {name}.gz has not the published checksum")
    return unpack_all(raw)


def is_published(name: str, raw: bytes) -> bool:
    return hashlib.md5(raw, usedforsecurity=False).hexdigest() == MD5[name]


def fetch(url: str, deadline: float) -> bytes:
    """Return the body at *url*, if it is there before *deadline*, a time of the monotonic clock."""
    if not url.startswith(("https://", "http://")):
        raise DataError(f"{url}: not an http or https address")
    try:
        with get(url) as response:
            return read_body(response, deadline)
    except HTTPError as exc:
        exc.close()  # it is the answer, too, and holds the connection
        raise DataError(f"{url}: {exc}") from exc
    except (OSError, HTTPException) as exc:
        raise DataError(f"{url}: {exc}") from exc


def get(url: str) -> HTTPResponse:
    """Return the answer of *url*, if it begins within CONNECT_S, or raise TimeoutError.

    A time-out for urlopen is not enough: it leaves the look-up of the host's name out, and is spent
    once for every address the host has.
    """
    answer: Future[HTTPResponse] = Future()

    def run() -> None:
        try:
            answer.set_result(urllib.request.urlopen(url, timeout=CONNECT_S))
        except BaseException as exc:  # handed over, and raised by result()
            answer.set_exception(exc)

    threading.Thread(target=run, daemon=True).start()
    try:
        return answer.result(CONNECT_S)
    except TimeoutError as exc:
        answer.add_done_callback(put_away)
        raise TimeoutError(f"no answer in {CONNECT_S:g} s") from exc


def put_away(late: Future[HTTPResponse]) -> None:
    if late.exception() is None:
        late.result().close()


def read_body(response: BinaryIO | HTTPResponse, deadline: float) -> bytes:
    body = bytearray()
    while chunk := response.read(2**16):
        body += chunk
        if len(body) > FILE_LIMIT:
            raise OSError(f"more than {FILE_LIMIT} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("the download takes too long")
    return bytes(body)


# The idx format


def unpack_all(raw: Mapping[str, bytes]) -> dict[str, Images]:
    return {name: pair(raw, *IDX[name]) for name in SETS}


def pair(raw: Mapping[str, bytes], pictures: str, labels: str) -> Images:
    images = Images(
        parse_idx(pictures, unpack(pictures, raw[pictures]), (SIDE, SIDE)),
        parse_idx(labels, unpack(labels, raw[labels]), ()),
    )
    count = len(images.pixels) // SIDE**2
    if count != len(images.labels) or not count:
        raise DataError(f"{pictures} has {count} pictures and {labels} {len(images.labels)} labels")
    if max(images.labels) > 9:
        raise DataError(f"{labels}: {max(images.labels)} is no digit")
    return images


def unpack(name: str, raw: bytes) -> bytes:
    """Return *raw* unpacked, if it is a gzip file."""
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as exc:
        raise DataError(f"{name}: not a whole gzip file: {exc}") from exc


def parse_idx(name: str, data: bytes, item: tuple[int, ...]) -> bytes:
    """Return the values of an idx file of unsigned bytes that holds items of the shape *item*.

    Two zero bytes, 8 for "unsigned byte", the number of dimensions, the size of each as four bytes
    (big-endian), then the values: "THE IDX FILE FORMAT", http://yann.lecun.com/exdb/mnist/.

    >>> parse_idx("labels", bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), ())
    b'\\x07\\t'
    """
    dimensions = 1 + len(item)
    start = 4 + 4 * dimensions
    if data[:4] != bytes([0, 0, 8, dimensions]) or len(data) < start:
        raise DataError(f"{name}: not an idx file of unsigned bytes in {dimensions} dimensions")
    count, *shape = struct.unpack_from(f">{dimensions}I", data, 4)
    if tuple(shape) != item:
        raise DataError(f"{name}: the items are {tuple(shape)}, not {item}")
    expected = count * math.prod(item)
    if len(data) - start != expected:
        raise DataError(
            f"{name}: {len(data) - start} bytes of values, and its header says {expected}"
        )
    return data[start:]


# The npz format


def save_all(out: Path, images: Mapping[str, Images]) -> None:
    with complete(out):
        for name in SETS:
            save_npz(out / f"{name}.npz", images[name])


@contextlib.contextmanager
def complete(out: Path) -> Iterator[None]:
    """Take away what is in *out* first: a crash must not leave one old file and one new."""
    for name in SETS:
        (out / f"{name}.npz").unlink(missing_ok=True)
    yield


def save_npz(path: Path, images: Images) -> None:
    """Write *images* the way numpy.savez would, without NumPy."""
    with replacing(path) as target, zipfile.ZipFile(target, "w") as archive:
        archive.writestr(
            zipfile.ZipInfo("x.npy"), npy(images.pixels, (len(images.labels), SIDE**2))
        )
        archive.writestr(zipfile.ZipInfo("y.npy"), npy(images.labels, (len(images.labels),)))


def npy(values: bytes, shape: tuple[int, ...]) -> bytes:
    """Return an array of unsigned bytes as an npy file, as numpy.lib.format describes it.

    >>> npy(b"ab", (2,))[:10]
    b'\\x93NUMPY\\x01\\x00v\\x00'
    """
    header = repr({"descr": "|u1", "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + values


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that becomes *path* only when it is whole and on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


# scikit-learn's digits


def run_digits(out: Path) -> None:
    """Draw the digits with this same file, in an environment that has scikit-learn."""
    command, env = digits_command(find_uv(), out), dict(os.environ)
    if SYSTEM_BUNDLE.exists():  # trusted by Python, which gets MNIST, but not by uv
        env.setdefault("UV_SYSTEM_CERTS", "1")
    try:
        subprocess.run(command, stdout=sys.stderr, timeout=DIGITS_S, check=True, env=env)
    except (OSError, subprocess.SubprocessError) as exc:
        raise DataError(f"scikit-learn's digits cannot be drawn: {exc}") from exc


def find_uv() -> str:
    """Return the uv of this Python's own environment, else the one on PATH."""
    found = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if found is None:
        raise DataError(
            "scikit-learn's digits cannot be drawn: there is no uv beside Python and none on PATH"
        )
    return found


def digits_command(uv: str, out: Path) -> list[str]:
    environment = [word for requirement in DIGITS_REQUIREMENTS for word in ("--with", requirement)]
    run = [
        uv,
        "run",
        "--quiet",
        "--no-project",
        "--isolated",
        "--python",
        sys.executable,
        *environment,
    ]
    return [*run, "python", "-I", str(Path(__file__).resolve()), "--digits", str(out.resolve())]


def draw_digits() -> dict[str, Images]:
    """Return scikit-learn's 1797 digits (8 by 8 pixels, 17 shades) in MNIST's size and shades."""
    import numpy as np  # these two are only in the environment that run_digits makes
    from sklearn.datasets import load_digits

    digits = load_digits()
    large = np.kron(digits.images, np.ones((3, 3)))  # 24 by 24
    pixels = np.pad(large, ((0, 0), (2, 2), (2, 2))) * (255 / 16)
    # The last pictures are by other people than the first: they are shuffled, always the same way.
    order = np.random.RandomState(0).permutation(len(pixels))
    parts = dict(zip(SETS, np.split(order, [DIGITS_TRAINING]), strict=True))
    return {
        name: Images(
            pixels[part].astype(np.uint8).tobytes(), digits.target[part].astype(np.uint8).tobytes()
        )
        for name, part in parts.items()
    }


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "out", metavar="OUT", type=Path, help="the folder that gets train.npz and test.npz"
    )
    add_source_arguments(parser)
    parser.add_argument(
        "--digits", action="store_true", help="draw scikit-learn's digits, with this very Python"
    )
    return parser.parse_args(argv)


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where the pictures come from: the training has them, too."""
    url = os.environ.get("MNIST_URL", URL)
    parser.add_argument(
        "--data", type=Path, help="a folder that has train.npz and test.npz, or MNIST's four files"
    )
    parser.add_argument(
        "--mnist-url", default=url, help="where to look for MNIST; also MNIST_URL (%(default)s)"
    )


def main(argv: Sequence[str] | None = None) -> int:
    args = parse_arguments(argv)
    if args.digits:
        save_all(args.out, draw_digits())
        return 0
    try:
        print(prepare(args.out, args.data, args.mnist_url))
    except DataError as exc:
        say(str(exc))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
