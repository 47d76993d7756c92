"""signed.sh over Azure Blob: its PUT wants a header of its own, and what is there is a 409."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import AzureStore

from runspec_emulators.azure_services.blob import Blobs
from tests.support.agent.shells import SHELLS
from tests.support.agent.signed_store import TOOLS, Image
from tests.support.requirements import need
from tests.unit.runspec_agent.test_signed_sh import packed, unpacked

pytestmark = pytest.mark.slow
HEADER = "header=x-ms-blob-type: BlockBlob"
PUTS = [(s, t) for s in SHELLS for t in TOOLS if (s, t) != ("busybox", "wget")]
every_way_that_puts = pytest.mark.parametrize("shell, tool", PUTS)


class Container:
    """One container of a store, and signed URLs for it."""

    def __init__(self, blobs: Blobs) -> None:
        self.blobs = blobs
        self.store = AzureStore(
            "signed",
            account_name=blobs.account,
            account_key=blobs.key,
            endpoint=blobs.url,
            client_options={"allow_http": True},
        )

    def url(self, key: str, rights: str, lasts_s: float = 600.0) -> str:
        return f"{self.blobs.url}/signed/{key}?{self.blobs.sas('signed', rights, lasts_s)}"

    def claim(self) -> list[str]:
        return [f"claim={self.url('claim', 'cw')}", f"holder={self.url('claim', 'r')}"]

    def listed(self, *lines: str) -> str:
        text = "".join(f"{line}\n" for line in [HEADER, "most=5242880000", *self.claim(), *lines])
        self.write("files", text.encode())
        return self.url("files", "r")

    def write(self, key: str, content: bytes) -> None:
        obstore.put(self.store, key, content, use_multipart=False)

    def read(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self.store, key).bytes())
        except FileNotFoundError:
            return None


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    need("azurite")
    with Blobs(tmp_path_factory.mktemp("blobs")) as blobs:
        blobs.make_container("signed")
        yield Container(blobs)


@pytest.fixture(autouse=True)
def _empty(container: Container) -> None:
    for page in obstore.list(container.store):
        for found in page:
            obstore.delete(container.store, found["path"])


def out(container: Container) -> tuple[str, ...]:
    put, again = container.url("out", "cw"), container.url("out", "r")
    return "output=RUNSPEC_OUTPUT_O", "at=/o", f"put=0 {put}", f"again=0 {again}"


@every_way_that_puts
def test_a_job_gets_what_it_reads_and_sends_what_it_wrote(
    shell: str, tool: str, container: Container, tmp_path: Path
) -> None:
    container.write("data", packed({"a b": b"x" * 100_000}))
    mount = ("mount=RUNSPEC_MOUNT_D", "at=/d", f"get={container.url('data', 'r')}")
    script = 'cp "$RUNSPEC_MOUNT_D/a b" "$RUNSPEC_OUTPUT_O/f"'

    done = Image(tmp_path, shell, tool).run(
        container.listed(*mount, *out(container)), ["sh", "-c", script]
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert unpacked(container.read("out")) == {"f": b"x" * 100_000}
    assert container.read("claim") == b"job-1"


@every_way_that_puts
def test_a_second_job_of_a_run_leaves_at_once_and_another_try_goes_on(
    shell: str, tool: str, container: Container, tmp_path: Path
) -> None:
    """Which try it is nobody says: what is there is there again."""
    url = container.listed(*out(container))
    image = Image(tmp_path, shell, tool)
    add = ["sh", "-c", 'echo x >>"$RUNSPEC_OUTPUT_O/f"']
    assert image.run(url, add).returncode == 0
    (image.root / "o/f").unlink()

    began = time.monotonic()
    second = image.run(url, ["echo", "ran"], SERVICE_JOB="job-2")
    took = time.monotonic() - began
    again = image.run(url, add)

    assert (second.returncode, second.stdout) == (0, b"")
    assert b"duplicate of job-1, leaving" in second.stderr
    assert (
        took < 15
    )  # what is not told apart from a busy store is asked for again, after 1 + 2 + 4 + 8 s
    assert again.returncode == 0
    assert unpacked(container.read("out")) == {"f": b"x\nx\n"}


def test_a_refused_signature_is_reported_and_not_shown(
    container: Container, tmp_path: Path
) -> None:
    container.listed()

    done = Image(tmp_path, "dash", "curl").run(container.url("files", "r", -60), ["true"])

    assert done.returncode == 77
    assert b"refused the request (403)" in done.stderr
    assert b"sig=" not in done.stderr
