"""The house is in order: the walls around tests, the lists nobody may forget, what is shipped."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from runspec_jobs import __version__
from tests.conftest import hear
from tests.support.requirements import need
from tests.support.root import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINTER = PROJECT["tool"]["importlinter"]
CONTRACTS = {contract["id"]: contract for contract in LINTER["contracts"]}
PACKAGES = {
    f.parent.name
    for root in ("runner", "providers", "emulators")
    for f in ROOT.glob(f"{root}/*/*.py")
}
PROVIDERS = {f.relative_to(ROOT).parts[1] for f in ROOT.glob("providers/**/provider.py")}
DATA = {"runspec_ec2"}  # what several providers share
SHARED = {"runspec_images", "runspec_objects"}  # the same, with effects
IMPORTERS = {"runspec_imports"}  # of formats that belong to no provider


def kept() -> list[str]:
    """Every file that is part of the project, committed or about to be."""
    need("git")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


# The walls


@pytest.mark.parametrize("host", ["192.0.2.1", "8.8.8.8", "2001:db8::1"])
def test_no_test_connects_beyond_this_machine(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET

    with (
        socket.socket(family) as sock,
        pytest.raises(RuntimeError, match="must not leave this machine"),
    ):
        sock.connect((host, 80))


def test_no_test_sends_a_datagram_beyond_this_machine() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        pytest.raises(RuntimeError, match="must not leave this machine"),
    ):
        sock.sendto(b"x", ("192.0.2.1", 9))


def test_no_test_asks_for_a_name_beyond_this_machine() -> None:
    with pytest.raises(RuntimeError, match="must not leave this machine"):
        socket.create_connection(("example.org", 80))


@pytest.mark.process
def test_a_test_may_talk_to_this_machine() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(("localhost", server.getsockname()[1])) as client,
    ):
        assert client.getpeername()[0] == "127.0.0.1"


def test_every_test_has_a_home_of_its_own() -> None:
    home = Path(os.environ["HOME"])

    assert list(home.iterdir()) == []
    assert Path(os.environ["RUNSPEC_HOME"]).is_relative_to(home)
    assert "RUNSPEC_PROFILE" not in os.environ


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_processes_of_tests_get_signals_in_a_background_run(
    number: signal.Signals,
) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        hear()
        kill = f"kill -{number.value} $$; echo it goes on"
        done = subprocess.run(["sh", "-c", kill], capture_output=True, check=False)
    finally:
        signal.signal(number, before)

    assert (done.returncode, done.stdout) == (-number, b"")


# The lists


@pytest.mark.parametrize("contract", ["one-door", "strangers", "core"])
def test_every_provider_stands_in_the_import_contracts(contract: str) -> None:
    keys = ("source_modules", "modules", "forbidden_modules")
    named = {name for key in keys for name in CONTRACTS[contract].get(key, ())}

    assert named >= PROVIDERS


def test_every_provider_may_go_through_the_one_door() -> None:
    rooms = PROVIDERS | DATA | SHARED | IMPORTERS
    wanted = {
        f"{name} -> runspec_jobs.provider{groups}"
        for p in rooms
        for name in (p, f"{p}.**")
        for groups in ("", ".**")
    }

    assert set(CONTRACTS["one-door"]["ignore_imports"]) == wanted


def test_the_import_linter_sees_every_package() -> None:
    assert set(LINTER["root_packages"]) == PACKAGES


def test_every_package_is_held_free_of_import_cycles() -> None:
    assert set(CONTRACTS["acyclic"]["ancestors"]) == PACKAGES
    assert "skip_descendants" not in CONTRACTS["acyclic"]


def test_all_layers_below_the_plan_are_pure() -> None:
    """The contract of purity names reports, plans, every layer below plans, and data that providers share."""
    layers = CONTRACTS["layers"]["layers"]
    below = layers[layers.index("plan") :]

    pure = {f"runspec_jobs.{layer}" for layer in ("report", *below)}
    assert set(CONTRACTS["pure"]["source_modules"]) == pure | DATA


def requirements() -> Iterator[Requirement]:
    project = PROJECT["project"]
    lists = [project["dependencies"], PROJECT["build-system"]["requires"]]
    lists += [*project["optional-dependencies"].values(), *PROJECT["dependency-groups"].values()]
    for text in (text for texts in lists for text in texts):
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) != project["name"]:
            yield requirement


def test_every_dependency_is_pinned() -> None:
    """What pyproject.toml asks for, constraints.txt pins to a version that satisfies it."""
    text = (ROOT / "constraints.txt").read_text()
    pins = dict(re.findall(r"^([a-z0-9-]+)==([^ ;]+)", text, re.MULTILINE))

    unmet = [
        str(wanted)
        for wanted in requirements()
        if not wanted.specifier.contains(pins.get(canonicalize_name(wanted.name), "0"))
    ]

    assert unmet == [], "run tools/pin"


def test_every_pin_has_a_hash() -> None:
    text = (ROOT / "constraints.txt").read_text()
    pins = re.findall(r"^[a-z0-9-]+==.*", text, re.MULTILINE)

    assert pins
    assert [pin for pin in pins if not pin.endswith("\\")] == []


# The files


@pytest.mark.process
def test_every_spec_tells_editors_its_schema() -> None:
    names = [name for name in kept() if re.fullmatch(r"(specs|bench)/.*\.ya?ml", name)]
    specs = [ROOT / n for n in names if "apiVersion: runspec/" in (ROOT / n).read_text()]

    without = [s.name for s in specs if schema_of(s) != ROOT / "schemas" / "job.schema.json"]

    assert without == []


def schema_of(spec: Path) -> Path | None:
    """Give the schema that the first line of *spec* names."""
    first = spec.read_text().partition("\n")[0]
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    return (spec.parent / named[1]).resolve() if named else None


@pytest.mark.process
def test_no_file_names_a_package_index_or_a_path_of_this_machine() -> None:
    hosts = r"py[p]i\.org|python[h]osted|registry\.n[p]mjs|deb\.d[e]bian\.org"
    foreign = re.compile(f"({hosts}|{re.escape(str(ROOT))}(?![a-z0-9]))")

    found = []
    for name in kept():
        text = (ROOT / name).read_bytes().decode(errors="replace")
        lines = enumerate(text.splitlines(), 1)
        found += [f"{name}:{number}" for number, line in lines if foreign.search(line)]

    assert found == []


@pytest.mark.parametrize(
    "name,chosen",
    [
        ("job.yaml", True),
        ("runspec.yml", True),
        ("training/job.yaml", True),
        ("mnist.job.yaml", True),
        ("a/mnist.runspec.yml", True),
        ("jobs/nightly/eval.yaml", True),
        ("specs/mnist.yaml", True),
        ("compose.yaml", False),
        ("myjob.yaml", False),
        ("job.yaml.orig", False),
        ("job.json", False),
        ("src/jobs.yaml", False),
        (".github/workflows/job-test.yaml", False),
    ],
)
def test_the_hook_looks_at_specs_and_nothing_else(name: str, chosen: bool) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())

    assert bool(re.search(hook["files"], name)) == chosen


# What is shipped


def built(target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.iterdir()
    return file


@pytest.mark.process
def test_the_wheel_holds_the_packages_and_nothing_else(tmp_path: Path) -> None:
    with zipfile.ZipFile(built("wheel", tmp_path)) as wheel:
        names = wheel.namelist()

    folders = {name.split("/")[0] for name in names}
    assert {f for f in folders if not f.endswith(".dist-info")} == PACKAGES
    sources = {
        n.split("/", 1)[1] for n in kept() if n.startswith(("runner/", "providers/", "emulators/"))
    }
    pages = {
        f"runspec_jobs/manual/pages/{n.removeprefix('docs/')}"
        for n in kept()
        if re.fullmatch(r"docs/[^/]+\.md", n)
    }
    assert {n for n in names if ".dist-info/" not in n} == sources | pages


@pytest.mark.process
def test_the_sdist_holds_every_file_of_the_project(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames()}

    assert set(kept()) - names == set()


def test_all_files_have_the_same_version() -> None:
    """The package, the module, the newest release in the changelog and the hook of the README agree."""
    version = PROJECT["project"]["version"]
    released = re.findall(
        r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d\n\n\w",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
    rev = re.findall(r"^ *rev: (\S+)", (ROOT / "README.md").read_text(), re.MULTILINE)

    assert __version__ == version
    assert released[0] == version
    assert rev == [f"v{version}"]


def test_the_readme_has_one_placeholder_and_no_address_of_nobody() -> None:
    text = (ROOT / "README.md").read_text()

    assert len(re.findall(r"\bURL\b", text)) == 1
    assert re.findall(r"example\.\w+|github\.com/(?:OWNER|you|user)\b", text) == []
    hosts = set(re.findall(r"https?://([^/\s)]+)", text))
    assert hosts <= {"github.com", "download.pytorch.org"}
