"""What travels: small, the same bytes everywhere, and readable by old Pythons."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runspec_agent import extensions
from runspec_jobs.errors import Unavailable
from runspec_jobs.provider.payload import pack_agent, strip_inside_sh, strip_signed
from tests.support.agent.shells import FILE

ENTRIES = zipfile.ZipFile(io.BytesIO(pack_agent())).namelist()


def test_the_zipapp_is_the_same_each_time() -> None:
    """It is named by its hash in plans."""
    assert pack_agent() == pack_agent()


def test_the_zipapp_holds_no_moment_and_no_machine() -> None:
    """Nothing compressed, no time but the zip format's first, the same rights."""
    infos = zipfile.ZipFile(io.BytesIO(pack_agent())).infolist()

    found = {(i.date_time, i.compress_type, i.external_attr, i.create_system) for i in infos}
    assert found == {((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED, 0o644 << 16, 3)}


def test_the_zipapp_holds_all_of_the_package() -> None:
    """But for what makes it; its start is its own first module."""
    package = FILE.parent
    modules = {f"runspec_agent/{f.relative_to(package)}" for f in package.rglob("*.py")}

    others = {"__main__.py", "runspec_agent/inside.sh"}
    assert set(ENTRIES) == modules - {"runspec_agent/job/zipapp_main.py"} | others


@pytest.mark.parametrize("name", [name for name in ENTRIES if name.endswith(".py")])
def test_the_zipapp_is_python_3_6(name: str) -> None:
    """The oldest in images that are still about."""
    source = zipfile.ZipFile(io.BytesIO(pack_agent())).read(name)

    ast.parse(source, feature_version=(3, 6))


@pytest.mark.process
def test_the_zipapp_needs_nothing_but_python(tmp_path: Path) -> None:
    """Isolated from all that is installed."""
    app = tmp_path / "inside.pyz"
    app.write_bytes(pack_agent())

    done = subprocess.run([sys.executable, "-I", "-S", str(app), "launch", "--", "true"])

    assert done.returncode == 0


@pytest.mark.process
def test_a_verb_brings_no_other_one(tmp_path: Path) -> None:
    """A zipapp compiles what it imports each time, and an array has many tasks."""
    app = tmp_path / "inside.pyz"
    app.write_bytes(pack_agent())
    argv = [sys.executable, "-v", "-IS", str(app), "relay"]

    said = subprocess.run(argv, capture_output=True, text=True, check=False).stderr

    brought = set(re.findall(r"^import 'runspec_agent\.([\w.]+)'", said, re.MULTILINE))
    assert "job.port_relay" in brought
    assert not {"job.agent", "job.slurm_batch", "launch.file_rsh", "transfer.folder_sync"} & brought


@pytest.mark.parametrize(
    "name, text", [("inside.sh", strip_inside_sh()), ("signed.sh", strip_signed())]
)
def test_the_shell_text_loses_its_comments_only(name: str, text: str) -> None:
    """The lines that do something are all there, in order."""
    lines = [line.strip() for line in FILE.with_name(name).read_text().splitlines()]

    kept = [line for line in lines if line and not line.startswith("#")]
    assert text.splitlines() == kept


def test_the_python_in_the_shell_text_has_no_blocks_to_lose() -> None:
    """Indents are taken off."""
    source = strip_signed().partition("_rs_py='")[2].partition("'")[0]

    assert "urllib" in source
    ast.parse(source, feature_version=(3, 6))


def installed(folder: Path, points: str) -> None:
    """Write a package with a store, and the metadata of a distribution `tiny` with *points*, into *folder*."""
    for name, text in {
        "tiny_agent/__init__.py": "raise RuntimeError('it was imported')\n",
        "tiny_agent/store.py": "class Store: ...\n",
        "tiny_agent/notes.txt": "of no use in a job",
        "tiny_vault.py": "def fill(bucket, env): ...\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/entry_points.txt": points,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_extensions_of_a_distribution_are_packed_without_importing_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(
        tmp_path,
        "[runspec.agent.stores]\ntiny = tiny_agent.store:Store\n"
        "[runspec.agent.secrets]\nTINY_VAULT = tiny_vault:fill\n"
        "[console_scripts]\ntiny = other:main\n",
    )
    monkeypatch.syspath_prepend(tmp_path)

    packed = zipfile.ZipFile(io.BytesIO(pack_agent("tiny")))

    assert packed.namelist() == [
        *ENTRIES,
        "tiny_agent/__init__.py",
        "tiny_agent/store.py",
        "tiny_vault.py",
    ]
    tables: dict[str, dict[str, str]] = {}
    exec(packed.read("runspec_agent/extensions.py"), tables)
    assert tables["STORES"] == {**extensions.STORES, "tiny": "tiny_agent.store:Store"}
    assert list(tables["SECRETS"]) == [*extensions.SECRETS, "TINY_VAULT"]
    assert tables["PREEMPTION"] == extensions.PREEMPTION
    assert pack_agent("tiny") == pack_agent("tiny")
    assert "tiny_agent" not in sys.modules


@pytest.mark.parametrize("name", ["runspec-jobs", None])
def test_the_agent_of_our_own_providers_has_no_extensions(name: str | None) -> None:
    assert pack_agent(name) == pack_agent()


@pytest.mark.parametrize(
    "distribution, what",
    [
        ("no-such-thing", "the distribution 'no-such-thing' is not installed"),
        ("tiny", "'gone', which the agent of a provider needs, is not installed"),
    ],
)
def test_an_extension_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distribution: str, what: str
) -> None:
    installed(tmp_path, "[runspec.agent.stores]\ngone = gone.store:Store\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(Unavailable, match=f"^{what}$"):
        pack_agent(distribution)
