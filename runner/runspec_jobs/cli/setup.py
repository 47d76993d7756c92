"""`runspec init`, `doctor`, `schema` and `providers`."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from runspec_jobs.cli import diagnostics, output
from runspec_jobs.diagnostics.render import Format, placed, plain
from runspec_jobs.errors import OK, Conflict, Lacking, RunspecError, Unavailable, UsageError
from runspec_jobs.load import inputs, registry, source, trust
from runspec_jobs.load.source import InvalidSpec
from runspec_jobs.provider import (
    Finding,
    Options,
    SupportsDoctor,
    SupportsNodeDoctor,
    SupportsProfileTemplate,
    paths,
)
from runspec_jobs.spec import validate
from runspec_jobs.spec.types import NAME
from runspec_jobs.state import atomic_io

FIRST = """\
# yaml-language-server: $schema={schema}
apiVersion: runspec/v1
name: {name}
provider: {provider}               # the one field to change to run it elsewhere

cluster:
  nodes: 1                    # cpus, memory, gpus and disk are for each node
  cpus: 1

outputs:
  - {{name: results, path: /job/results, sync: 30s}}    # saved, also if the job fails

env: {{GREETING: hello}}

run: |
  echo "$GREETING from $RUNSPEC_RUN"
  date > "${{outputs.results}}/when.txt"
"""


def init(path: Path, provider: str, *, as_json: bool) -> int:
    if provider not in [*registry.installed(), *registry.EXPECTED]:
        raise UsageError(*registry.missing(provider))
    schema = path.parent / ".runspec" / "job.schema.json"
    _write_spec(path, schema, provider)
    first = _introduced(provider)
    there = paths.find_profile(path.parent)
    made = None
    if first is not None and there is None:
        made = _write_profile(path.parent / paths.PROFILE, first)
    if as_json:
        output.out_json({"file": str(path), "schema": str(schema), "profile": made and str(made)})
        return OK
    output.tell(f"wrote {path}, and its JSON Schema for your editor, {schema}")
    if made is not None:
        trust_it = f"runspec trust {shlex.quote(str(made))}"
        output.tell(f"fill in {made}, then run: {trust_it}")
        output.tell(f"to check the profile: runspec doctor {provider}")
    elif first is not None and there is not None and not _tells(there.path, provider):
        output.tell(f"{there.path} has no settings of {provider}; add and fill in these:")
        output.out(first.rstrip("\n"))
    output.tell(f"next: runspec {'apply' if first is None else 'plan'} {path}")
    return OK


def _write_spec(path: Path, schema: Path, provider: str) -> None:
    """Write a first spec, and the schema beside it. Raises Conflict if the spec exists."""
    name = re.sub(r"[^a-z0-9-]+", "-", path.name.split(".")[0].lower()).strip("-")
    name = name if re.fullmatch(NAME, name) else "job"
    text = FIRST.format(name=name, provider=provider, schema=f".runspec/{schema.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        schema.parent.mkdir(exist_ok=True)
        with atomic_io.replaced(schema) as written:
            written.write(job_schema_text().encode())
    except FileExistsError as exc:
        raise Conflict(f"{path} already exists", "name another file: runspec init FILE") from exc
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {(exc.strerror or str(exc)).lower()}") from exc


def _write_profile(path: Path, text: str) -> Path:
    """Write a first profile, mark it as trusted, and return its path."""
    data = text.encode()
    try:
        with path.open("xb") as new:
            new.write(data)
    except OSError as exc:
        raise UsageError(f"cannot write {path}: {(exc.strerror or str(exc)).lower()}") from exc
    trust.add(path, data)
    return path


def _introduced(name: str) -> str | None:
    """Return the profile template of a provider that needs a profile, else None."""
    provider = registry.load(name) if name in registry.installed() else None
    return provider.first_profile() if isinstance(provider, SupportsProfileTemplate) else None


def _tells(path: Path, name: str) -> bool:
    """Return whether the profile at *path* has settings of *name*, or is invalid, which `plan` reports."""
    try:
        return name in inputs.profile_in(source.read_file(path)).providers
    except (RunspecError, InvalidSpec):
        return True


def options_models() -> dict[str, type[Options]]:
    """Return the options models of the providers that are part of runspec itself."""
    own = {"runspec-jobs"}
    points = registry.installed().items()
    return {
        name: registry.load(name).options_model
        for name, point in points
        if point.dist is not None and point.dist.name in own
    }


def job_schema_text() -> str:
    from runspec_jobs.plan.schema import job_schema

    return json.dumps(job_schema(options_models()), indent=2) + "\n"


def schema(*, reference: bool) -> int:
    from runspec_jobs.plan import schema as schemas

    if reference:
        sys.stdout.write(schemas.reference(schemas.full_schema(options_models())))
    else:
        sys.stdout.write(job_schema_text())
    return OK


def providers(*, as_json: bool) -> int:
    rows = []
    for name, point in registry.installed().items():
        row = {"name": name, "package": registry.package(point), "works": True, "why": ""}
        try:
            registry.load(name)
        except RunspecError as exc:
            row |= {"works": False, "why": exc.message}
        rows.append(row)
    if as_json:
        output.out_json(rows)
        return OK
    for row in rows:
        output.out(
            f"{row['name']:18} {row['package']}{'' if row['works'] else '  ' + str(row['why'])}"
        )
    for name in registry.EXPECTED:
        if name not in registry.installed():
            output.out(f"{name:18} does not exist yet")
    return OK


def doctor(provider: str | None, *, node: bool, as_json: bool) -> int:
    """Print each finding as soon as it is made, because some checks take long."""
    names = [provider] if provider else list(registry.installed())
    found = []
    for about, finding in _findings(names, node=node):
        found.append((about, finding))
        if not as_json:
            output.out(f"{'ok ' if finding.ok else 'BAD'} {about}: {plain(finding.what)}")
            if finding.hint and not finding.ok:
                output.out(f"      hint: {plain(finding.hint)}")
    if as_json:
        output.out_json([{"about": about, **finding._asdict()} for about, finding in found])
    return OK if all(finding.ok for _, finding in found) else Unavailable.exit_code


def _findings(names: Iterable[str], *, node: bool) -> Iterator[tuple[str, Finding]]:
    for finding in _profile():
        yield "profile", finding
    for name in names:
        try:
            with registry.extras():
                for finding in _examine(name, node=node):
                    yield name, finding
        except Lacking as exc:
            yield name, Finding(exc.message, False, exc.hint)


def _profile() -> list[Finding]:
    place = paths.find_profile(Path.cwd())
    if place is None:
        return [Finding("none found (runspec init --provider NAME writes one)", True)]
    try:
        inputs.profile_in_use(Path.cwd())
    except InvalidSpec as exc:
        diagnostics.print_all(exc.texts, Format.TEXT)
        return [Finding(f"{place.path} is invalid", False, "see the errors above")]
    except RunspecError as exc:
        return [Finding(exc.message, False, exc.hint)]
    return [Finding(f"{place.path} can be read", True)]


def _examine(name: str, *, node: bool) -> Iterable[Finding]:
    provider = registry.load(name)
    if not isinstance(provider, SupportsDoctor):
        return [Finding("this provider has no checks", True)]
    own = inputs.profile_in_use(Path.cwd())
    text, at = own.text, ("providers", name)
    options, problems = validate.model(provider.options_model, own.settings(name), at)
    if options is not None:
        inputs.demand_trust(own, provider)
        return _looked(provider, options, node=node)
    assert text is not None and text.document is not None, (
        "BUG: settings that no file has are wrong"
    )
    found = placed(text.name, text.document, problems)
    return [
        Finding(f"{c.file}:{c.line}:{c.column}: {c.path}: {c.what}", False, c.hint) for c in found
    ]


def _looked(provider: SupportsDoctor, options: Options, *, node: bool) -> Iterator[Finding]:
    """Yield the findings of a provider; with *node*, those from a node too, if nothing stops a job before."""
    well = True
    for finding in provider.examine(options):
        well = well and finding.ok
        yield finding
    if not node:
        return
    if not isinstance(provider, SupportsNodeDoctor):
        yield Finding("this provider has no checks from a node", True)
    elif not well:
        yield Finding("the check from a node was skipped: fix the problems above first", False)
    else:
        yield from provider.examine_node(options)
