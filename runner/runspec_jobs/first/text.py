"""The text of a first spec, with the comments that a reader needs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from runspec_jobs.first.dependencies import Requirements
from runspec_jobs.first.program import Program
from runspec_jobs.provider.yaml_writer import write_yaml

HEAD = """\
# yaml-language-server: $schema={schema}
apiVersion: runspec/v1
name: {name}
provider: {provider}               # the one field to change to run it elsewhere

cluster:
  nodes: 1                    # cpus, memory, gpus and disk are for each node
  cpus: 1
"""
PLAIN = """
outputs:
  - {name: results, path: /job/results, sync: 30s}    # saved, also if the job fails

env: {GREETING: hello}

run: |
  echo "$GREETING from $RUNSPEC_RUN"
  date > "${outputs.results}/when.txt"
"""
CODE, RESULTS = "${mounts.code}", "${outputs.results}"


def write_text(name: str, provider: str, schema: str) -> str:
    """Return a first spec that greets."""
    return HEAD.format(name=name, provider=provider, schema=schema) + PLAIN


def write_program_text(
    name: str,
    provider: str,
    schema: str,
    program: Program,
    requirements: Requirements,
    source: str,
    *,
    has_gpu: bool,
) -> str:
    """Return a first spec that runs *program*, whose folder is *source* beside the spec.

    It asks for a GPU if the program can use one and *has_gpu* says that the machine at hand has it; otherwise, a
    comment does.
    """
    parts = [HEAD.format(name=name, provider=provider, schema=schema)]
    if program.gpu_user:
        sign = "" if has_gpu else "# "
        parts.append(
            f"  {sign}gpus: 1".ljust(30) + f"# {program.path} imports {program.gpu_user}\n"
        )
    if requirements.words:
        said = write_yaml({"container": {"requirements": requirements.words}})
        origin = f"  # from the imports of {program.path}" if not requirements.source else ""
        origin = "  # from pyproject.toml" if requirements.source == "pyproject.toml" else origin
        parts.append(f"\n{said.rstrip()}{origin}\n")
    code: dict[str, Any] = {"name": "code", "source": source, "target": "/job/code"}
    if program.output_folder and not program.output_option:
        code["mode"] = "rw"
    parts.append("\n" + write_yaml({"mounts": [code]}))
    results = {"name": "results", "path": "/job/results", "sync": "30s"}
    saved = write_yaml({"outputs": [results]}).rstrip()
    parts.append(f"\n{saved}    # saved, also if the job fails\n\n")
    if program.launch != "none":
        parts.append(write_yaml({"launch": program.launch, "processes_per_node": 1}))
    parts.append(_write_start(program))
    return "".join(parts)


def _write_start(program: Program) -> str:
    """Return `command`, or `run` where the program needs a working folder."""
    if program.output_option:
        words = [program.interpreter, f"{CODE}/{program.path}"]
        return write_yaml({"command": [*words, program.output_option, RESULTS]})
    path = shlex.quote(program.path)
    if not program.output_folder:
        lines = [
            f'cd "{RESULTS}"    # what the program writes into the current folder is saved',
            f'exec {program.interpreter} "{CODE}"/{path}',
        ]
        return write_yaml({"run": _join_lines(lines)})
    folder = shlex.quote(program.output_folder)
    comment = "    # the program writes there, and it is saved"
    place = [f'cd "{CODE}"', f'rm -rf {folder} && ln -s "{RESULTS}" {folder}{comment}']
    start = f"exec {program.interpreter} {path}"
    if program.launch == "none":
        return write_yaml({"run": _join_lines([*place, start])})
    # Of the processes that a launcher starts on a node, none may take the folder away from another.
    return write_yaml({"setup": _join_lines(place), "run": _join_lines([place[0], start])})


def _join_lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
