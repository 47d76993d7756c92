"""The data of the Chainer example is whole and right, or not used. None of it needs Chainer."""

from __future__ import annotations

import ast
import contextlib
import gzip
import hashlib
import http.server
import importlib.util
import re
import socket
import struct
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.root import ROOT

SCRIPT = ROOT / "specs" / "mnist" / "prepare_data.py"


def load_script() -> ModuleType:
    """Import the script, which is in no package, and leave nothing beside it: jobs send it all."""
    spec = importlib.util.spec_from_file_location("prepare_data", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prepare_data"] = module  # dataclasses look their module up
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


prepare_data: Any = load_script()
DataError = prepare_data.DataError

PICTURE = bytes(range(256)) * 3 + bytes(16)  # 784 pixels
COUNTS = {"train": 3, "test": 2}


def idx(item: tuple[int, ...], values: bytes, count: int) -> bytes:
    sizes = (count, *item)
    return bytes([0, 0, 8, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + values


def small_mnist() -> dict[str, bytes]:
    files = {}
    for part, (pictures, labels) in prepare_data.IDX.items():
        count = COUNTS[part]
        files[pictures] = gzip.compress(idx((28, 28), PICTURE * count, count))
        files[labels] = gzip.compress(idx((), bytes(range(count)), count))
    return files


@pytest.fixture
def mnist(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Four small packed files that are MNIST, as far as the checksums are concerned."""
    files = small_mnist()
    for name, body in files.items():
        monkeypatch.setitem(prepare_data.MD5, name, hashlib.md5(body).hexdigest())
    return files


Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class Mirror:
    """A web server on loopback: its answers by path, and the paths it was asked for, in order."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.asked.append(self.path)
                answer = mirror.answers.get(self.path)
                answer(self) if answer else self.send_error(404)

            def log_message(self, *args: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/mnist/"

    def serve(self, files: Mapping[str, bytes]) -> None:
        for name, body in files.items():
            self.answers[f"/mnist/{name}.gz"] = whole(body)


def whole(body: bytes, length: int | None = None) -> Answer:
    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(body) if length is None else length))
        request.end_headers()
        request.wfile.write(body)

    return answer


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    mirror = Mirror()
    threading.Thread(target=mirror.server.serve_forever, args=(0.01,), daemon=True).start()
    yield mirror
    mirror.server.shutdown()
    mirror.server.server_close()


class Uv:
    """A uv that draws no digits: it notes what it was asked and leaves two files that say so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "uv"

    def install(self, code: int = 0) -> None:
        asked, out = self.folder / "asked", '"${last}"'
        self.path.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > "{asked}"\nfor last; do :; done\n'
            f"echo digits > {out}/train.npz\necho digits > {out}/test.npz\nexit {code}\n"
        )
        self.path.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        asked = self.folder / "asked"
        return asked.read_text().splitlines() if asked.exists() else []


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Uv:
    folder = tmp_path / "environment"
    folder.mkdir()
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    uv = Uv(folder)
    uv.install()
    return uv


def read_npz(path: Path) -> dict[str, tuple[dict[str, Any], bytes]]:
    """Every array's header and bytes, read by the words of the format's description."""
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            assert data[:8] == b"\x93NUMPY\x01\x00"
            end = 10 + int.from_bytes(data[8:10], "little")
            assert (end % 64, data[end - 1 : end]) == (0, b"\n")
            arrays[name] = (ast.literal_eval(data[10:end].decode()), data[end:])
    return arrays


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Who


@pytest.mark.parametrize(
    "environ, first",
    [
        ({}, True),
        ({"OMPI_COMM_WORLD_RANK": "0"}, True),
        ({"OMPI_COMM_WORLD_RANK": "1"}, False),
        ({"PMI_RANK": "0"}, True),
        ({"PMI_RANK": "12"}, False),
        ({"PMIX_RANK": "1"}, False),
    ],
)
def test_one_process_alone_prepares_the_data(environ: dict[str, str], first: bool) -> None:
    """The launcher's words say which it is, before there is any MPI."""
    assert prepare_data.first_process(environ) is first


# The idx format


def test_idx_values_are_what_follows_the_header() -> None:
    """Labels have one dimension, pictures three."""
    assert prepare_data.parse_idx("labels", idx((), b"\x07\x09", 2), ()) == b"\x07\x09"
    assert (
        prepare_data.parse_idx("pictures", idx((28, 28), PICTURE * 2, 2), (28, 28)) == PICTURE * 2
    )


@pytest.mark.parametrize(
    "data, what",
    [
        (b"", "not an idx file"),
        (b"<html>not here</html>", "not an idx file"),
        (bytes([0, 0, 13, 3]) + bytes(12), "not an idx file"),  # floats
        (idx((), b"\x07", 1), "not an idx file"),  # labels where pictures belong
        (bytes([0, 0, 8, 3, 0, 0, 0, 1]), "not an idx file"),  # the header's half
        (idx((20, 20), bytes(400), 1), r"\(20, 20\)"),
        (idx((28, 28), PICTURE, 2), "784 bytes of values, and its header says 1568"),
        (idx((28, 28), PICTURE + b"\0", 1), "785 bytes"),
    ],
)
def test_what_is_no_whole_idx_file_is_refused(data: bytes, what: str) -> None:
    """The header must say unsigned bytes, the right shape, and as many values as there are."""
    with pytest.raises(DataError, match=f"pictures: .*{what}"):
        prepare_data.parse_idx("pictures", data, (28, 28))


def test_a_gzip_file_cut_anywhere_is_refused() -> None:
    """Not one prefix of a packed file passes for the file."""
    labels = prepare_data.IDX["train"][1]
    packed = small_mnist()[labels]

    for length in range(len(packed)):
        with pytest.raises(DataError):
            prepare_data.parse_idx(labels, prepare_data.unpack(labels, packed[:length]), ())


@pytest.mark.parametrize(
    "pictures, labels, what",
    [
        (2, b"\x01", "2 pictures and .* 1 labels"),
        (0, b"", "0 pictures"),
        (1, b"\x0a", "10 is no digit"),
    ],
)
def test_pictures_and_labels_must_fit(pictures: int, labels: bytes, what: str) -> None:
    """One label a picture, all of them digits, and at least one."""
    raw = {"p": idx((28, 28), PICTURE * pictures, pictures), "l": idx((), labels, len(labels))}

    with pytest.raises(DataError, match=what):
        prepare_data.pair(raw, "p", "l")


# The npz format


def test_an_npz_file_holds_pictures_and_labels(tmp_path: Path) -> None:
    """Its x is pictures by 784 pixels and y one number each, both unsigned bytes."""
    prepare_data.save_npz(tmp_path / "train.npz", prepare_data.Images(PICTURE * 2, b"\x07\x09"))

    header = {"descr": "|u1", "fortran_order": False}
    assert read_npz(tmp_path / "train.npz") == {
        "x.npy": ({**header, "shape": (2, 784)}, PICTURE * 2),
        "y.npy": ({**header, "shape": (2,)}, b"\x07\x09"),
    }


def test_the_same_pictures_give_the_same_bytes(tmp_path: Path) -> None:
    """No clock goes into the file."""
    images = prepare_data.Images(PICTURE, b"\x07")
    for name in "ab":
        prepare_data.save_npz(tmp_path / name, images)

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    """A file gets its name when it is whole."""
    path = tmp_path / "train.npz"
    path.write_bytes(b"old")

    with pytest.raises(TypeError), prepare_data.replacing(path) as file:
        file.writelines([b"new, half of it", None])

    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["train.npz"]


def test_an_old_file_never_stays_beside_a_new_one(tmp_path: Path) -> None:
    """A crash between the two files leaves no pair that looks whole."""
    images = prepare_data.Images(PICTURE, b"\x07")
    prepare_data.save_all(tmp_path, {"train": images, "test": images})

    with pytest.raises(KeyError):
        prepare_data.save_all(tmp_path, {"train": images})

    assert names(tmp_path) == ["train.npz"]


# MNIST from the network


@pytest.mark.process
def test_mnist_is_used_when_it_can_be_had(
    mirror: Mirror, mnist: dict[str, bytes], uv: Uv, tmp_path: Path
) -> None:
    """All four files there, whole and right: no second environment is made."""
    mirror.serve(mnist)

    name = prepare_data.prepare(tmp_path / "out", url=mirror.url)

    assert name == "MNIST"
    assert names(tmp_path / "out") == ["test.npz", "train.npz"]
    assert read_npz(tmp_path / "out" / "train.npz")["x.npy"][1] == PICTURE * 3
    assert read_npz(tmp_path / "out" / "test.npz")["y.npy"][1] == bytes([0, 1])
    assert uv.asked == []


def repacked(body: bytes) -> bytes:
    return gzip.compress(gzip.decompress(body), 1, mtime=1)


def redirect(request: http.server.BaseHTTPRequestHandler) -> None:
    request.send_response(302)
    request.send_header("Location", "file:///etc/hostname")
    request.end_headers()


FIRST = "train-images-idx3-ubyte"
LAST = "t10k-labels-idx1-ubyte"


@pytest.mark.process
@pytest.mark.parametrize(
    "answer, why",
    [
        pytest.param(lambda body: whole(body[:-1] + b"?"), "checksum", id="changed"),
        pytest.param(lambda body: whole(body + b"\0"), "checksum", id="longer"),
        pytest.param(lambda body: whole(b""), "checksum", id="empty"),
        pytest.param(lambda body: whole(body[:-4], len(body)), "checksum|Incomplete", id="cut"),
        pytest.param(lambda body: whole(repacked(body)), "checksum", id="packed by another"),
        pytest.param(lambda body: lambda request: request.send_error(404), "404", id="missing"),
        pytest.param(lambda body: lambda request: request.send_error(503), "503", id="overloaded"),
        pytest.param(lambda body: lambda request: None, "closed connection", id="hung up"),
        pytest.param(lambda body: redirect, "file:", id="elsewhere"),
    ],
)
def test_one_file_that_is_not_right_means_no_mnist_at_all(
    answer: Callable[[bytes], Answer],
    why: str,
    mirror: Mirror,
    mnist: dict[str, bytes],
    uv: Uv,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The digits are drawn, the reason is on stderr, and nothing of what came is kept."""
    monkeypatch.setattr(prepare_data, "CONNECT_S", 30.0)
    mirror.serve(mnist)
    mirror.answers[f"/mnist/{LAST}.gz"] = answer(mnist[LAST])

    name = prepare_data.prepare(tmp_path / "out", url=mirror.url)

    assert name == "scikit-learn digits"
    assert (tmp_path / "out" / "train.npz").read_text() == "digits\n"
    assert names(tmp_path / "out") == ["test.npz", "train.npz"]
    assert mirror.asked[-1] == f"/mnist/{LAST}.gz"
    out, err = capfd.readouterr()
    assert out == ""
    reason = err.splitlines()[0]
    assert reason.startswith(f"prepare_data: MNIST is not used: {mirror.url}")
    assert re.search(why, reason)


@pytest.mark.process
def test_a_mirror_that_does_not_answer_is_left(
    mirror: Mirror,
    uv: Uv,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It takes the connection and says nothing."""
    monkeypatch.setattr(prepare_data, "CONNECT_S", 0.2)
    over = threading.Event()

    def wait(request: http.server.BaseHTTPRequestHandler) -> None:
        over.wait()

    mirror.answers[f"/mnist/{FIRST}.gz"] = wait

    name = prepare_data.prepare(tmp_path / "out", url=mirror.url)
    over.set()

    assert name == "scikit-learn digits"
    assert re.search("no answer in 0.2 s|timed out", capfd.readouterr().err)


def test_a_name_server_that_does_not_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-up of a name has no time-out of its own."""
    monkeypatch.setattr(prepare_data, "CONNECT_S", 0.2)
    over = threading.Event()

    def look_up(*args: object, **kwargs: object) -> None:
        over.wait()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    with pytest.raises(DataError, match=r"no answer in 0\.2 s"):
        prepare_data.download("https://mirror.invalid/")
    over.set()


@pytest.mark.process
def test_a_mirror_that_never_ends_is_left(mirror: Mirror) -> None:
    """No single wait is long, but all of them together are."""

    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        with contextlib.suppress(OSError):
            while True:
                request.wfile.write(b"\x1f" * 2**20)
                time.sleep(0.02)

    mirror.answers[f"/mnist/{FIRST}.gz"] = drip

    with pytest.raises(DataError, match="the download takes too long"):
        prepare_data.download(mirror.url, seconds=0.2)


@pytest.mark.process
def test_a_mirror_that_sends_too_much_is_left(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of MNIST is that large."""
    monkeypatch.setattr(prepare_data, "FILE_LIMIT", 1000)
    mirror.answers[f"/mnist/{FIRST}.gz"] = whole(bytes(1001))

    with pytest.raises(DataError, match="more than 1000 bytes"):
        prepare_data.download(mirror.url)


@pytest.mark.process
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "file:///etc/", "no address"])
def test_without_a_mirror_the_digits_are_drawn(url: str, uv: Uv, tmp_path: Path) -> None:
    """Nobody listens, or the address is none: the training runs all the same."""
    assert prepare_data.prepare(tmp_path / "out", url=url) == "scikit-learn digits"


def test_the_checksums_are_of_the_four_files() -> None:
    """No file is fetched that is not used, and none used that is not checked."""
    assert sorted(prepare_data.MD5) == sorted(
        name for pair in prepare_data.IDX.values() for name in pair
    )
    assert {len(checksum) for checksum in prepare_data.MD5.values()} == {32}


# scikit-learn's digits


@pytest.mark.process
def test_the_digits_are_drawn_in_an_environment_of_their_own(uv: Uv, tmp_path: Path) -> None:
    """Pinned packages, nothing of a project or this environment, the same Python and file."""
    prepare_data.run_digits(tmp_path)

    assert uv.asked[:5] == ["run", "--quiet", "--no-project", "--isolated", "--python"]
    assert uv.asked[5] == sys.executable
    assert [uv.asked[at + 1] for at, word in enumerate(uv.asked) if word == "--with"] == list(
        prepare_data.DIGITS_REQUIREMENTS
    )
    assert all("==" in requirement for requirement in prepare_data.DIGITS_REQUIREMENTS)
    assert uv.asked[-5:] == ["python", "-I", str(SCRIPT), "--digits", str(tmp_path)]


@pytest.mark.process
@pytest.mark.parametrize(
    ("there", "given", "trusted"), [(True, None, "1"), (True, "0", "0"), (False, None, "-")]
)
def test_uv_trusts_the_bundle_of_the_system(
    there: bool,
    given: str | None,
    trusted: str,
    uv: Uv,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prepare_data, "SYSTEM_BUNDLE", uv.path if there else tmp_path / "none")
    monkeypatch.delenv("UV_SYSTEM_CERTS", raising=False)
    if given is not None:
        monkeypatch.setenv("UV_SYSTEM_CERTS", given)
    script = uv.path.read_text()
    uv.path.write_text(script.replace("\n", '\necho "${UV_SYSTEM_CERTS--}" > "$0.trusts"\n', 1))

    prepare_data.run_digits(tmp_path)

    assert Path(f"{uv.path}.trusts").read_text() == f"{trusted}\n"


def test_uv_beside_python_comes_before_the_one_on_path(
    uv: Uv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requirements pin one; PATH may have any."""
    other = tmp_path / "path"
    other.mkdir()
    (other / "uv").write_text("")
    (other / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))

    assert prepare_data.find_uv() == str(uv.path)
    uv.path.unlink()
    assert prepare_data.find_uv() == str(other / "uv")


def test_without_uv_there_is_an_error(
    uv: Uv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what is missing."""
    uv.path.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(DataError, match="no uv beside Python and none on PATH"):
        prepare_data.prepare(tmp_path / "out", url="http://127.0.0.1:1/")


@pytest.mark.process
def test_a_failing_uv_is_an_error(uv: Uv, tmp_path: Path) -> None:
    """Nothing is trained on what it left behind."""
    uv.install(code=3)

    with pytest.raises(DataError, match="exit status 3"):
        prepare_data.prepare(tmp_path / "out", url="http://127.0.0.1:1/")


# A folder that holds the data


@pytest.fixture
def given(tmp_path: Path) -> Path:
    folder = tmp_path / "given"
    folder.mkdir()
    return folder


@pytest.mark.process
@pytest.mark.parametrize("packed", [True, False])
def test_the_four_files_of_a_folder_are_used_packed_or_plain(
    packed: bool, given: Path, tmp_path: Path, mirror: Mirror, uv: Uv
) -> None:
    """They need only be whole; what is not MNIST is not called so. Nobody else is asked."""
    for name, body in small_mnist().items():
        (given / (f"{name}.gz" if packed else name)).write_bytes(
            body if packed else gzip.decompress(body)
        )

    name = prepare_data.prepare(tmp_path / "out", given, mirror.url)

    assert name == "idx files as given"
    assert read_npz(tmp_path / "out" / "train.npz")["x.npy"][1] == PICTURE * 3
    assert (mirror.asked, uv.asked) == ([], [])


def test_mnist_in_a_folder_is_called_mnist(
    given: Path, tmp_path: Path, mnist: dict[str, bytes]
) -> None:
    """The checksums tell."""
    for name, body in mnist.items():
        (given / f"{name}.gz").write_bytes(body)

    assert prepare_data.prepare(tmp_path / "out", given) == "MNIST"


def test_npz_files_of_a_folder_are_used_as_they_are(given: Path, tmp_path: Path) -> None:
    """What one run prepared another can mount."""
    images = prepare_data.Images(PICTURE, b"\x07")
    prepare_data.save_all(given, {"train": images, "test": images})

    name = prepare_data.prepare(tmp_path / "out", given)

    assert name == "train.npz and test.npz as given"
    assert (tmp_path / "out" / "test.npz").read_bytes() == (given / "test.npz").read_bytes()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda body: body[:-1], id="cut"),
        pytest.param(lambda body: body.replace(b"\xfe\xff", b"??"), id="changed"),
        pytest.param(lambda body: b"", id="empty"),
    ],
)
def test_a_damaged_npz_file_is_refused(
    damage: Callable[[bytes], bytes], given: Path, tmp_path: Path
) -> None:
    """Cut, changed in the middle, or empty."""
    images = prepare_data.Images(PICTURE, b"\x07")
    prepare_data.save_all(given, {"train": images, "test": images})
    (given / "test.npz").write_bytes(damage((given / "test.npz").read_bytes()))

    with pytest.raises(DataError, match=r"test\.npz"):
        prepare_data.prepare(tmp_path / "out", given)
    assert names(tmp_path / "out") == []


@pytest.mark.process
def test_a_folder_without_the_data_is_an_error(
    given: Path, tmp_path: Path, mirror: Mirror, uv: Uv
) -> None:
    """Who names a folder does not want other pictures instead."""
    with pytest.raises(DataError, match=r"neither train\.npz and test\.npz nor MNIST's four files"):
        prepare_data.prepare(tmp_path / "out", given, mirror.url)
    assert (mirror.asked, uv.asked) == ([], [])


@pytest.mark.process
def test_a_folder_with_a_cut_file_is_an_error(
    given: Path, tmp_path: Path, mirror: Mirror, uv: Uv
) -> None:
    """A copy that was interrupted is not trained on, nor replaced."""
    for name, body in small_mnist().items():
        (given / f"{name}.gz").write_bytes(body[:-9] if name == LAST else body)

    with pytest.raises(DataError, match=f"{LAST}: not a whole gzip file"):
        prepare_data.prepare(tmp_path / "out", given, mirror.url)
    assert (mirror.asked, uv.asked) == ([], [])


# The command


@pytest.mark.process
def test_the_command_prints_what_the_data_is(
    mirror: Mirror,
    mnist: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """MNIST_URL says where to look."""
    mirror.serve(mnist)
    monkeypatch.setenv("MNIST_URL", mirror.url)

    code = prepare_data.main([str(tmp_path / "out")])

    assert (code, capsys.readouterr().out) == (0, "MNIST\n")


def test_the_command_fails_when_there_is_no_data(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr, none on stdout."""
    code = prepare_data.main([str(tmp_path / "out"), "--data", str(given)])

    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert err.startswith("prepare_data: ")
    assert err.count("\n") == 1
