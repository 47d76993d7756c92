#!/usr/bin/env python3
"""Reports, in Markdown, what the specs that changed since a commit would do and cost, before and after.

    spec_report.py BASE [--profile FILE] [--to FILE]

It is the body of the GitHub Action in action.yml, and runs in a checkout. No service is contacted. The profile is read
from BASE: a pull request must not choose the hosts and commands that it is planned with. The exit code is 1 if a spec
is not valid.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from runspec_jobs import api
from runspec_jobs.errors import RunspecError

HOOKS = Path(__file__).resolve().parents[1] / ".pre-commit-hooks.yaml"
MARK = "<!-- runspec plan -->"
MOST_LINES = 200  # of a difference; a comment of GitHub has at most 65,536 characters
MOST_CHARACTERS = 60_000


class Planned(NamedTuple):
    """What a spec would do: rows of a title and a text; or the *problem* for which it cannot be planned."""

    rows: dict[str, str]
    problem: str = ""
    valid: bool = True


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def list_changed(base: str) -> list[str]:
    """Return the specs that differ from *base*, also those that are gone: the files that the pre-commit hook reads."""
    (hook,) = yaml.safe_load(HOOKS.read_text())
    names = git("diff", "--name-only", "-z", base, "HEAD").split("\0")
    return [
        name
        for name in names
        if name and re.search(hook["files"], name) and not re.search(hook["exclude"], name)
    ]


def plan(path: Path) -> Planned:
    """Return what the spec at *path* would do; a file that is not there does nothing."""
    if not path.is_file():
        return Planned({})
    valid = not any(one.severity == "error" for one in api.validate(path))
    try:
        job = api.load(path)
        return Planned(
            {**_describe_cost(api.estimate(job)), "Requests": _list_steps(api.plan(job))}
        )
    except RunspecError as exc:
        return Planned({}, str(exc), valid)


def _list_steps(made: api.Plan) -> str:
    return "<br>".join(_escape_cell(step.title) for step in made.steps)


def _describe_cost(cost: api.Estimate | None) -> dict[str, str]:
    if cost is None:
        return {"Cost": "nothing is charged"}
    first, *others = dict.fromkeys(machine.name for machine in cost.machines)
    machines = f"{first}, or one of {len(others)} others" if others else first
    hour = "unknown" if cost.most_usd_hour is None else f"{cost.most_usd_hour:,.2f} USD"
    most = cost.unbounded if cost.bound_usd is None else f"{cost.bound_usd:,.2f} USD"
    return {"Machines": f"{cost.at_once} x {machines}", "An hour": hour, "At most": most}


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("@", "@\u200b")


def fence(text: str, language: str = "") -> str:
    """Return *text* as a block of code, whatever it holds.

    >>> fence("```")
    '````\\n```\\n````'
    """
    ticks = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


def report(name: str, old: Path, new: Path) -> tuple[str, bool]:
    """Return the part of the report about one spec, and whether it is valid."""
    before, after = plan(old), plan(new)
    parts = [f"### `{name}`"]
    if not new.is_file():
        parts.append("The spec is gone. Runs that it has started are not touched.")
    elif after.problem:
        what = "**Not planned:**" if after.valid else "**Not valid:**"
        parts.append(f"{what}\n\n{fence(after.problem)}")
    else:
        titles = dict.fromkeys([*before.rows, *after.rows])
        parts.append("| | before | now |\n| --- | --- | --- |")
        rows = ((t, before.rows.get(t, ""), after.rows.get(t, "")) for t in titles)
        parts[-1] += "".join(f"\n| {title} | {was} | {now} |" for title, was, now in rows)
    changed = list(_compare(old, new))
    if changed:
        parts.append(fence("\n".join(changed[:MOST_LINES]), "diff"))
    return "\n\n".join(parts), after.valid


def _compare(old: Path, new: Path) -> Iterator[str]:
    was, now = (
        path.read_text(errors="replace").splitlines() if path.is_file() else []
        for path in (old, new)
    )
    return difflib.unified_diff(was, now, "before", "now", lineterm="")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Report what changed specs would do and cost.")
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("--profile", default="runspec-profile.yaml")
    parser.add_argument("--to", type=Path)
    asked = parser.parse_args(arguments)
    names = list_changed(asked.base)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        git("worktree", "add", "--quiet", "--detach", str(base), asked.base)
        try:
            profile = base / asked.profile
            # An empty file hides the profile of the pull request, which would otherwise be found beside its specs.
            empty = Path(folder, "empty.yaml")
            empty.write_text("providers: {}\n")
            os.environ["RUNSPEC_PROFILE"] = str(profile if profile.is_file() else empty)
            parts = [report(name, base / name, Path(name)) for name in names]
        finally:
            git("worktree", "remove", "--force", str(base))
    text = "\n\n".join([MARK, *(part for part, _ in parts)])[:MOST_CHARACTERS]
    text = text if parts else f"{MARK}\n\nNo spec changed."
    if asked.to:
        asked.to.write_text(f"{text}\n")
    else:
        print(text)
    return 0 if all(valid for _, valid in parts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
