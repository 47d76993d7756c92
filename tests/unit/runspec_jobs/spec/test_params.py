"""Parameters have their values in every field, and are variables in what a shell reads."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from runspec_jobs.api import specs
from runspec_jobs.document import reader
from runspec_jobs.spec import placeholders, validate
from runspec_jobs.spec.model import Spec

HEAD = "apiVersion: runspec/v1\nname: fit\nprovider: local\n"
PARAMS = "params: {size: 7b, n: 2, lr: 0.10, fast: true, text: '3'}\n"


def read(text: str) -> Spec:
    spec, problems = validate.parse_spec(reader.read((HEAD + PARAMS + text).encode()))
    assert spec is not None, problems
    return spec


def complain(text: str) -> list[tuple[str, int, int]]:
    """Return each problem of a spec with its line and column."""
    found = specs.validate((HEAD + text).encode())
    return [(one.what, one.line, one.column) for one in found]


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("cluster: {nodes: '${params.n}'}", ("cluster.nodes.max", 2)),
        ("cluster:\n  nodes: 1\n  cpus: 1${params.n}", ("cluster.cpus", 12)),
        ("cluster: {memory: '${params.n}GiB'}", ("cluster.memory", 2 << 30)),
        ("timeout: ${params.n}h", ("timeout", 7200)),
        ("env: {A: 'x ${params.lr}'}", ("env.A", "x 0.10")),
        ("env: {A: '$${params.lr}'}", ("env.A", "${params.lr}")),
        ("env: {A: '${params.text}'}", ("env.A", "3")),
        (
            "mounts: [{name: d, source: './${params.size}', target: /d}]",
            ("mounts.0.source", "./7b"),
        ),
        ("sweep: {a: ['${params.lr}', 1]}", ("sweep.a", ("0.10", "1"))),
        ("container: {image: 'a/b:${params.size}'}", ("container.image", "a/b:7b")),
        ("providers: {local: {cpus: '${params.n}'}}", ("providers.local.cpus", "2")),
    ],
)
def test_a_field_has_the_value_with_its_type(field: str, wanted: tuple[str, Any]) -> None:
    found: Any = read(f"command: [a]\n{field}\n")
    for part in wanted[0].split("."):
        if isinstance(found, tuple):
            found = found[int(part)]
        else:
            found = found[part] if isinstance(found, dict) else getattr(found, part)

    assert found == wanted[1]


@pytest.mark.parametrize(
    ("wrong", "what", "place"),
    [
        ("env:\n  A: ${params.siz}\n", "there is no 'siz' in params", (6, 6)),
        (
            "cluster:\n  cpus: ${params.size}\n",
            "'7b' is not a whole number, from params.size",
            (6, 9),
        ),
        (
            "cluster:\n  cpus: ${params.text}\n",
            "'3' is not a whole number, from params.text",
            (6, 9),
        ),
        ("secrets:\n  A: ${params.size}\n", "'${params.size}' cannot be part of secrets", (6, 6)),
        ("smoke: echo ${params.x}\n", "there is no 'x' in params", (5, 8)),
        ("smoke:\n- sh\n- -c\n- echo ${params.x}\n", "there is no 'x' in params", (8, 3)),
    ],
)
def test_a_wrong_parameter_is_reported_at_its_place(
    wrong: str, what: str, place: tuple[int, int]
) -> None:
    assert complain(f"{PARAMS}{wrong}command: [a]\n")[0] == (what, *place)


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ("{a: }", "no value"),
        ("{a: [1]}", "a parameter is one value"),
        ("{a: {b: 1}}", "a parameter is one value"),
        ('{a: "x\\ny"}', "a parameter is one line without placeholders"),
        ("{a: '${mounts.code}'}", "a parameter is one line without placeholders"),
        ("{A: 1}", "'A' is not a parameter's name"),
        ("{a-b: 1, a_b: 2}", "'a_b' and 'a-b' become the same variable in the job"),
    ],
)
def test_a_default_is_one_plain_value(params: str, what: str) -> None:
    found = complain(f"params: {params}\ncommand: [a]\n")

    assert [one[0].startswith(what) for one in found] == [True], found


def test_a_script_of_another_interpreter_reads_the_variable() -> None:
    found = specs.validate(
        f"{HEAD}{PARAMS}run: |\n  #!/usr/bin/python3\n  x = '${{params.size}}'\n".encode()
    )

    assert [one.what for one in found] == [
        "${params.size} would become text of a program for /usr/bin/python3"
    ]
    assert found[0].hint == "read the job's variable RUNSPEC_PARAM_SIZE there"


# One line, and no placeholder: what a parameter may be.
VALUE = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cn", "Cf", "Co", "Zs"))
    | st.just(" ")
).filter(lambda text: text and "${" not in text and text.isprintable())
SAY = 'printf "%s\\0" "${params.odd}" x"${params.odd}"'


@pytest.mark.process
@settings(max_examples=40, deadline=None)
@given(value=VALUE)
@pytest.mark.parametrize("how", ["run", "bash", "command"])
def test_no_shell_reads_a_value_as_a_program(value: str, how: str) -> None:
    ways: dict[str, dict[str, Any]] = {
        "run": {"run": SAY},
        "bash": {"run": f"#!/bin/bash\n{SAY}\n"},
        "command": {"command": ["env", "bash", "-eo", "pipefail", "-c", SAY]},
    }
    text = {
        "apiVersion": "runspec/v1",
        "name": "a",
        "provider": "local",
        "params": {"odd": value},
        **ways[how],
    }
    spec, problems = validate.parse_spec(reader.read(json.dumps(text, ensure_ascii=False).encode()))
    assert spec is not None, problems

    done = subprocess.run(
        placeholders.argv(spec),
        env={"PATH": "/usr/bin:/bin", **spec.program_env},
        capture_output=True,
        check=True,
    )

    assert done.stdout.decode().split("\0")[:-1] == [value, f"x{value}"]
    assert (
        value == "" or len(value) < 4 or all(value not in word for word in placeholders.argv(spec))
    )


def test_a_word_of_a_command_has_the_value_itself() -> None:
    spec = read(
        "command: [train, '--size=${params.size}', '$${params.size}', sh, '${params.lr}']\n"
    )

    assert placeholders.argv(spec) == ("train", "--size=7b", "$${params.size}", "sh", "0.10")


def test_a_spec_is_read_again_from_its_own_values() -> None:
    spec = read("run: echo ${params.size}\ncluster: {nodes: '${params.n}'}\n")
    document = reader.read(specs.read_spec(spec).data)

    again, _ = validate.parse_recorded(document)

    assert again == spec


def test_a_spec_without_parameters_has_no_further_variable() -> None:
    spec = Spec.model_validate(
        {"apiVersion": "runspec/v1", "name": "a", "provider": "local", "command": ["a"]}
    )

    assert set(spec.program_env) == {"PYTHONUNBUFFERED"}
