"""Specs: what is right, what is wrong, and that everybody who judges them agrees."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, strategies as st

from runspec_jobs.api.specs import read_spec
from runspec_jobs.diagnostics.problem import Problem, format_path
from runspec_jobs.document import reader
from runspec_jobs.document.nodes import Value, resolve
from runspec_jobs.load import registry, source
from runspec_jobs.spec import placeholders, validate
from runspec_jobs.spec.model import Spec
from tests.support.root import ROOT
from tests.support.spec_examples import BAD, GOOD, HEAD, SHORT

SCHEMA = json.loads((ROOT / "schemas" / "job.schema.json").read_text())


def problems(text: str) -> list[Problem]:
    read = source.read("job.yaml", text.encode())
    assert read.document is not None, read.diagnostics
    return [p for p in source.validate_text(read)[1] if p.severity == "error"]


def spec(text: str) -> Spec:
    found, wrong = validate.parse_spec(reader.read(text))
    assert found is not None, wrong
    return found


@pytest.mark.parametrize("name", GOOD)
def test_valid_specs_pass_the_models_and_the_schema(name: str) -> None:
    assert problems(GOOD[name]) == []
    jsonschema.Draft7Validator(SCHEMA).validate(resolve(reader.read(GOOD[name]).value))


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_reported_once_at_its_field(name: str) -> None:
    found = problems(BAD[name].text)

    assert [format_path(p.path) for p in found] == [BAD[name].path]


@pytest.mark.parametrize("name", [name for name in BAD if BAD[name].shape])
def test_the_schema_refuses_what_the_models_refuse(name: str) -> None:
    value = resolve(reader.read(BAD[name].text).value)

    assert not jsonschema.Draft7Validator(SCHEMA).is_valid(value)


# Not 1e3: to a schema every number without a fraction is an integer, however it is written.
SCALARS = st.sampled_from(
    [
        *"1 0 -1 2.5 true false null yes NO ~ '' 'x' '2' a 1..3 16GiB 60s /a ./a {} [] [a] 0x1f".split(),
        "{a: b}",
    ]
)
FIELDS = [
    "cluster.nodes", "cluster.cpus", "cluster.memory", "cluster.capacity", "cluster.placement",
    "container.image", "container.requirements", "container.shm", "env.A", "secrets.A", "launch",
    "processes_per_node", "global_batch", "run", "smoke", "sweep.n", "sweep.list", "sweep.random", "sweep.list.a",
    "max_parallel", "max_failed", "retry.attempts", "retry.on", "timeout",
    "ulimits.memlock", "ulimits.nofile", "ulimits.stack",
    "mounts", "scaling", "metric", "metric.stop",
    "outputs", "name", "provider", "providers.local.engine", "providers.local.without_gpus",
]  # fmt: skip


@given(st.sampled_from(FIELDS), SCALARS)
@example("container.image", "1..3")
@example("container.image", "NO")
@example("container.image", "16GiB")
def test_models_and_schema_agree_on_every_kind_of_value_in_every_field(
    field: str, value: str
) -> None:
    """Where the schema refuses, the models do; where only the models do, it is no matter of shape."""
    text = _with(field, value)
    document = reader.read(text)

    valid = jsonschema.Draft7Validator(SCHEMA).is_valid(resolve(document.value))
    wrong = problems(text)

    if not valid:
        assert wrong, text
    else:
        assert all(p.what.startswith(TOGETHER) for p in wrong), (text, wrong)


# What only fields together, or a look at the digits, can tell.
TOGETHER = (
    "'command' and 'run'", "launch: none starts", "'max_parallel' needs", "'max_failed' needs", "'stop' needs", "min (",
    "'5..1'",
    "an MPI job", *(f"'{name}' is no image" for name in ("1..3", "NO", "16GiB")),
)  # fmt: skip


def _with(field: str, value: str) -> str:
    outer, _, inner = field.partition(".")
    if not inner:
        kept = [line for line in SHORT.splitlines() if not line.startswith(f"{outer}:")]
        if outer == "run":
            kept.pop()
        return "\n".join([*kept, f"{outer}: {value}"]) + "\n"
    second, _, third = inner.partition(".")
    body = f"{{{second}: {{{third}: {value}}}}}" if third else f"{{{second}: {value}}}"
    return SHORT + f"{outer}: {body}\n"


def test_the_schema_in_the_repository_is_the_one_the_models_give() -> None:
    from runspec_jobs.api import machine

    assert (ROOT / "schemas" / "job.schema.json").read_text() == machine.make_job_schema()


def test_the_reference_page_is_the_one_the_models_give() -> None:
    from runspec_jobs.api import machine

    assert (ROOT / "docs" / "reference.md").read_text() == machine.make_reference()


def test_every_link_of_the_reference_page_leads_somewhere() -> None:
    page = (ROOT / "docs" / "reference.md").read_text()

    sections = {f"#{title.lower()}" for title in re.findall(r"^## (.+)$", page, re.MULTILINE)}
    links = set(re.findall(r"\]\(([^)]+)\)", page))
    broken = {link for link in links - sections if not (ROOT / "docs" / link).is_file()}

    assert links & sections
    assert broken == set()


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("2:00:00", 7_200), ("0-0:30:00", 1_800), ("1-12", 129_600), ("1-12:00", 129_600)],
)
def test_a_time_as_slurm_writes_it_is_read(written: str, seconds: int) -> None:
    assert spec(f"{SHORT}timeout: {written}\n").timeout == seconds


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("30:00", "write 30h00m, or 30m00s"),
        ("2:60:00", "write it as 90s, 10m, 2h, 1h30m or 1:30:00"),
    ],
)
def test_a_time_that_may_mean_two_things_is_refused(written: str, hint: str) -> None:
    _, problems = validate.parse_spec(reader.read(f"{SHORT}timeout: {written}\n".encode()))

    assert [problem.hint for problem in problems] == [hint]


def test_a_size_as_kubernetes_writes_it_is_read() -> None:
    assert spec(f"{SHORT}cluster: {{memory: 16Gi}}\n").cluster.memory == 16 << 30


def test_a_value_of_env_stays_as_it_was_written() -> None:
    found = spec(SHORT + "env: {A: 3.10, B: NO, C: 1:00:00, D: 0777, E: '', F: ~x}\n")

    assert found.env == {"A": "3.10", "B": "NO", "C": "1:00:00", "D": "0777", "E": "", "F": "~x"}


@pytest.mark.parametrize(
    "line, path, said",
    [
        (
            "command: [cp, '${mount.code}/x']\nmounts: [{name: code, source: ./a, target: /a}]",
            "command[1]",
            "did you mean 'mounts.code'?",
        ),
        (
            "command: [echo, '${env.HOME}']",
            "command[1]",
            "the job has HOME as an environment variable",
        ),
        (
            "command: [echo, '${secrets.A}']",
            "command[1]",
            "the job has A as an environment variable",
        ),
        ("run: echo ${a.b}", "run", "placeholders are ${mounts.NAME}"),
        ("command: [x]\nsmoke: [echo, '${a.b}']", "smoke[1]", "placeholders are"),
        ("command: [x]\nsetup: [echo, '${a.b}']", "setup[1]", "placeholders are"),
        ("command: [x]\nenv: {A: '${mount.code}'}", "env.A", "$${mount.code}"),
        (
            "command: [x]\nmounts: [{name: m, source: './${a.b}', target: /m}]",
            "mounts[0].source",
            "write the path itself",
        ),
    ],
)
def test_a_placeholder_that_does_not_exist_is_an_error(line: str, path: str, said: str) -> None:
    """The hint says what was probably meant, and how the text itself is written."""
    (found,) = problems(HEAD + line + "\n")

    assert format_path(found.path) == path
    assert said in (found.hint or "")


def test_text_that_looks_like_a_placeholder_is_written_with_one_more_dollar() -> None:
    """Shell expansions such as ${A:-b.c} are nobody's placeholders, and stay as they are."""
    found = spec(HEAD + "run: |\n  echo '$${a.b}' ${A:-b.c}\nenv: {A: '$${a.b}', B: '$${HOME}'}\n")

    assert placeholders.argv(found)[-1] == "echo '${a.b}' ${A:-b.c}\n"
    assert found.env == {"A": "${a.b}", "B": "$${HOME}"}


@pytest.mark.parametrize(
    ("lines", "path", "said"),
    [
        ("signal: {name: USR1, before: 2m}", "signal", "'signal' needs 'timeout'"),
        (
            "timeout: 1m\nsignal: {name: USR1, before: 60s}",
            "signal.before",
            "not between 0 s and timeout",
        ),
        (
            "timeout: 1m\nsignal: {name: USR1, before: 0s}",
            "signal.before",
            "not between 0 s and timeout",
        ),
        (
            "timeout: 1m\nsignal: {name: KILL, before: 9s}",
            "signal.name",
            "no program can handle KILL",
        ),
        ("timeout: 1m\nsignal: {name: USR3, before: 9s}", "signal.name", "'USR3' is no signal"),
        ("timeout: 1m\nsignal: {name: USR1}", "signal.before", ""),
    ],
)
def test_a_signal_that_cannot_be_sent_is_refused(lines: str, path: str, said: str) -> None:
    (found,) = problems(f"{SHORT}{lines}\n")

    assert format_path(found.path) == path
    assert said in found.what


def test_a_signal_has_its_name_with_and_without_sig() -> None:
    found = spec(SHORT + "timeout: 1h\nsignal: {name: sigusr2, before: 2m}\n").signal

    assert found is not None
    assert (found.name, found.number, found.before) == ("USR2", 12, 120)


def test_sizes_are_bytes_and_times_are_seconds() -> None:
    found = spec(SHORT + "cluster: {memory: 16GiB}\ntimeout: 1h30m\n")

    assert (found.cluster.memory, found.timeout) == (17_179_869_184, 5_400)


def test_low_priority_is_spot() -> None:
    assert spec(SHORT + "cluster: {capacity: low-priority}\n").cluster.capacity == "spot"


def test_machines_of_a_pool_are_there_and_nobody_takes_them_away() -> None:
    cluster = spec(SHORT + "cluster: {capacity: pool:night}\n").cluster

    assert (cluster.pool, cluster.capacity) == ("night", "on-demand")
    assert cluster.model_dump()["capacity"] == "pool:night"


@pytest.mark.parametrize(("word", "mine"), [("lowpriority", "spot"), ("dedicated", "on-demand")])
def test_the_word_of_batch_ai_for_a_capacity_is_told_what_it_is_here(word: str, mine: str) -> None:
    (found,) = problems(SHORT + f"cluster: {{capacity: {word}}}\n")

    assert (format_path(found.path), found.hint) == ("cluster.capacity", f"did you mean '{mine}'?")


def test_a_number_of_nodes_is_from_itself_to_itself() -> None:
    nodes = spec(SHORT + "cluster: {nodes: 3}\n").cluster.nodes

    assert (nodes.min, nodes.max, nodes.elastic) == (3, 3, False)


def test_shared_folders_can_be_written_and_the_rest_only_read() -> None:
    found = spec(
        SHORT
        + "mounts: [{name: a, source: ./a, target: /a}, {name: b, source: 'shared://b', target: /b}]\n"
    )

    assert [m.read_only for m in found.mounts] == [True, False]


@pytest.mark.parametrize("near", ["comand", "clutser", "timeuot", "comand:"])
def test_a_key_with_a_slip_is_met_with_the_right_one(near: str) -> None:
    found = problems(SHORT + f"{near.rstrip(':')}: x\n")

    assert found[0].hint is not None and found[0].hint.startswith("did you mean '")


def test_all_problems_are_told_at_once() -> None:
    text = HEAD.replace("job", "Job") + "cluster: {cpu: 1, memory: 1GB}\nlaunch: mpl\n"

    assert {format_path(p.path) for p in problems(text)} == {
        "", "name", "cluster.cpu", "cluster.memory", "launch",
    }  # fmt: skip


def test_a_spec_that_is_no_mapping_is_told_so() -> None:
    assert problems("- a\n- b\n")[0].what == "a mapping is expected here"


def test_models_are_frozen() -> None:
    found: Any = spec(SHORT)

    with pytest.raises(ValueError, match="frozen"):
        found.name = "other"


def test_values_as_trees_are_what_editors_see() -> None:
    value: Value = reader.read("a: [1, '1', true, ~, 1.5]\n").value

    assert resolve(value) == {"a": [1, "1", True, None, 1.5]}


@pytest.mark.parametrize(
    "more,expected",
    [
        ({"launch": "torchrun", "cluster": {"gpus": 8}}, 8),
        ({"launch": "torchrun", "cluster": {"gpus": 8}, "processes_per_node": 2}, 2),
        ({"launch": "torchrun"}, 1),
        ({"launch": "mpi", "cluster": {"gpus": 8}}, 1),
        ({"cluster": {"gpus": 8}}, 1),
    ],
)
def test_torchrun_starts_a_process_for_each_gpu(more: dict[str, Any], expected: int) -> None:
    base = {"apiVersion": "runspec/v1", "name": "n", "provider": "local", "command": ["train"]}

    assert Spec.model_validate({**base, **more}).processes_per_node == expected


@pytest.mark.parametrize("provider", registry.list_installed())
@pytest.mark.parametrize("timeout", ["0s", "0h0m"])
def test_a_timeout_without_time_is_refused(timeout: str, provider: str) -> None:
    """It was no limit on some providers, and an error on others."""
    text = SHORT.replace("provider: local", f"provider: {provider}")

    (found,) = problems(f"{text}timeout: {timeout}\n")

    assert (format_path(found.path), found.hint) == (
        "timeout",
        "set timeout: 1m or longer, or remove it for no limit",
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("[8888, 6006]", {"8888": 8888, "6006": 6006}),
        ("{notebook: 8888}", {"notebook": 8888}),
    ],
)
def test_ports_have_names(given: str, wanted: dict[str, int]) -> None:
    spec, problems = parse_ports(given)

    assert not problems and spec is not None
    assert spec.ports == wanted
    again, _ = validate.parse_recorded(reader.read(read_spec(spec).data))
    assert again == spec


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("8888", "a list is expected here"),
        ("[0]", "must be at least 1 (got 0)"),
        ("[65536]", "must be at most 65535 (got 65536)"),
        ("[http]", "'http' is not a whole number"),
        ("[80, 80]", "port 80 is listed twice"),
        ("{a: 80, b: 80}", "port 80 is listed twice"),
        ("{A b: 80}", "'A b' is not the name of a port"),
        ("{'81': 80}", "'81' is not the name of a port"),
        (str(list(range(1, 18))), "17 ports, and a job has 16 at most"),
    ],
)
def test_a_wrong_port_is_refused(given: str, what: str) -> None:
    _, problems = parse_ports(given)

    assert [problem.what for problem in problems] == [what]


def parse_ports(given: str) -> tuple[Spec | None, list[Problem]]:
    text = f"apiVersion: runspec/v1\nname: a\nprovider: local\ncommand: [a]\nports: {given}\n"
    return validate.parse_spec(reader.read(text.encode()))
