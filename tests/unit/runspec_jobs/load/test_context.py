"""The context of an image that is built: which files it has, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runspec_jobs.document import reader
from runspec_jobs.load import inputs, registry
from runspec_jobs.load.folder_scan import BundleError
from runspec_jobs.provider import Facts, Source
from runspec_jobs.spec import validate
from runspec_jobs.spec.models.container import Build

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def context(*files: str, **texts: str) -> Path:
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        for name in ("Containerfile", *files):
            path = tmp_path / "c" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        for name, text in texts.items():
            (tmp_path / "c" / f".{name}").write_text(text)
        return tmp_path

    return context


def opened(base: Path, **fields: Any) -> list[str]:
    build = Build(**{"context": "./c", **fields})
    found = inputs.open_context(build, base, lambda _: lambda *_: None)
    return [file.path for file in found.files if not file.path.startswith(".")]


FILES = ("a.py", "out/b", "src/a.py", "src/out/c", "README.md", "docs/d.md")
# The lines of an ignore file, and the files that are left, as docker counts them.
IGNORED: dict[str, tuple[str, set[str]]] = {
    "a name is that at the top": ("out\n", {"out/b"}),
    "a pattern is for the top as well": ("*.py\n", {"a.py"}),
    "two stars are for every folder": ("**/*.py\n", {"a.py", "src/a.py"}),
    "a slash and spaces mean nothing": ("  /out/ \n\n#x\n", {"out/b"}),
    "all but what is named": ("*\n!src\n!Containerfile\n", {*FILES} - {"src/a.py", "src/out/c"}),
    "the last line counts": ("docs/*\n!docs/d.md\n*.md\n", {"README.md"}),
    "a Containerfile is always there": ("Containerfile\n", set()),
}


@pytest.mark.parametrize("name", IGNORED)
def test_patterns_are_those_of_docker(make: Make, name: str) -> None:
    text, gone = IGNORED[name]

    found = opened(make(*FILES, dockerignore=text, gitignore="*\n"))

    assert set(found) == {"Containerfile", *FILES} - gone


def test_the_ignore_file_of_podman_comes_first(make: Make) -> None:
    base = make("a", "b", dockerignore="a\n", containerignore="b\n")

    assert opened(base) == ["Containerfile", "a"]


@pytest.mark.parametrize("text", ["docs\n!docs/d.md\n", "*\n!**/d.md\n"])
def test_an_exception_below_a_folder_that_is_left_out_is_refused(make: Make, text: str) -> None:
    """Docker would take the file, and a walk that does not enter the folder would not."""
    with pytest.raises(BundleError, match="patterns that take what is in a folder"):
        opened(make(*FILES, dockerignore=text))


def test_a_link_out_of_the_context_is_refused(make: Make) -> None:
    base = make()
    (base / "secret").write_text("")
    (base / "c" / "link").symlink_to(base / "secret")

    with pytest.raises(BundleError, match="links that leave the folder"):
        opened(base)


def test_a_key_that_would_be_part_of_an_image_is_refused(make: Make) -> None:
    with pytest.raises(BundleError, match="these look like secrets"):
        opened(make("id_rsa"))


def test_a_context_without_a_containerfile_is_refused(make: Make) -> None:
    base = make("a")
    (base / "c" / "Containerfile").unlink()

    with pytest.raises(BundleError, match="c has no Containerfile or Dockerfile"):
        opened(base)
    with pytest.raises(BundleError, match="c has no x/y"):
        opened(base, file="x/y")


TEXT = """\
apiVersion: runspec/v1
name: job
provider: {provider}
container: {{build: {{context: ./}}}}
command: [echo]
"""


@pytest.mark.parametrize("provider", ["azure-batch-ai", "local"])
def test_a_provider_that_builds_none_says_what_to_run(provider: str) -> None:
    """On this machine, that is one without an engine."""
    wanted, wrong = validate.parse_spec(reader.read(TEXT.format(provider=provider)))
    assert wanted is not None, wrong
    loaded = registry.load(provider)
    survey = {"engine": "process", "engine_why": "podman: not found", "cpus": 1}
    facts = Facts(loaded.options_model(), survey=survey, complete=provider == "local")

    found = loaded.check(wanted, facts)

    (mine,) = [p for p in found if p.path == ("container", "build")]
    assert mine.severity == "error"
    assert mine.hint is not None and "podman" in mine.hint


def test_a_plan_names_the_image_for_its_content() -> None:
    wanted, wrong = validate.parse_spec(reader.read(TEXT.format(provider="local")))
    assert wanted is not None, wrong
    loaded = registry.load("local")
    survey = {"engine": "podman", "root": "/r", "cpus": 4}

    def plan(digest: str) -> dict[str, Any]:
        sources = {".build": Source("sha256:" + digest * 64, 1, 1)}
        facts = Facts(loaded.options_model(), sources, survey=survey)
        return {step.id: step.do.params for step in loaded.plan(wanted, "job-a", facts)}

    one, other = plan("1"), plan("2")
    assert list(one) == ["context", "image", "job"]
    assert one["image"]["context"] == one["context"]["path"]
    assert one["job"]["container"]["image"] == one["image"]["image"] != other["image"]["image"]
