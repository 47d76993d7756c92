"""`runspec rehearse`: the very plan of a cloud job, carried out against stand-ins on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path

from runspec import gather, home, job, profile, record, registry
from runspec.cli import applying, console, ending, fetching
from runspec.errors import Unavailable
from runspec.job import Wrong
from runspec.provider import Rehearsal, Rehearses
from runspec.tree import Text, kind


def rehearse(args: Namespace) -> int:
    """Apply, fetch and destroy where nothing costs; give the exit code of the job."""
    provider = registry.load(_provider_name(args))
    if not isinstance(provider, Rehearses):
        raise Unavailable(
            f"there is nothing to rehearse for '{provider.name}'", "runspec apply runs it here"
        )
    settings = dict(_profile(Path(args.file).parent).providers.get(provider.name, {}))
    with _folder(args) as folder, provider.rehearse(settings, folder, args.engine) as stage:
        _step_into(stage, provider.name, folder)
        told = Namespace(
            **vars(args) | {"detach": False, "new": True, "timeout": None, "verb": "apply"}
        )
        code = applying.apply(told)
        run = record.all_runs()[-1].run
        if args.folder is not None:
            fetching.fetch(
                Namespace(run=run, output=None, to=str(folder / "outputs"), json=args.json)
            )
        ending.destroy(Namespace(run=run, site=False, json=args.json))
        ending.destroy(Namespace(run=None, site=True, json=args.json))
    return code


def _provider_name(args: Namespace) -> str:
    text = job.read_file(Path(args.file))
    spec, problems = job.validated(text)
    if spec is None:
        if text.document is not None:
            text.complain(problems)
        raise Wrong(text)
    return spec.provider


def _profile(folder: Path) -> profile.Profile:
    path = home.profile_path(folder)
    return profile.Profile() if path is None else gather.read_profile(path)


@contextlib.contextmanager
def _folder(args: Namespace) -> Iterator[Path]:
    """Give the folder that was named, or one that goes away."""
    if args.folder is not None:
        folder = Path(args.folder).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    console.tell("what the job writes goes away at its end: --folder FOLDER keeps it")
    folder = Path(tempfile.mkdtemp(prefix="runspec-rehearsal-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _step_into(stage: Rehearsal, provider: str, folder: Path) -> None:
    """Lead this process to the stand-ins, and away from the user's own runs and profile."""
    path = folder / "profile.yaml"
    path.write_text(_flow({"providers": {provider: dict(stage.options)}}))
    path.chmod(0o600)
    console.tell(f"rehearsing on this machine, below {folder}")
    os.environ.update(stage.env)
    os.environ.update(RUNSPEC_HOME=str(folder / "home"), RUNSPEC_PROFILE=str(path))


def _flow(value: object) -> str:
    """Give *value* as YAML that reads as it was read: a number in a profile is none in quotes.

    >>> _flow({"max_vcpus": Text("64"), "region": Text("eu-central-1")})
    '{"max_vcpus": 64, "region": "eu-central-1"}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    return str(value) if isinstance(value, Text) and kind(value) != "str" else json.dumps(value)
