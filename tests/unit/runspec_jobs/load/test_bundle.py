"""What of a folder goes to a job, what never does, and that it is what was hashed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from runspec_jobs.errors import Conflict
from runspec_jobs.load import bundle as subject, file_digest, folder_scan
from runspec_jobs.load.bundle import FolderBundle, bundle, bundle_file
from runspec_jobs.load.file_digest import PART_BYTES
from runspec_jobs.load.folder_scan import BundleError
from runspec_jobs.load.ignore import IgnoreMatcher, Verdict, looks_secret, parse_rules
from runspec_jobs.provider import Bundle, File, Source
from tests.support.requirements import need


def made(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    folder.mkdir(exist_ok=True)
    return folder


def paths(folder: Path) -> list[str]:
    return [file.path for file in bundle(folder).files]


def problems(folder: Path) -> list[tuple[str, str | None]]:
    with pytest.raises(BundleError) as told:
        bundle(folder)
    return list(told.value.problems)


def whats(folder: Path) -> list[str]:
    return [what for what, _ in problems(folder)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made(tmp_path / "code", {"train.py": "print(1)\n", "lib/model.py": "x = 1\n"})


# --- what is taken ---


def test_a_bundle_is_what_the_door_promises(folder: Path) -> None:
    """A folder's bundle has its files in order, their sizes and executable bits, and a source."""
    os.chmod(folder / "train.py", 0o755)

    made_of: Bundle = bundle(folder)

    assert [(f.path, f.bytes, f.executable) for f in made_of.files] == [
        ("lib/model.py", 6, False),
        ("train.py", 9, True),
    ]
    assert bundle(folder).source == Source(made_of.digest, files=2, bytes=15)


def test_reading_gives_the_content(folder: Path) -> None:
    found = bundle(folder)

    content = {file.path: found.open(file).read() for file in found.files}

    assert content == {"lib/model.py": b"x = 1\n", "train.py": b"print(1)\n"}


def test_an_empty_folder_is_an_empty_bundle(tmp_path: Path) -> None:
    assert bundle(made(tmp_path / "empty", {})).source.files == 0


def test_empty_files_are_taken(tmp_path: Path) -> None:
    found = bundle(made(tmp_path / "f", {"__init__.py": ""}))

    with found.open(found.files[0]) as file:
        assert file.read() == b""


def test_the_folder_may_be_named_by_a_link(folder: Path, tmp_path: Path) -> None:
    """What the user names is followed; only what lies in it is not."""
    (tmp_path / "alias").symlink_to(folder)

    assert bundle(tmp_path / "alias").digest == bundle(folder).digest


@pytest.mark.parametrize(
    "name, what", [("nowhere", "there is no file or folder"), ("file", "is not a folder")]
)
def test_a_source_that_is_no_folder_is_refused(name: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert what in whats(tmp_path / name)[0]


def test_caches_and_checkouts_never_go_along(folder: Path) -> None:
    left_out = (".git/config", "lib/__pycache__/a.pyc", "b.pyc", ".venv/bin/x", ".mypy_cache/y")
    made(folder, dict.fromkeys((*left_out, ".DS_Store", "lib/.ipynb_checkpoints/n"), "x"))
    made(folder, {".runspecignore": "!.git\n!b.pyc\n"})

    assert paths(folder) == ["lib/model.py", "train.py"]


# --- ignore files ---


def test_ignored_files_are_not_uploaded(folder: Path) -> None:
    made(folder, {".gitignore": "*.log\n/data/\n", ".runspecignore": "notes.txt\n"})
    made(folder, {"a.log": "", "data/x": "", "notes.txt": "", "lib/data/x": ""})

    assert paths(folder) == [".gitignore", "lib/data/x", "lib/model.py", "train.py"]


def test_runspecignore_has_the_last_word(folder: Path) -> None:
    """A model that git does not keep is still what the job needs."""
    made(folder, {".gitignore": "*.bin\n", ".runspecignore": "!model.bin\n"})
    made(folder, {"model.bin": "", "other.bin": ""})

    assert paths(folder) == [".gitignore", "lib/model.py", "model.bin", "train.py"]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (folder_scan.MAX_IGNORE_BYTES + 1)])
def test_an_ignore_file_that_cannot_be_read_is_told(content: bytes, folder: Path) -> None:
    made(folder, {".runspecignore": content})

    assert whats(folder) == ["these are not regular UTF-8 files of at most 1 MiB: '.runspecignore'"]


def test_an_ignore_file_is_no_link(folder: Path, tmp_path: Path) -> None:
    """As in git; the link could lead anywhere."""
    (tmp_path / "list").write_text("train.py\n")
    (folder / ".runspecignore").symlink_to(tmp_path / "list")

    assert whats(folder) == ["these are not regular UTF-8 files of at most 1 MiB: '.runspecignore'"]


ATOMS = [
    "a",
    "b",
    "foo",
    "*",
    "**",
    "***",
    "?",
    "[ab]",
    "[!a]",
    "[a-c]",
    "[]a]",
    "[^]]",
    "[a",
    "\\",
]
ATOMS += ["/", "/", "/", "\\*", "\\a", ".", "-", "[[:alpha:]]", "[[:nope:]]", "[a-]", "[z-a]", "]"]
ATOMS += [
    "[a/]",
    "[\\]a]",
    "[a\\-c]",
    "[[:digit:]a-c]",
    "[a-c-e]",
    "[!z-a]",
    "[.-0]a",
    "^",
    "$",
    "+",
    "(",
]
PATTERNS = st.builds(
    lambda bang, atoms, end: bang + "".join(atoms) + end,
    st.sampled_from(["", "", "!", "\\!", "#", "\\#"]),
    st.lists(st.sampled_from(ATOMS), max_size=6),
    st.sampled_from(["", "", "/", " ", "\\ ", "  \\  ", "\t", "\r"]),
)
PLAIN = st.builds(  # what people write, which names something of the tree below more often
    lambda bang, top, names, end: f"{bang}{top}{'/'.join(names)}{end}",
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(
        st.sampled_from(["a", "b", "foo", "c", "*", "?", "[ab]", "f*", "**", "a**", "c?**"]),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["", "/"]),
)
FOLDERS = ["a", "a/b", "a/b/a", "a/foo", "foo", "foo/foo", "foo/a/b", "c", "c/b/a/foo", "ab"]
FILES = ["1", "foo/1", "a.b", "]", "a]", "-", "a-", "^", "$", "+", "(", "*", "a*", "\\", "a\\"]
FILES += ["!a", "#a", "a ", "a\t", "z", "e", "a/b/a/b", "foo/0a", "foo/.a", "a/b/foo", "c/b/foo"]
FILES += ["c/a", "foo/a/b/a", "b", "d/b", "ab/c", "a/b/a/ab", "a/c", "foo/foo/foo"]


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    need("git")
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["git", "init", "-q", name], check=True)
        for path in FOLDERS:
            (Path(name) / path).mkdir(parents=True, exist_ok=True)
        yield made(Path(name), dict.fromkeys(FILES, ""))


@pytest.mark.parametrize(
    "glob, name",
    [
        ("*a" * 40 + "*b", "a" * 240),
        ("**/a/" * 30 + "b", "a/" * 200),
        ("**/*a*a/" * 20 + "*b", "aa/" * 200),
    ],
)
def test_no_line_of_an_ignore_file_takes_for_ever(glob: str, name: str) -> None:
    (rule,) = parse_rules(glob, ours=True)
    began = time.process_time()

    assert not rule.is_match(name, name, folder=False)
    assert time.process_time() - began < 5


def git_ignores(lines: list[str], checkout: Path) -> set[str]:
    """Ask git what of the tree it would not look at."""
    (checkout / ".gitignore").write_bytes("\n".join(lines).encode())
    asked = "\0".join(FOLDERS + FILES).encode()
    command = ["git", "-C", str(checkout), "check-ignore", "--no-index", "-z", "--stdin"]
    answer = subprocess.run(command, input=asked, capture_output=True)
    assert answer.returncode in (0, 1), answer.stderr
    return set(answer.stdout.decode().split("\0")) - {""}


def we_ignore(lines: list[str], path: str) -> bool:
    """Judge as a walk does, which never looks below a folder that is left out."""
    judge, parts = IgnoreMatcher(parse_rules("\n".join(lines), ours=False)), path.split("/")
    return Verdict.LEFT_OUT in (
        judge.judge("/".join(parts[:n]), folder=n < len(parts) or path in FOLDERS)
        for n in range(1, len(parts) + 1)
    )


@pytest.mark.process
@settings(max_examples=120, deadline=None)
@given(lines=st.lists(PATTERNS, min_size=1, max_size=4) | st.lists(PLAIN, min_size=1, max_size=4))
@example(lines=["a/**", "!a/b"])
@example(lines=["a/", "!a/b"])
@example(lines=["a/", "!a/c"])  # a file below a folder that is left out stays out
@example(lines=["a/*", "!a/c"])
@example(lines=["foo/", "!/foo/"])  # brings back the one at the top alone
@example(lines=["**/b/**/foo"])
@example(lines=["a**/foo"])
@example(lines=["c[!x]a", "c[/]a", "c[.-0]a"])  # no set matches a slash
@example(lines=["!", "a", "/", "!/", "//", "**/"])
@example(lines=["[[:digit:]]"])
@example(lines=["[!z-a]"])
@example(lines=["/*", "!/foo/", "/foo/*", "!/foo/a"])
@example(lines=["[[:alpha:]-z]", "[[:alpha:]", "a\\", "\\#a", "\\!a", "a\\ "])
def test_patterns_mean_what_they_mean_to_git(lines: list[str], checkout: Path) -> None:
    """Every list of patterns leaves out exactly what `git check-ignore` says."""
    assert {path for path in FOLDERS + FILES if we_ignore(lines, path)} == git_ignores(
        lines, checkout
    )


# --- secrets ---


@pytest.mark.parametrize(
    "name",
    """.env .env.local prod.env .netrc .pypirc .npmrc id_rsa id_ed25519 id_rsa.bak id_work key.pem
    tls.key Credentials.json credentials vault.kdbx kaggle.json .git-credentials""".split(),
)
def test_a_file_that_looks_like_a_secret_is_refused(name: str, folder: Path) -> None:
    made(folder, {f"lib/{name}": "x"})

    assert problems(folder) == [
        (
            f"these look like secrets: 'lib/{name}'",
            "pass them under secrets:; a line 'NAME' in .runspecignore leaves one out, and '!NAME' uploads it",
        )
    ]


@pytest.mark.parametrize(
    "name", "id_rsa.pub .env.example environment.yml id_map.json keys.py monkey tokenizer".split()
)
def test_a_file_that_only_sounds_like_a_secret_is_uploaded(name: str) -> None:
    assert not looks_secret(name, folder=False)


def test_all_secrets_are_named_at_once(folder: Path) -> None:
    made(folder, {".env": "", ".aws/credentials": "", "lib/.ssh/config": "", "a.pem": ""})

    assert whats(folder) == ["these look like secrets: '.aws/', '.env', 'a.pem', 'lib/.ssh/'"]


def test_the_env_file_of_a_job_is_left_out_and_other_secrets_are_refused(folder: Path) -> None:
    made(folder, {".env": "", "lib/.env": "", "a.txt": ""})
    with pytest.raises(BundleError) as told:
        bundle(folder, env_file=str(folder / ".env"))
    assert told.value.message == "these look like secrets: 'lib/.env'"

    (folder / "lib/.env").unlink()
    bundled = bundle(folder, env_file=str(folder / ".env"))

    assert ("a.txt" in [f.path for f in bundled.files], bundled.left_out) == (
        True,
        ((".env", "the job's env_file"),),
    )


@pytest.mark.parametrize("line", ["!ca.pem", "!certs/ca.pem", "!*.pem", "!/certs/ca.*"])
def test_a_line_that_names_it_lets_it_through(line: str, folder: Path) -> None:
    made(folder, {"certs/ca.pem": "", ".runspecignore": line})

    assert "certs/ca.pem" in paths(folder)


def test_a_folder_that_is_let_through_takes_all_along(folder: Path) -> None:
    made(folder, {".aws/credentials": "", ".runspecignore": "!.aws/\n"})

    assert ".aws/credentials" in paths(folder)


@pytest.mark.parametrize("lines", ["/*\n!/src/\n", "!*\n", "!src/**\n", "!src/*\n", "!src\n"])
def test_taking_everything_in_lets_no_secret_through(lines: str, tmp_path: Path) -> None:
    """A line that brings a folder back does not name the secrets in it."""
    folder = made(tmp_path / "f", {"src/.env": "", ".runspecignore": lines})

    assert whats(folder) == ["these look like secrets: 'src/.env'"]


def test_gitignore_lets_no_secret_through(folder: Path) -> None:
    """That git keeps a file does not say that a job should get it."""
    made(folder, {".env": "", ".gitignore": "!.env"})

    assert whats(folder) == ["these look like secrets: '.env'"]


def test_a_secret_that_stays_here_is_no_problem(folder: Path) -> None:
    made(folder, {".env": "", ".ssh/id_rsa": "", ".gitignore": ".env\n.ssh/\n"})

    assert paths(folder) == [".gitignore", "lib/model.py", "train.py"]


# --- links and other things ---


def test_a_link_to_a_file_inside_becomes_that_file(folder: Path) -> None:
    (folder / "main.py").symlink_to("lib/../train.py")
    (folder / "lib/absolute.py").symlink_to(folder / "train.py")

    found = bundle(folder)

    content = {file.path: found.open(file).read() for file in found.files}
    assert content["main.py"] == content["lib/absolute.py"] == b"print(1)\n"


LINKS: dict[str, tuple[str, str]] = {
    "outside": ("../secret.txt", "links that leave the folder: 'link' (to '{tmp}/secret.txt')"),
    "absolute": ("/etc/passwd", "links that leave the folder: 'link' (to '/etc/passwd')"),
    "sibling": ("../code-2/x", "links that leave the folder: 'link' (to '{tmp}/code-2/x')"),
    "nowhere": ("no-such", "broken links: 'link'"),
    "folder": ("lib", "links to folders: 'link'"),
    "itself": (".", "links to folders: 'link'"),
    "checkout": (".git/config", "links to files that are left out: 'link' (to '.git/config')"),
    "ignored": ("a.log", "links to files that are left out: 'link' (to 'a.log')"),
    "secret": (".env", "these look like secrets: 'link' (a link to '.env')"),
    "pipe": ("fifo", "these are neither files nor folders: 'link'"),
}


@pytest.mark.parametrize("target, what", LINKS.values(), ids=LINKS)
def test_links_that_cannot_be_uploaded_are_reported(
    target: str, what: str, folder: Path, tmp_path: Path
) -> None:
    made(tmp_path, {"secret.txt": "", "code-2/x": ""})
    made(folder, {".git/config": "", "a.log": "", ".env": "", ".gitignore": "*.log\n.env\nfifo\n"})
    if target == ".env":
        made(folder, {".gitignore": ""})
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to(target)

    expected = what.format(tmp=tmp_path)

    assert expected in "; ".join(whats(folder)).replace("'.env', 'link'", "'link'")


def test_a_loop_of_links_is_told(folder: Path) -> None:
    (folder / "x").symlink_to("y")
    (folder / "y").symlink_to("x")

    assert whats(folder) == ["broken links: 'x', 'y'"]


def test_a_listed_link_is_no_problem(folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")
    made(folder, {".runspecignore": "link\n"})

    assert paths(folder) == ["lib/model.py", "train.py"]


@pytest.mark.process
def test_pipes_and_sockets_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "lib/fifo")
    monkeypatch.chdir(folder)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("sock")

        assert whats(folder) == ["these are neither files nor folders: 'sock', 'lib/fifo'"]


def test_names_that_are_not_utf8_are_refused(folder: Path) -> None:
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("")
    (folder / os.fsdecode(b"b\xe9")).mkdir()
    (folder / "\x1b[31m.txt").write_text("")

    assert whats(folder) == ["names that are not UTF-8: 'b\\xe9', 'caf\\xe9.txt'"]


def test_paths_that_no_job_could_open_are_told(folder: Path) -> None:
    name = "d" * 250
    with contextlib.chdir(folder):
        for _ in range(16):
            os.mkdir(name)
            os.chdir(name)
        Path("deep").write_text("")

    assert whats(folder)[0].startswith("paths of more than 3,000 bytes or 100 folders: 'ddd")


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Be somebody for whom permissions count, also where tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_unreadable_files_are_reported() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = made(Path(name), {"open": "", "locked": "", "dir/x": "", "dir2/x": ""})
        os.chmod(folder, 0o755)
        os.chmod(folder / "locked", 0)
        os.chmod(folder / "dir", 0)
        os.chmod(folder / "dir2", 0o444)
        try:
            with as_nobody():
                found = whats(folder)
        finally:
            os.chmod(folder / "dir", 0o700)
            os.chmod(folder / "dir2", 0o700)

    assert found == ["these cannot be read: 'locked', 'dir2/', 'dir/'"]


def test_everything_in_the_way_is_told_at_once(folder: Path) -> None:
    made(folder, {".env": "", ".gitignore": b"\xff"})
    os.mkfifo(folder / "fifo")
    (folder / "out").symlink_to("/etc/passwd")

    with pytest.raises(BundleError) as told:
        bundle(folder)

    assert told.value.message == "these look like secrets: '.env' (and 3 more)"
    assert all(hint for _, hint in told.value.problems)
    assert [what for what, _ in told.value.problems] == [
        "these look like secrets: '.env'",
        "links that leave the folder: 'out' (to '/etc/passwd')",
        "these are neither files nor folders: 'fifo'",
        "these are not regular UTF-8 files of at most 1 MiB: '.gitignore'",
    ]


def test_a_long_list_is_cut(folder: Path) -> None:
    made(folder, {f"{n:02}.pem": "" for n in range(30)})

    assert whats(folder)[0].endswith("'19.pem' and 10 more")


# --- limits ---


def test_too_many_files_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_scan, "MAX_FILES", 5)
    made(folder, {f"data/{n}": "" for n in range(9)})

    assert whats(folder) == ["more than 5 files, most of them in 'data'"]


def test_too_many_bytes_are_told(folder: Path) -> None:
    """A sparse file is as large as it says: it would travel so."""
    with open(folder / "big", "wb") as file:
        file.truncate(folder_scan.MAX_BYTES + folder_scan.GIB)

    [(what, hint)] = problems(folder)

    assert what == (
        "11.0 GiB, above the 10.0 GiB that are uploaded with a job; 11.0 GiB of it in 'big'"
    )
    assert hint == (
        "list what the job does not need in .runspecignore, or mount large data as store://"
    )


# --- the digest ---

TREES = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "ü", "c d", "e\n"]), min_size=1, max_size=3).map("/".join),
    st.tuples(st.binary(max_size=20), st.booleans()),
    max_size=6,
).filter(lambda tree: not any(f"{x}/" == y[: len(x) + 1] for x in tree for y in tree))
Tree = dict[str, tuple[bytes, bool]]


def laid_out(tree: Tree, folder: Path, order: Callable[[str], str], when: int) -> FolderBundle:
    for path in sorted(tree, key=order):
        made(folder, {path: tree[path][0]})
        os.chmod(folder / path, 0o755 if tree[path][1] else 0o644)
        os.utime(folder / path, (when, when))
    return bundle(made(folder, {}))


@settings(max_examples=30, deadline=None)
@given(TREES, TREES)
@example({"a": (b"", False)}, {"a": (b"", True)})
@example({"a": (b"x", False), "b": (b"", False)}, {"a": (b"", False), "b": (b"x", False)})
def test_equal_digests_are_equal_contents(one: Tree, two: Tree) -> None:
    """The digest is the same for the same paths, contents and executable bits, and only then."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        first = laid_out(one, top / "1", lambda path: path, 1_000_000_000)
        again = laid_out(one, top / "2", lambda path: path[::-1], 1_600_000_000)
        other = laid_out(two, top / "3", lambda path: path, 1_000_000_000)

    assert first.digest == again.digest
    assert (first.digest == other.digest) == (one == two)


def test_the_digest_never_changes_between_versions(folder: Path) -> None:
    assert bundle(folder).digest == (
        "sha256:89a6f71cf47b6cc828cff936459a881b3c958069058fea9eb1c0c837beb68887"
    )


@pytest.mark.parametrize("more", [-1, 0, 1, PART_BYTES, PART_BYTES + 1])
def test_the_digest_of_a_larger_file_is_that_of_the_list_of_its_parts(
    more: int, tmp_path: Path
) -> None:
    """A file of one part has the digest that sha256sum prints, and its folder the one of versions without parts."""
    content = os.urandom(PART_BYTES + more)
    found = bundle(made(tmp_path / "f", {"big": content, "small": "x"}))

    kind, version, digest = "sha256", 1, hashlib.sha256(content).hexdigest()
    if more > 0:
        cuts = (content[at : at + PART_BYTES] for at in range(0, len(content), PART_BYTES))
        parts = "".join(f"{hashlib.sha256(cut).hexdigest()}\n" for cut in cuts)
        kind, version, digest = "sha256-parts", 2, hashlib.sha256(parts.encode()).hexdigest()
    small = hashlib.sha256(b"x").hexdigest()
    lines = f"{digest} - {len(content)} big\0{small} - 1 small\0"
    whole = hashlib.sha256(f"runspec.bundle/v{version}\n{lines}".encode()).hexdigest()
    assert [file.sha256 for file in found.files] == [digest, small]
    assert found.digest == f"{kind}:{whole}"
    assert found.open(found.files[0]).read() == content


# --- while things change ---


def test_a_folder_swapped_for_a_link_leads_nowhere(folder: Path, tmp_path: Path) -> None:
    """Between hashing and reading, `lib` becomes a link to a folder with a file of that name."""
    found = bundle(folder)
    made(tmp_path / "elsewhere", {"model.py": "x = 1\n"})
    shutil.rmtree(folder / "lib")
    (folder / "lib").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(Conflict, match=r"'lib/model.py' changed while it was uploaded"):
        found.open(found.files[0])


def test_a_file_swapped_for_a_link_leads_nowhere(folder: Path, tmp_path: Path) -> None:
    found = bundle(folder)
    (folder / "train.py").rename(tmp_path / "moved")
    (folder / "train.py").symlink_to(tmp_path / "moved")

    with pytest.raises(Conflict):
        found.open(found.files[1])


def test_another_folder_in_its_place_is_seen(folder: Path, tmp_path: Path) -> None:
    found = bundle(folder)
    folder.rename(tmp_path / "old")
    shutil.copytree(tmp_path / "old", folder)

    with pytest.raises(Conflict, match="was replaced by another folder"):
        found.open(found.files[0])


Swap = Callable[[Path], None]


def to_link(folder: Path) -> None:
    (folder / "lib").rename(folder.parent / "lib")
    (folder / "lib").symlink_to(folder.parent / "lib")


def to_file_link(folder: Path) -> None:
    (folder / "lib/model.py").unlink()
    (folder / "lib/model.py").symlink_to("/etc/passwd")


def to_fifo(folder: Path) -> None:
    (folder / "lib/model.py").unlink()
    os.mkfifo(folder / "lib/model.py")


def to_nothing(folder: Path) -> None:
    (folder / "lib/model.py").unlink()


@pytest.mark.parametrize("swap", [to_link, to_file_link, to_fifo, to_nothing])
def test_a_swap_between_walk_and_hash_is_told(
    swap: Swap, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = subject.hash_file

    def swapped(*args: object) -> object:
        swap(folder)
        return hashed(*args)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(subject, "hash_file", swapped)

    assert whats(folder) == ["these change while they are read: 'lib/model.py'"]


@pytest.mark.process
def test_links_are_not_followed_whenever_they_are_swapped(tmp_path: Path) -> None:
    """While another process swaps a folder for a link all the time, no secret gets in."""
    folder = made(tmp_path / "f", {"d/x": "mine", "plain": "p"})
    made(tmp_path / "secrets", {"x": "SECRET"})
    (tmp_path / "link").symlink_to(tmp_path / "secrets")
    swapping = subprocess.Popen(
        ["sh", "-c", "while :; do mv -T f/d d; mv -T link f/d; mv -T f/d link; mv -T d f/d; done"],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    seen: list[bytes] = []
    until = time.monotonic() + 30
    try:
        while len(seen) < 50 and time.monotonic() < until:
            with contextlib.suppress(BundleError, Conflict):
                found = bundle(folder)
                seen += [found.open(file).read() for file in found.files]
    finally:
        swapping.kill()
        swapping.wait()

    assert b"p" in seen
    assert set(seen) <= {b"mine", b"p"}


class Scribe:
    """A file that is written to each time that it is read, for the first *times*."""

    def __init__(self, path: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.times, self.read = path, times, file_digest.hash_content
        monkeypatch.setattr(file_digest, "hash_content", self)
        monkeypatch.setattr(subject, "PAUSE_S", 0)

    def __call__(self, file: object, *args: object) -> object:
        answer = self.read(file, *args)  # type: ignore[arg-type]  # passed on as they came
        if self.times:
            self.times -= 1
            with self.path.open("a") as more:
                more.write("more")
        return answer


def test_a_file_that_comes_to_rest_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(folder, {"lib/model.py": ""})
    os.remove(folder / "train.py")
    Scribe(folder / "lib/model.py", 2, monkeypatch)

    found = bundle(folder)

    assert found.open(found.files[0]).read() == b"moremore"


def test_a_file_that_never_rests_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Scribe(folder / "train.py", 100, monkeypatch)

    assert whats(folder) == ["these change while they are read: 'train.py'"]


def read_in_parts(found: FolderBundle, file: File, part: int) -> None:
    """Read as many bytes as there should be, and never ask for more; a *part* of -1 is all."""
    left = file.bytes
    with found.open(file) as opened:
        while left > 0 and (data := opened.read(part)):
            left -= len(data)


@pytest.mark.parametrize("content", ["print(2)\n", "print(1)\nmore", "print", ""])
@pytest.mark.parametrize("size", [-1, 4, 9])
def test_changed_content_is_never_read_as_if_it_were_not(
    content: str, size: int, folder: Path
) -> None:
    """Also for a reader that never asks for more bytes than there should be."""
    found = bundle(folder)
    file = found.files[1]
    made(folder, {"train.py": content})

    with pytest.raises(Conflict, match=r"'train\.py' changed while it was uploaded"):
        read_in_parts(found, file, size)


@pytest.mark.parametrize("content", ["print(1)\nmore", "print(2)\n", "p"])
def test_a_change_while_it_is_read_is_seen(content: str, folder: Path) -> None:
    found = bundle(folder)
    with found.open(found.files[1]) as opened:
        with open(folder / "train.py", "r+b") as file:
            file.truncate(0)
            file.write(content.encode())

        with pytest.raises(Conflict):
            opened.read()


@pytest.mark.parametrize("large", [3 * folder_scan.MIB + 7, 2 * PART_BYTES + 7])
@pytest.mark.parametrize("at", [0, -1])
def test_a_large_file_is_checked_to_its_last_byte(large: int, at: int, tmp_path: Path) -> None:
    big = os.urandom(large)
    folder = made(tmp_path / "f", {"big": big})
    found = bundle(folder)
    with found.open(found.files[0]) as same:
        assert same.read() == big
    changed = bytearray(big)
    changed[at] ^= 1
    made(folder, {"big": bytes(changed)})

    for size in (65536, -1):
        with pytest.raises(Conflict):
            read_in_parts(found, found.files[0], size)


@pytest.mark.parametrize("change", [-2 * PART_BYTES, -PART_BYTES, -1, 1])
def test_a_large_file_that_changes_its_size_while_it_is_read_is_seen(
    change: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One processor core reads two parts in advance."""
    monkeypatch.setattr(file_digest, "count_cores", lambda: 1)
    folder = made(tmp_path / "f", {"big": b""})
    os.truncate(folder / "big", 5 * PART_BYTES)
    found = bundle(folder)

    with found.open(found.files[0]) as opened:
        opened.read(1)
        os.truncate(folder / "big", 5 * PART_BYTES + change)
        with pytest.raises(Conflict):
            opened.read()


# --- progress and pace ---


@pytest.mark.parametrize("large", [3 * folder_scan.MIB, 3 * PART_BYTES])
def test_progress_goes_up_to_all_of_it(large: int, tmp_path: Path) -> None:
    folder = made(tmp_path / "f", {"a": b"x" * large, "b": "y", "c": ""})
    told: list[tuple[int, int]] = []

    bundle(folder, progress=lambda done, total: told.append((done, total)))

    assert told == sorted(told)
    assert len(told) >= 3
    assert told[-1] == (large + 1, large + 1)


def test_open_descriptors_are_given_back(folder: Path) -> None:
    made(folder, {"big": b"x" * 9 * PART_BYTES})
    found = bundle(folder)
    before = set(os.listdir("/proc/self/fd"))

    bundle(folder)
    for file in found.files:
        found.open(file).close()
    (folder / "lib/model.py").write_text("")
    os.truncate(folder / "big", 1)
    (folder / "train.py").unlink()
    os.mkfifo(folder / "train.py")
    for file in found.files:
        with pytest.raises(Conflict):
            found.open(file)

    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.slow
def test_ten_thousand_files_take_seconds_at_most(tmp_path: Path) -> None:
    """About 1 s of CPU on a machine of 2025; the bound only catches what is quadratic."""
    made(tmp_path / "f", {f"{n % 100}/{n}.txt": str(n) for n in range(10_000)})
    made(tmp_path / "f", {".gitignore": "*.log\n/data/\n**/cache/\nx[0-9]*\n!keep\n"})
    start = time.process_time()

    found = bundle(tmp_path / "f")

    assert len(found.files) == 10_001
    assert time.process_time() - start < 20


def test_a_file_alone_is_a_folder_with_that_file(tmp_path: Path) -> None:
    """It has the name that the job gives it, and is taken although git ignores it, because the spec names it."""
    folder = made(tmp_path / "f", {"main.py": "x", "other": "y", ".gitignore": "main.py\n"})
    alone = made(tmp_path / "alone", {"train.py": "x"})
    (tmp_path / "link").symlink_to(folder / "main.py")

    found = bundle_file(tmp_path / "link", "train.py")

    assert found.source == Source(bundle(alone).digest, 1, 1, is_file=True)
    with found.open(found.files[0]) as opened:
        assert opened.read() == b"x"


@pytest.mark.parametrize("named", [".env", "link", ".ssh/config"])
def test_a_file_alone_that_looks_like_a_secret_is_refused(named: str, tmp_path: Path) -> None:
    """By its name, that of the file it leads to, or that of its folder; a line in .runspecignore permits it."""
    made(tmp_path, {".env": "x", ".ssh/config": "x", ".gitignore": ".env\n"})
    (tmp_path / "link").symlink_to(".env")

    with pytest.raises(BundleError, match="these look like secrets"):
        bundle_file(tmp_path / named, "a")

    (tmp_path / ".runspecignore").write_text("!.env\n")
    if named != ".ssh/config":
        assert bundle_file(tmp_path / named, "a").source.is_file
