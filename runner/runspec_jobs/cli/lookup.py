"""`runspec schema`, `explain`, `docs` and `providers`: what runspec knows of itself."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from pathlib import Path

from runspec_jobs.api import machine
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.problem import did_you_mean
from runspec_jobs.errors import OK, UsageError
from runspec_jobs.options.setup_verbs import DocsOptions, ExplainOptions, ProvidersOptions
from runspec_jobs.options.spec_verbs import SchemaOptions

PAGE_WIDTH = 100  # columns of a page at a wide terminal


def schema(options: SchemaOptions) -> int:
    if options.form is not None:
        return _format_schema(options.form, reference=options.reference)
    sys.stdout.write(machine.make_reference() if options.reference else machine.make_job_schema())
    return OK


def _format_schema(form: str, *, reference: bool) -> int:
    from runspec_jobs.cli.json_formats import schemas

    if reference:
        raise UsageError(f"--reference cannot be used with {form}", f"remove {form}")
    known = schemas.schemas()
    if form not in known:
        hint = did_you_mean(form, known) or "runspec docs json lists the formats"
        raise UsageError(f"there is no format '{form}'", hint)
    output.out(schemas.text(known[form]))
    return OK


def explain(options: ExplainOptions) -> int:
    explanation = machine.explain(" ".join(options.asked))
    if options.as_json:
        rows = [
            {
                "kind": entry.kind,
                "words": entry.words,
                "texts": [{"title": title, "text": text} for title, text in entry.texts],
                "page": entry.page,
            }
            for entry in explanation
        ]
        output.out_json("runspec.explain/v1", {"entries": rows})
        return OK
    for number, entry in enumerate(explanation):
        output.out("\n" * bool(number) + f"{entry.title} ({entry.kind})")
        for title, text in entry.texts:
            output.out(_indented(text if title.startswith(machine.TEXTS) else f"{title}: {text}"))
    pages = dict.fromkeys(Path(entry.page).stem for entry in explanation)
    output.out("\nmore: " + ", ".join(f"runspec docs {page}" for page in pages))
    return OK


def _indented(text: str) -> str:
    """Return *text* with an indent, in lines that fit a terminal; for a pipe it is one line."""
    width = min(shutil.get_terminal_size().columns, 100) if sys.stdout.isatty() else len(text) + 2
    return textwrap.fill(text, max(width, 20), initial_indent="  ", subsequent_indent="  ")


def docs(options: DocsOptions) -> int:
    text = None if options.page is None else machine.read_page(options.page)
    if options.as_json:
        pages = [] if text is not None else [page._asdict() for page in machine.list_pages()]
        output.out_json("runspec.docs/v1", {"pages": pages, "text": text})
    elif text is None:
        _print_pages()
    elif sys.stdout.isatty():
        _show_page(text)
    else:
        output.out(text.rstrip("\n"))
    return OK


def _print_pages() -> None:
    section = ""
    for page in machine.list_pages():
        if page.section != section:
            output.out("\n" * bool(section) + page.section)
            section = page.section
        output.out(f"  {page.name:16} {page.about}")


def _show_page(text: str) -> None:
    """Show Markdown at a terminal, in the pager that PAGER names."""
    from rich.console import Console
    from rich.markdown import Markdown

    os.environ.setdefault("LESS", "-R")  # colours, which less otherwise shows as their codes
    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text, hyperlinks=False), width=min(console.width, PAGE_WIDTH))


def providers(options: ProvidersOptions) -> int:
    rows = machine.list_providers()
    if options.as_json:
        document = {"providers": [row._asdict() for row in rows]}
        output.out_json("runspec.providers/v1", document)
        return OK
    for row in rows:
        output.out(f"{row.name:18} {row.package}{'' if row.works else '  ' + row.why}")
    for name in machine.list_absent():
        output.out(f"{name:18} does not exist yet")
    return OK
