"""`runspec init`, `doctor`, `schema`, `providers` and `completion`."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from pathlib import Path

from runspec import check, gather, home, profile, registry
from runspec.cli import complaining, console
from runspec.errors import OK, Conflict, RunspecError, Unavailable, UsageError
from runspec.job import Wrong
from runspec.provider import Doctor, Finding, Introduces, Options
from runspec.report import plain
from runspec.scalars import NAME

FIRST = """\
# yaml-language-server: $schema={schema}
apiVersion: runspec/v1
name: {name}
provider: {provider}               # the one field to change to run it elsewhere

cluster:
  nodes: 1                    # these are per node: cpus, memory, gpus, disk
  cpus: 1

outputs:
  - {{name: results, path: /job/results, sync: 30s}}    # kept, also when the job fails

env: {{GREETING: hello}}

run: |
  echo "$GREETING from $RUNSPEC_RUN"
  date > "${{outputs.results}}/when.txt"
"""


def init(args: Namespace) -> int:
    if args.provider not in [*registry.installed(), *registry.EXPECTED]:
        raise UsageError(*registry.missing(args.provider))
    path = Path(args.file)
    name = re.sub(r"[^a-z0-9-]+", "-", path.name.split(".")[0].lower()).strip("-")
    name = name if re.fullmatch(NAME, name) else "job"
    schema = path.parent / ".runspec" / "job.schema.json"
    text = FIRST.format(name=name, provider=args.provider, schema=f".runspec/{schema.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        schema.parent.mkdir(exist_ok=True)
        schema.write_text(_schema_text(), encoding="utf-8")
    except FileExistsError as exc:
        raise Conflict(f"{path} is there already", "name another: runspec init FILE") from exc
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {(exc.strerror or str(exc)).lower()}") from exc
    settings = _first_profile(args.provider, path.parent)
    if args.json:
        console.out_json({"file": str(path), "schema": str(schema), "profile": settings})
    else:
        console.tell(f"wrote {path}, and {schema} for editors")
        if settings is not None:
            console.tell(f"fill in {settings}; runspec doctor {args.provider} looks at it")
        console.tell(f"next: runspec apply {path}")
    return OK


def _first_profile(name: str, folder: Path) -> str | None:
    """Write the profile that a provider needs, where none is found; give its path."""
    if name not in registry.installed() or home.profile_path(folder) is not None:
        return None
    provider = registry.load(name)
    if not isinstance(provider, Introduces):
        return None
    path = folder / home.PROFILE
    path.write_text(provider.first_profile(), encoding="utf-8")
    return str(path)


def _models() -> dict[str, type[Options]]:
    """Give the options models of the providers that come with runspec itself."""
    own = {"runspec-jobs"}
    points = registry.installed().items()
    return {
        name: registry.load(name).options_model
        for name, point in points
        if point.dist is not None and point.dist.name in own
    }


def _schema_text() -> str:
    from runspec.schema import job_schema

    return json.dumps(job_schema(_models()), indent=2) + "\n"


def schema(args: Namespace) -> int:
    from runspec.schema import job_schema, reference

    if args.reference:
        sys.stdout.write(reference(job_schema(_models())))
    else:
        sys.stdout.write(_schema_text())
    return OK


def providers(args: Namespace) -> int:
    rows = []
    for name, point in registry.installed().items():
        row = {"name": name, "package": registry.package(point), "works": True, "why": ""}
        try:
            registry.load(name)
        except RunspecError as exc:
            row |= {"works": False, "why": exc.message}
        rows.append(row)
    if args.json:
        console.out_json(rows)
        return OK
    for row in rows:
        console.out(
            f"{row['name']:18} {row['package']}{'' if row['works'] else '  ' + str(row['why'])}"
        )
    for name in registry.EXPECTED:
        if name not in registry.installed():
            console.out(f"{name:18} not there yet")
    return OK


def doctor(args: Namespace) -> int:
    names = [args.provider] if args.provider else list(registry.installed())
    found: list[tuple[str, Finding]] = [("profile", finding) for finding in _profile()]
    for name in names:
        found += [(name, finding) for finding in _examine(name)]
    bad = [finding for _, finding in found if not finding.ok]
    if args.json:
        console.out_json([{"about": about, **finding._asdict()} for about, finding in found])
    else:
        for about, finding in found:
            console.out(f"{'ok ' if finding.ok else 'BAD'} {about}: {plain(finding.what)}")
            if finding.hint and not finding.ok:
                console.out(f"      hint: {finding.hint}")
    return Unavailable.exit_code if bad else OK


def _profile() -> list[Finding]:
    path = home.profile_path(Path.cwd())
    if path is None:
        return [Finding("there is none; every provider has its defaults", True)]
    try:
        gather.read_profile(path)
    except Wrong as exc:
        complaining.print_all(exc.texts, None)
        return [Finding(f"{path} is wrong", False, "see above")]
    except RunspecError as exc:
        return [Finding(exc.message, False, exc.hint)]
    return [Finding(str(path), True)]


def _examine(name: str) -> list[Finding]:
    provider = registry.load(name)
    if not isinstance(provider, Doctor):
        return [Finding("it cannot look for trouble by itself", True)]
    path = home.profile_path(Path.cwd())
    found = profile.Profile() if path is None else gather.read_profile(path)
    options, problems = check.model(provider.options_model, found.providers.get(name, {}))
    if options is None:
        return [Finding(f"its settings in the profile: {p.what}", False, p.hint) for p in problems]
    return list(provider.examine(options))


def completion(args: Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["runspec"], shell=args.shell))
    return OK
