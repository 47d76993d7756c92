"""What signed.sh promises: what runspec_agent.job.agent does, in every shell, with whichever tool there is."""

from __future__ import annotations

import io
import os
import shutil
import signal
import tarfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from runspec_agent.base import program_hooks
from runspec_emulators.aws.region import Objects
from runspec_jobs.load.bundle import bundle
from runspec_jobs.load.file_digest import PART_BYTES
from runspec_jobs.machines.usage import read_usage
from runspec_jobs.provider.job_manifest import digest_line
from runspec_jobs.provider.payload import strip_inside_sh, strip_signed, strip_usage
from runspec_jobs.provider.signed_urls import signed_job_lines
from runspec_jobs.provider.streams.tar_stream import tar_blocks
from runspec_jobs.spec.model import Spec
from tests.support.agent.shells import SHELLS, Word, every_shell, program
from tests.support.agent.signed_store import BUCKET, TOOLS, Bucket, Image, answering
from tests.support.wait import LIMIT_S

pytestmark = pytest.mark.process

# Whoever is not root, but may go where root may.
NOBODY = "/usr/bin/setpriv --reuid 65534 --clear-groups --inh-caps +dac_override --ambient-caps +dac_override"
HELD_BYTES = 30_000_000
WAYS = [(shell, tool) for shell in SHELLS for tool in TOOLS]
PUTS = [way for way in WAYS if way != ("busybox", "wget")]


def tried(ways: list[tuple[str, str]]) -> pytest.MarkDecorator:
    """Try all of *ways*, and only the first of them in the run that takes no time."""
    slow = [pytest.param(*way, marks=pytest.mark.slow) for way in ways[1:]]
    return pytest.mark.parametrize("shell, tool", [ways[0], *slow])


every_way = tried(WAYS)
every_way_that_puts = tried(PUTS)
# busybox runs its own sleep, whatever is on PATH: there is no standing in for it.
slept_for = tried([way for way in PUTS if way[0] != "busybox"])

# Every byte that a name can have, as UTF-8 and as it never is.
ODD_NAMES = [
    "plain",
    "a b",
    "-n",
    "'\"$(id)`id`;&*?[a]~\\",
    "new\nline",
    "tab\t",
    "Łódź ÄÖÜ 北京",
    "l" * 150,
    "\udc81\udc88\udcff",
]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    objects = Objects(tmp_path_factory.mktemp("objects"))
    objects.make_bucket(BUCKET, "us-east-1")
    yield Bucket(objects)
    objects.close()


@pytest.fixture(autouse=True)
def _empty(bucket: Bucket) -> None:
    for found in bucket.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        bucket.s3.delete_object(Bucket=BUCKET, Key=found["Key"])


def packed(files: dict[str, bytes]) -> bytes:
    """Give a tar as the provider makes it of a folder."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def unpacked(content: bytes | None) -> dict[str, bytes]:
    assert content is not None, "nothing was sent"
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        found = {m.name: archive.extractfile(m) for m in archive if m.isreg()}
        return {name.removeprefix("./"): file.read() for name, file in found.items() if file}


# What reaches the program


@every_way
def test_words_and_values_reach_the_program_byte_for_byte(
    shell: str, tool: str, bucket: Bucket, tmp_path: Path
) -> None:
    """Whatever bytes they are of, as long as no NUL is among them."""
    every = bytes(range(1, 256))
    value = "\\n \\\\ Łódź\x81\x88 'x'\n\n$(id) %s"
    written = value.replace("\\", "\\\\").replace("\n", "\\n")
    url = bucket.listed([*bucket.claim(), "slots=3", "sweep=RUNSPEC_SWEEP_A 1", f"value={written}"])
    words: list[Word] = [
        "printf",
        r"%s\0",
        every,
        b"",
        b"-e",
        "${sweep.a}",
        "$${sweep.a}",
        "*",
        "end",
    ]

    done = Image(tmp_path, shell, tool).run(url, words, LC_ALL="C.UTF-8")

    wanted = [every, b"", b"-e", value.encode(), b"${sweep.a}", b"*", b"end", b""]
    assert done.stdout.split(b"\0") == wanted
    assert done.returncode == 0


@every_shell
def test_the_program_finds_what_the_agent_tells_and_no_url(
    shell: str, bucket: Bucket, tmp_path: Path
) -> None:
    url = bucket.listed([*bucket.claim(), "slots=3"])

    done = Image(tmp_path, shell, "curl").run(url, ["env", "-0"], LC_ALL="nowhere", OWN="a b\n")

    found = dict(e.split("=", 1) for e in done.stdout.decode().split("\0") if e)
    known = {k: v for k, v in found.items() if k.startswith("RUNSPEC_") and k != "RUNSPEC_BELOW"}
    assert "/runspec-" in known.pop("RUNSPEC_SCRIPTS")
    assert known == {
        "RUNSPEC_JOB": "job-1",
        "RUNSPEC_TASK": "0",
        "RUNSPEC_RANK": "0",
        "RUNSPEC_ATTEMPT": "1",
        "RUNSPEC_NODES": "1",
        "RUNSPEC_SLOTS": "3",
        "RUNSPEC_LAUNCH": "none",
    }
    assert (found["LC_ALL"], found["OWN"]) == ("nowhere", "a b\n")


@every_shell
@pytest.mark.parametrize("task, pair", [(0, "x 1"), (1, "x 2"), (3, "y 1"), (5, "y 3")])
def test_a_task_has_its_values(
    shell: str, task: int, pair: str, bucket: Bucket, tmp_path: Path
) -> None:
    """The last parameter changes fastest; the list has it first."""
    fast = ["sweep=RUNSPEC_SWEEP_SEED 3", "value=1", "value=2", "value=3"]
    slow = ["sweep=RUNSPEC_SWEEP_LR 2", "value=x", "value=y"]
    url = bucket.listed([*bucket.claim(), *fast, *slow])
    words = ["echo", "${sweep.lr}", "${sweep.seed}"]

    job: dict[str, Word] = {"SERVICE_INDEX": str(task), "SERVICE_JOB": f"job-1:{task}"}
    done = Image(tmp_path, shell, "curl").run(url, words, **job)

    assert done.stdout.decode() == f"{pair}\n"
    assert bucket.content("claim") == b"job-1"


@every_shell
@pytest.mark.parametrize("task, found", [(0, "x 1 a"), (1, "x 1 b"), (2, "y 2 a"), (5, "z  b")])
def test_parameters_under_list_get_values_of_the_same_index(
    shell: str, task: int, found: str, bucket: Bucket, tmp_path: Path
) -> None:
    fast = ["sweep=RUNSPEC_SWEEP_C 2", "value=a", "value=b"]
    first = ["sweep=RUNSPEC_SWEEP_A 3", "value=x", "value=y", "value=z"]
    url = bucket.listed(
        [*bucket.claim(), *fast, *first, "with=RUNSPEC_SWEEP_B", "value=1", "value=2", "value="]
    )
    words = ["echo", "${sweep.a} ${sweep.b} ${sweep.c}"]

    job: dict[str, Word] = {"SERVICE_INDEX": str(task), "SERVICE_JOB": f"job-1:{task}"}
    done = Image(tmp_path, shell, "curl").run(url, words, **job)

    assert done.stdout.decode() == f"{found}\n"


# Mounts and outputs


@every_way
def test_a_folder_lies_at_its_target_byte_for_byte(
    shell: str, tool: str, bucket: Bucket, tmp_path: Path
) -> None:
    files = {f"d/{name}": name.encode("utf-8", "surrogateescape") * 9 for name in ODD_NAMES}
    bucket.write("blob", packed(files))
    at = ["mount=RUNSPEC_MOUNT_CODE", "at=/job/code", f"get={bucket.get('blob')}"]
    image = Image(tmp_path, shell, tool)

    done = image.run(bucket.listed([*bucket.claim(), *at]), ["echo", "${mounts.code}"])

    folder = image.root / "job/code"
    assert (done.returncode, done.stdout.decode()) == (0, f"{folder}\n")
    assert {
        str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    } == files


@pytest.mark.parametrize("tar", ["/bin/tar", "busybox tar"])
def test_files_keep_their_modes_whatever_the_umask(
    tar: str, bucket: Bucket, tmp_path: Path
) -> None:
    """GNU tar applies it to whoever is not root and does not say otherwise, busybox always. The program keeps it.

    Nobody else may write to the folders, which the archive does not name.
    """
    bucket.write("blob", packed({"a/b/tool": b"x"}))
    at = ["mount=RUNSPEC_MOUNT_CODE", "at=/job/code", f"get={bucket.get('blob')}"]
    image = Image(tmp_path, "dash", "curl")
    become = NOBODY if os.geteuid() == 0 else ""
    program(image.path, "tar", f'exec {become} {tar} "$@"')
    umask = os.umask(0o077)
    try:
        done = image.run(bucket.listed([*bucket.claim(), *at]), ["sh", "-c", "umask"])
    finally:
        os.umask(umask)

    assert (done.returncode, done.stdout) == (0, b"0077\n"), done.stderr
    for path in ("a", "a/b", "a/b/tool"):
        assert (image.root / "job/code" / path).stat().st_mode & 0o7777 == 0o755, path


def named(bucket: Bucket, folder: Path, files: Iterable[str]) -> tuple[list[str], Path]:
    """Put a folder up as a provider does; give the lines of its mount, and where it came from."""
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * 9)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    made = bundle(folder)
    bucket.write("blob", b"".join(tar_blocks(made, lambda done, whole: None)))
    line = digest_line(made.source)
    at = ["mount=RUNSPEC_MOUNT_CODE", "at=/job/code", line, f"get={bucket.get('blob')}"]
    return at, folder


NAMES = ["a b", "a/b.sh", "a-b", "-n", "'\"$(id)`id`;&*?[a]~\\", "tab\t", "Łódź/北京.sh", " x "]


@every_shell
def test_a_folder_is_compared_with_what_was_uploaded(
    shell: str, bucket: Bucket, tmp_path: Path
) -> None:
    """Whatever its files are called, and whatever the order of a locale is."""
    at, _ = named(bucket, tmp_path / "given", NAMES)

    done = Image(tmp_path, shell, "curl").run(
        bucket.listed([*bucket.claim(), *at]), ["echo", "begun"], LC_ALL="C.UTF-8"
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"begun\n", b"")


@every_shell
@pytest.mark.parametrize("what", ["a byte", "a mode", "a name", "a file"])
def test_a_folder_that_is_another_by_now_is_refused(
    shell: str, what: str, bucket: Bucket, tmp_path: Path
) -> None:
    at, folder = named(bucket, tmp_path / "given", NAMES)
    if what == "a byte":
        (folder / "a-b").write_bytes(b"a-B" * 9)
    elif what == "a mode":
        (folder / "a-b").chmod(0o755)
    elif what == "a name":
        (folder / "a-b").rename(folder / "a-c")
    else:
        (folder / "a-b").unlink()
    named(bucket, folder, ())

    done = Image(tmp_path, shell, "curl").run(
        bucket.listed([*bucket.claim(), *at]), ["echo", "begun"]
    )

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"/job/code differ from the upload: run runspec destroy --shared" in done.stderr


@every_shell
def test_a_larger_file_is_compared_by_its_parts(shell: str, bucket: Bucket, tmp_path: Path) -> None:
    """A file of whole parts and one of a byte more; the byte that differs is in the second part."""
    given = tmp_path / "given"
    given.mkdir()
    for name, size in (("a b", 2 * PART_BYTES), ("big", 2 * PART_BYTES + 1)):
        (given / name).write_bytes(os.urandom(size))
    at, _ = named(bucket, given, ["c"])
    (tmp_path / "1").mkdir()
    done = Image(tmp_path / "1", shell, "curl").run(
        bucket.listed([*bucket.claim("one"), *at]), ["echo", "begun"]
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"begun\n", b"")
    with (given / "big").open("r+b") as file:
        file.seek(PART_BYTES)
        file.write(b"changed")
    named(bucket, given, ())
    (tmp_path / "2").mkdir()

    done = Image(tmp_path / "2", shell, "curl").run(
        bucket.listed([*bucket.claim("two"), *at]), ["echo", "begun"]
    )

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"/job/code differ from the upload" in done.stderr


def test_an_image_without_sha256sum_warns_that_files_are_unverified(
    bucket: Bucket, tmp_path: Path
) -> None:
    """An image may have nothing to do it with."""
    at, _ = named(bucket, tmp_path / "given", ["a"])
    image = Image(tmp_path, "dash", "curl")
    (image.path / "sha256sum").unlink()

    done = image.run(bucket.listed([*bucket.claim(), *at]), ["echo", "begun"])

    where = f"{image.root}/job/code"
    told = (
        f"runspec: the files in {where} were not compared with the upload: "
        "this image has no sha256sum\n"
    )
    assert (done.returncode, done.stdout, done.stderr.decode()) == (0, b"begun\n", told)


def test_files_with_newlines_in_their_names_are_not_verified(
    bucket: Bucket, tmp_path: Path
) -> None:
    at, _ = named(bucket, tmp_path / "given", ["a", "two\nlines"])

    done = Image(tmp_path, "dash", "curl").run(
        bucket.listed([*bucket.claim(), *at]), ["echo", "begun"]
    )

    assert (done.returncode, done.stdout) == (0, b"begun\n")
    assert b"not compared" in done.stderr


def test_a_later_try_finds_the_folder_as_the_first_has_left_it(
    bucket: Bucket, tmp_path: Path
) -> None:
    """A program may have written there: what came is not told from that, and is no failure."""
    at, _ = named(bucket, tmp_path / "given", ["a"])
    image = Image(tmp_path, "dash", "curl")
    url = bucket.listed([*bucket.claim(), *at])

    first = image.run(url, ["touch", "${mounts.code}/own"])
    second = image.run(url, ["cat", "${mounts.code}/own"])

    assert (first.returncode, second.returncode, second.stderr) == (0, 0, b"")


@every_shell
def test_a_shared_folder_is_linked(shell: str, bucket: Bucket, tmp_path: Path) -> None:
    at = ["mount=RUNSPEC_MOUNT_W", "at=/job/w", "link=/mnt/runspec/work/a"]
    image = Image(tmp_path, shell, "curl")

    done = image.run(bucket.listed([*bucket.claim(), *at]), ["touch", "${mounts.w}/x"])

    assert done.returncode == 0
    assert (image.root / "mnt/runspec/work/a/x").exists()


def output(bucket: Bucket, task: int = 0) -> list[str]:
    url = f"put={task} {bucket.put('out')}"
    return [
        *bucket.claim(),
        "output=RUNSPEC_OUTPUT_O",
        "at=/job/o",
        url,
        f"back={task} {bucket.get('out')}",
    ]


@every_way_that_puts
def test_an_output_comes_back_byte_for_byte(
    shell: str, tool: str, bucket: Bucket, tmp_path: Path
) -> None:
    files = {name: name.encode("utf-8", "surrogateescape") * 9 for name in ODD_NAMES}
    given = tmp_path / "given"
    given.mkdir()
    for name, content in files.items():
        (given / name).write_bytes(content)

    done = Image(tmp_path, shell, tool).run(
        bucket.listed(output(bucket)), ["cp", "-R", f"{given}/.", "${outputs.o}"]
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert unpacked(bucket.content("out")) == files


@every_way_that_puts
@pytest.mark.parametrize("code", [0, 75, 255])
def test_the_exit_code_is_kept_and_outputs_are_sent(
    shell: str, tool: str, code: int, bucket: Bucket, tmp_path: Path
) -> None:
    script = f"echo saved > ${{RUNSPEC_OUTPUT_O}}/a; exit {code}"

    done = Image(tmp_path, shell, tool).run(bucket.listed(output(bucket)), ["sh", "-c", script])

    assert done.returncode == code
    assert unpacked(bucket.content("out")) == {"a": b"saved\n"}


@every_shell
def test_a_command_that_is_not_there_is_127(shell: str, bucket: Bucket, tmp_path: Path) -> None:
    done = Image(tmp_path, shell, "curl").run(bucket.listed(output(bucket)), ["no-such-program"])

    assert done.returncode == 127
    assert done.stderr == b"runspec: 'no-such-program': command not found\n"


@every_shell
def test_another_attempt_goes_on_with_what_was_saved(
    shell: str, bucket: Bucket, tmp_path: Path
) -> None:
    url = bucket.listed(output(bucket))
    words = ["sh", "-c", "cat $RUNSPEC_OUTPUT_O/a; echo $RUNSPEC_ATTEMPT >> $RUNSPEC_OUTPUT_O/a"]

    said: list[bytes] = []
    for attempt in ("1", "2"):
        (tmp_path / attempt).mkdir()
        done = Image(tmp_path / attempt, shell, "curl").run(url, words, SERVICE_TRY=attempt)
        said.append(done.stdout)

    assert said == [b"", b"1\n"]
    assert unpacked(bucket.content("out")) == {"a": b"1\n2\n"}


@every_shell
def test_only_the_output_of_this_task_is_sent(shell: str, bucket: Bucket, tmp_path: Path) -> None:
    url = bucket.listed(output(bucket, task=4))

    done = Image(tmp_path, shell, "curl").run(url, ["true"], SERVICE_INDEX="3")

    assert done.returncode == 0
    assert bucket.content("out") is None


@every_way_that_puts
@pytest.mark.parametrize("code, seen", [(0, 1), (3, 3)])
def test_an_output_that_cannot_be_sent_is_a_failure(
    shell: str, tool: str, code: int, seen: int, bucket: Bucket, tmp_path: Path
) -> None:
    """The job fails if its program has not failed already; one clear line says why."""
    with answering(403) as (refusing, asked):
        lines = [*bucket.claim(), "output=RUNSPEC_OUTPUT_O", "at=/job/o", f"put=0 {refusing}"]
        done = Image(tmp_path, shell, tool).run(bucket.listed(lines), ["sh", "-c", f"exit {code}"])

    assert done.returncode == seen
    assert done.stderr.count(b"\n") == 1
    assert b"runspec: not saved: " in done.stderr
    assert b"the signed URL has expired" in done.stderr
    assert len(asked) == 1


@every_way_that_puts
@pytest.mark.parametrize("code, seen", [(0, 1), (3, 3)])
def test_a_store_that_is_full_is_a_failure_of_its_own(
    shell: str, tool: str, code: int, seen: int, bucket: Bucket, tmp_path: Path
) -> None:
    """It is asked once: it will be full a few seconds later, too."""
    with answering(507) as (full, asked):
        lines = [*bucket.claim(), "output=RUNSPEC_OUTPUT_O", "at=/job/o", f"put=0 {full}"]
        lines.append(f"end=0 {bucket.put('end')}")
        done = Image(tmp_path, shell, tool).run(bucket.listed(lines), ["sh", "-c", f"exit {code}"])

    cause = "program" if code else "full"
    assert (done.returncode, bucket.content("end")) == (seen, f"1 {seen} {cause}\n".encode())
    assert done.stderr.endswith(b"/job/o: the store is full\n")
    assert len(asked) == 1


# What stops the job


@pytest.mark.parametrize("line", ["claim={}\nholder={}", "end=0 {}"])
def test_an_attempt_that_a_full_store_lets_not_begin_asks_for_no_other_one(
    line: str, bucket: Bucket, tmp_path: Path
) -> None:
    with answering(507) as (full, asked):
        lines = line.replace("{}", full).split("\n")
        done = Image(tmp_path, "dash", "curl").run(
            bucket.listed(lines), ["echo", "ran"], SERVICE_TRY=""
        )

    assert (done.returncode, done.stdout, len(asked)) == (1, b"", 1)
    assert b"the store is full" in done.stderr


@every_way
def test_an_expired_url_is_one_clear_line_and_asked_once(
    shell: str, tool: str, tmp_path: Path
) -> None:
    with answering(403) as (url, asked):
        done = Image(tmp_path, shell, tool).run(url, ["echo", "ran"])

    assert (done.returncode, done.stdout, len(asked)) == (77, b"", 1)
    assert done.stderr == (
        b"runspec: cannot download the list of files: the store refused the request (403): "
        b"the signed URL has expired, or its signer has no permission\n"
    )


@every_way
def test_a_run_that_was_destroyed_is_told(
    shell: str, tool: str, bucket: Bucket, tmp_path: Path
) -> None:
    done = Image(tmp_path, shell, tool).run(bucket.get("nothing"), ["echo", "ran"])

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the object does not exist (404): the run may have been destroyed" in done.stderr


@slept_for
def test_a_store_that_is_busy_is_asked_again_and_not_for_ever(
    shell: str, tool: str, tmp_path: Path
) -> None:
    image = Image(tmp_path, shell, tool)
    (image.path / "sleep").unlink()
    program(image.path, "sleep", ":")

    with answering(503) as (url, asked):
        done = image.run(url, ["echo", "ran"])

    assert (done.returncode, done.stdout, len(asked)) == (75, b"", 5)
    assert (
        done.stderr
        == b"runspec: cannot download the list of files: the store answered with status 503\n"
    )


@slept_for
def test_a_store_that_is_not_there_is_told(shell: str, tool: str, tmp_path: Path) -> None:
    image = Image(tmp_path, shell, tool)
    (image.path / "sleep").unlink()
    program(image.path, "sleep", ":")

    done = image.run("http://127.0.0.1:9/x?X-Amz-Signature=canary", ["echo", "ran"])

    assert (done.returncode, done.stdout) == (75, b"")
    assert done.stderr.endswith(b"the store cannot be reached, or its reply was cut off\n")


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_an_image_without_a_tool_is_told(shell: str, bucket: Bucket, tmp_path: Path) -> None:
    done = Image(tmp_path, shell, "").run(bucket.listed(bucket.claim()), ["echo", "ran"])

    assert (done.returncode, done.stdout) == (69, b"")
    assert done.stderr == b"runspec: this image has no curl, wget or python3: add one of them\n"


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_an_image_without_tar_is_told(shell: str, bucket: Bucket, tmp_path: Path) -> None:
    image = Image(tmp_path, shell, "curl")
    (image.path / "tar").unlink()

    done = image.run(bucket.listed(output(bucket)), ["echo", "ran"])

    assert (done.returncode, done.stdout) == (69, b"")
    assert done.stderr == b"runspec: this image has no tar, which mounts and outputs need\n"


def test_a_wget_that_cannot_put_is_told_before_the_program_runs(
    bucket: Bucket, tmp_path: Path
) -> None:
    done = Image(tmp_path, "busybox", "wget").run(bucket.listed(output(bucket)), ["echo", "ran"])

    assert (done.returncode, done.stdout) == (69, b"")
    assert b"outputs need curl, python3 or GNU wget" in done.stderr


# The claim


@every_way_that_puts
def test_a_second_job_of_the_run_leaves_with_0(
    shell: str, tool: str, bucket: Bucket, tmp_path: Path
) -> None:
    url = bucket.listed(bucket.claim())
    image = Image(tmp_path, shell, tool)

    first = image.run(url, ["echo", "ran"])
    again = image.run(url, ["echo", "ran"], SERVICE_TRY="2")
    other = image.run(url, ["echo", "ran"], SERVICE_JOB="job-2")

    assert [d.stdout for d in (first, again, other)] == [b"ran\n", b"ran\n", b""]
    assert (other.returncode, other.stderr) == (0, b"runspec: duplicate of job-1, leaving\n")


@every_way
def test_a_run_that_was_cancelled_does_not_begin(
    shell: str, tool: str, bucket: Bucket, tmp_path: Path
) -> None:
    """Also where there is no fence: the claim can be read."""
    bucket.write("claim", b"cancelled")

    done = Image(tmp_path, shell, tool).run(bucket.listed(bucket.claim()), ["echo", "ran"])

    assert (done.returncode, done.stdout) == (143, b"")
    assert done.stderr.endswith(b"runspec: cancelled, leaving\n")


def test_a_wget_that_cannot_claim_says_so(bucket: Bucket, tmp_path: Path) -> None:
    done = Image(tmp_path, "busybox", "wget").run(bucket.listed(bucket.claim()), ["echo", "ran"])

    assert (done.returncode, done.stdout) == (0, b"ran\n")
    assert b"this wget cannot claim the run" in done.stderr


# Signals


@every_way_that_puts
def test_a_sigterm_reaches_the_program_and_outputs_are_sent(
    shell: str, tool: str, bucket: Bucket, tmp_path: Path
) -> None:
    """The exit code is 143, whatever the program makes of it."""
    script = 'trap "echo late > $RUNSPEC_OUTPUT_O/a; exit 9" TERM; echo ready; while :; do sleep 0.1; done'
    child = Image(tmp_path, shell, tool).start(bucket.listed(output(bucket)), ["sh", "-c", script])
    assert child.stdout is not None
    child.stdout.readline()

    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=LIMIT_S)

    assert (child.returncode, err) == (143, b"")
    assert unpacked(bucket.content("out")) == {"a": b"late\n"}


@every_shell
def test_a_program_that_does_not_mind_is_killed_after_its_grace(
    shell: str, bucket: Bucket, tmp_path: Path
) -> None:
    url = bucket.listed(output(bucket))
    script = 'trap "" TERM; echo on > $RUNSPEC_OUTPUT_O/a; echo ready; while :; do sleep 0.1; done'
    words = ["sh", "-c", script]
    child = Image(tmp_path, shell, "curl").start(url, words, RUNSPEC_GRACE_S="1")
    assert child.stdout is not None
    child.stdout.readline()
    began = time.monotonic()

    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=LIMIT_S)

    assert child.returncode == 143
    assert time.monotonic() - began < 20  # the grace of who names none
    assert unpacked(bucket.content("out")) == {"a": b"on\n"}


# The end record


@every_way_that_puts
@pytest.mark.parametrize("code,exits", [(0, 0), (3, 3), (75, 75), (143, 1)])
def test_the_end_record_has_the_exit_code_of_the_program(
    code: int, exits: int, shell: str, tool: str, bucket: Bucket, tmp_path: Path
) -> None:
    """Also if the service must not see that code, because it would start the job again."""
    ends = [f"end=1 {bucket.put('other')}", f"end=0 {bucket.put('end')}", "hidden=143"]
    url = bucket.listed([*bucket.claim(), *ends])

    done = Image(tmp_path, shell, tool).run(url, ["sh", "-c", f"exit {code}"], SERVICE_TRY="2")

    assert (done.returncode, bucket.content("end")) == (exits, f"2 {code} program\n".encode())
    assert bucket.content("other") is None


@every_shell
def test_a_setup_that_fails_is_told_apart(shell: str, bucket: Bucket, tmp_path: Path) -> None:
    url = bucket.listed([*bucket.claim(), f"end=0 {bucket.put('end')}", "hidden=143"])
    words = program_hooks.wrap(["sh", "-c", "exit 143"], ["echo", "program"])

    done = Image(tmp_path, shell, "curl").run(url, words)

    assert (done.returncode, done.stdout) == (1, b"")
    assert bucket.content("end") == b"1 143 setup\n"


@every_shell
def test_a_timeout_ends_the_program_saves_and_is_recorded(
    shell: str, bucket: Bucket, tmp_path: Path
) -> None:
    url = bucket.listed([*output(bucket), f"end=0 {bucket.put('end')}", "limit=1", "hidden=143"])
    script = 'trap "echo late > $RUNSPEC_OUTPUT_O/a; exit 0" TERM; while :; do sleep 0.1; done'

    done = Image(tmp_path, shell, "curl").run(url, ["sh", "-c", script])

    assert (done.returncode, bucket.content("end")) == (124, b"1 124 timeout\n")
    assert b"runspec: the attempt took longer than its timeout of 1 s" in done.stderr
    assert unpacked(bucket.content("out")) == {"a": b"late\n"}


@every_shell
def test_a_signal_reaches_the_program_before_its_timeout(
    shell: str, bucket: Bucket, tmp_path: Path
) -> None:
    spec = {"apiVersion": "runspec/v1", "name": "a", "provider": "aws-batch", "command": ["x"]}
    timed = {"timeout": "60s", "signal": {"name": "USR1", "before": "59s"}}
    lines = signed_job_lines(
        Spec.model_validate({**spec, **timed}),
        bucket.claim(),
        lambda _: (),
        lambda *_: (),
        str,
        str,
    )
    url = bucket.listed([str(line) for line in lines if "=" in str(line)])
    script = "trap 'echo saved; exit 4' USR1; echo up; while :; do sleep 0.1; done"

    done = Image(tmp_path, shell, "curl").run(url, ["sh", "-c", script])

    assert (done.returncode, done.stdout) == (4, b"up\nsaved\n")
    assert b"runspec: USR1 was sent to processes of the program: 1" in done.stderr


@every_shell
def test_a_program_that_ends_before_its_timeout_is_not_waited_for(
    shell: str, bucket: Bucket, tmp_path: Path
) -> None:
    url = bucket.listed([*bucket.claim(), f"end=0 {bucket.put('end')}", "limit=600"])
    began = time.monotonic()

    done = Image(tmp_path, shell, "curl").run(url, ["true"])

    assert (done.returncode, bucket.content("end")) == (0, b"1 0 program\n")
    assert time.monotonic() - began < 300


@every_shell
def test_a_success_that_cannot_be_recorded_fails(
    shell: str, bucket: Bucket, tmp_path: Path
) -> None:
    with answering(403) as (url, _):
        listed = bucket.listed([*bucket.claim(), f"end=0 {url}"])
        done = Image(tmp_path, shell, "curl").run(listed, ["true"])

    assert done.returncode == 1
    assert b"runspec: the exit code cannot be recorded: the store refused" in done.stderr


@pytest.mark.parametrize("number, left", [("", b"begun\n"), ("2", b"1 3 program\n")])
def test_a_killed_attempt_without_a_number_leaves_no_end_of_an_earlier_one(
    number: str, left: bytes, bucket: Bucket, tmp_path: Path
) -> None:
    """A number in the record says of which attempt it is, so that it may stay."""
    url = bucket.listed([*bucket.claim(), f"end=0 {bucket.put('end')}"])
    Image(tmp_path, "dash", "curl").run(url, ["sh", "-c", "exit 3"], SERVICE_TRY=number and "1")
    assert bucket.content("end") == b"1 3 program\n"

    (tmp_path / "again").mkdir()
    again = Image(tmp_path / "again", "dash", "curl")
    killed = again.start(url, ["sh", "-c", "kill -KILL $PPID"], SERVICE_TRY=number)
    killed.communicate(timeout=60)

    assert bucket.content("end") == left


def test_a_wget_that_cannot_record_the_end_refuses_the_job(bucket: Bucket, tmp_path: Path) -> None:
    url = bucket.listed([f"end=0 {bucket.put('end')}"])

    done = Image(tmp_path, "busybox", "wget").run(url, ["echo", "ran"])

    assert (done.returncode, done.stdout) == (69, b"")
    assert b"this wget cannot record how the job ends" in done.stderr


def test_signed_sh_fits_into_a_job_definition() -> None:
    """AWS Batch takes 24 KiB of it; most of ten are left for the user's words."""
    assert len(strip_signed()) + len(strip_inside_sh()) < 14.75 * 1024


# What the program uses

HOLDING = f"""\
held=$(head -c {HELD_BYTES} /dev/zero | tr '\\0' x)
n=0
while [ $n -lt 4 ]; do n=$((n + 1)); sleep 1; done
exit 7
"""


def sampled(url: str) -> list[str]:
    script = strip_usage().replace("\\", "\\\\").replace("\n", "\\n")
    return [f"sample={script}", f"usage=0 {url}"]


@pytest.mark.slow
@every_shell
def test_what_the_program_uses_is_sampled(shell: str, bucket: Bucket, tmp_path: Path) -> None:
    image = Image(tmp_path, shell, "curl")
    for name in ("df", "date", "tail", "getconf", "nproc", "head", "tr"):
        program(image.path, name, f'exec {shutil.which(name)} "$@"')
    smi = "echo '40, 1000, 81559'; echo '60, 2000, 81559'"
    program(image.path, "nvidia-smi", smi)
    url = bucket.listed([*bucket.claim(), *sampled(bucket.put("usage"))])

    done = image.run(url, ["sh", "-c", HOLDING])

    (node,) = read_usage(["0/0/0"], lambda names: [bucket.content("usage")], None).nodes
    assert done.returncode == 7, "the code of the program"
    assert done.stderr == b""
    assert HELD_BYTES < max(point.memory_bytes for point in node.points) < 10 * HELD_BYTES
    assert max(point.memory_bytes for point in node.points) < node.memory_bytes
    assert 0 < node.points[0].disk_bytes <= node.disk_bytes
    assert node.most_cpus <= (os.cpu_count() or 1) + 0.2
    assert node.gpu_bytes == (81559 << 20, 81559 << 20)
    assert node.points[-1].gpus == ((40.0, 1000 << 20), (60.0, 2000 << 20))


@every_shell
def test_a_job_is_not_failed_by_what_samples_it(shell: str, bucket: Bucket, tmp_path: Path) -> None:
    """The image lacks all that it needs, and the store refuses the record."""
    refused = bucket.put("usage").replace(BUCKET, "nothing")
    url = bucket.listed([*bucket.claim(), *sampled(refused)])

    done = Image(tmp_path, shell, "curl").run(url, ["sh", "-c", "sleep 2; echo done"])

    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b"")
