"""Files of `https://` sources: whole and the right ones, from no other kind of address, and once."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runspec_agent.base import boot
from runspec_jobs.cli.app import run
from runspec_jobs.errors import UsageError
from runspec_jobs.state import downloads as subject
from runspec_jobs.state.downloads import download
from tests.support import certificates
from tests.support.http_server import ReceivedRequest, Reply, Server

pytestmark = pytest.mark.process
CONTENT = os.urandom(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server whose certificate is trusted here; loopback addresses stand for those of other machines."""
    certificate = certificates.made(tmp_path)
    monkeypatch.setenv("RUNSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(boot, "tls_contexts", [certificate.trusted()])
    monkeypatch.setattr(subject, "PAUSE_S", 0.0)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate.shown, certificate.key)
    with Server(lambda _: Reply(200, body=CONTENT), tls) as found:
        yield found


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "refuse_address", lambda url, host: None)


def get(server: Server, path: str = "/a.csv", sha256: str = SHA256) -> Path:
    return download(f"https://localhost:{server.port}{path}", sha256, lambda done, whole: None)


def refused(server: Server, *words: str, sha256: str = SHA256) -> None:
    with pytest.raises(UsageError) as told:
        get(server, sha256=sha256)
    text = f"{told.value.message} / {told.value.hint}"
    assert all(word in text for word in words), text


@pytest.mark.usefixtures("elsewhere")
def test_a_file_is_downloaded_once(server: Server) -> None:
    assert get(server).read_bytes() == CONTENT
    assert get(server).read_bytes() == CONTENT
    assert len(server.asked) == 1


@pytest.mark.usefixtures("elsewhere")
def test_another_file_is_refused_and_not_kept(server: Server) -> None:
    other = "0" * 64

    refused(server, f"its sha256 is {SHA256}", "correct sha256", sha256=other)
    refused(server, f"its sha256 is {SHA256}", sha256=other)

    assert not [path for path in subject.find_folder().iterdir() if path.stat().st_size]


def in_pieces(most: int) -> Callable[[ReceivedRequest], Reply]:
    """Answer with at most so many bytes, as if the connection broke then."""

    def answer(request: ReceivedRequest) -> Reply:
        begin = int(request.headers.get("range", "bytes=0-")[6:-1])
        rest = CONTENT[begin:]
        return Reply(206 if begin else 200, body=rest, sent=most)

    return answer


@pytest.mark.usefixtures("elsewhere")
def test_an_interrupted_download_is_continued(server: Server) -> None:
    server.answering = in_pieces(120_000)

    assert get(server).read_bytes() == CONTENT
    assert [r.headers.get("range") for r in server.asked] == [
        None,
        "bytes=120000-",
        "bytes=240000-",
    ]


@pytest.mark.usefixtures("elsewhere")
def test_the_next_command_continues_too(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answering = in_pieces(120_000)
    monkeypatch.setattr(subject, "TRIES", 1)
    refused(server, "cannot be downloaded: the server closed the connection")
    monkeypatch.setattr(subject, "TRIES", 2)

    assert get(server).read_bytes() == CONTENT


@pytest.mark.usefixtures("elsewhere")
def test_a_file_may_be_at_another_https_address_alone(server: Server) -> None:
    def answer(request: ReceivedRequest) -> Reply:
        where = {"/a.csv": "/b.csv", "/b.csv": "http://localhost/c"}
        if request.target == "/d.csv":
            return Reply(200, body=CONTENT)
        return Reply(302, {"Location": where.get(request.target, "/d.csv")})

    server.answering = answer

    refused(server, "leads to http://localhost/c, which is not https")
    assert get(server, "/c.csv").read_bytes() == CONTENT
    server.answering = lambda _: Reply(302, {"Location": "/a.csv"})
    refused(server, "leads on more than 5 times", sha256="1" * 64)


@pytest.mark.usefixtures("elsewhere")
def test_a_status_is_named_and_repeated_only_if_it_passes(server: Server) -> None:
    server.answering = lambda _: Reply(404)
    refused(server, "the server answers 404")
    assert len(server.asked) == 1

    server.answering = lambda _: Reply(503)
    refused(server, "the server answers 503")
    assert len(server.asked) == 1 + subject.TRIES


@pytest.mark.usefixtures("elsewhere")
def test_a_file_that_comes_slowly_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "WHOLE_S", -1.0)
    refused(server, "it takes longer than")
    assert len(server.asked) == 1


@pytest.mark.usefixtures("elsewhere")
def test_a_file_above_the_limit_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "MOST_GIB", 0)
    refused(server, "is larger than", "store://")


def test_a_name_of_this_machine_is_asked_for_nothing(server: Server) -> None:
    """What a name leads to is known when it is connected, and nothing is sent before."""
    refused(server, "leads to 127.0.0.1, which is no server of files")

    assert server.asked == []


@pytest.mark.parametrize(
    ("host", "is_refused"),
    [
        ("169.254.169.254", True),
        ("[fe80::1]", True),
        ("[::ffff:169.254.169.254]", True),
        ("168.63.129.16", True),
        ("fd00:ec2::254", True),
        ("127.9.9.9", True),
        ("0.0.0.0", True),
        ("10.0.0.1", False),
        ("192.0.2.1", False),
        ("data.example", False),
    ],
)
def test_services_of_machines_are_no_servers_of_files(host: str, is_refused: bool) -> None:
    """Servers of an organisation may have private addresses."""
    try:
        subject.refuse_address("https://x", host)
    except UsageError:
        assert is_refused
    else:
        assert not is_refused


@pytest.mark.usefixtures("elsewhere")
def test_a_job_reads_the_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"https://localhost:{server.port}/a.csv"
    job = {
        "apiVersion": "runspec/v1",
        "name": "url",
        "provider": "local",
        "mounts": [{"name": "a", "source": url, "sha256": SHA256, "target": "/job/a.csv"}],
        "outputs": [{"name": "out", "path": "/out"}],
        "run": "sha256sum <${mounts.a} >${outputs.out}/sum",
    }
    Path("job.yaml").write_text(json.dumps(job))

    assert run(["apply", "job.yaml"]) == 0
    assert run(["fetch", "url", "out"]) == 0

    (found,) = [path.read_text() for path in Path("out").rglob("sum") if path.is_file()]
    assert found.split()[0] == SHA256
