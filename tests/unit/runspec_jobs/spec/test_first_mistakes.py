"""What a person writes in a first spec is answered with the very text to write."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any

import pytest

from runspec_jobs.diagnostics import peer_words
from runspec_jobs.diagnostics.problem import Problem
from runspec_jobs.document import reader
from runspec_jobs.load import registry, source
from runspec_jobs.spec import rules, types, validate
from runspec_jobs.spec.model import Spec

HEAD = "apiVersion: runspec/v1\nname: a\nprovider: local\n"


def problems(text: str) -> list[Problem]:
    return validate.parse_spec(reader.read((HEAD + text).encode()))[1]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("python x.py", "write [python, x.py]"),
        ("""python -c "print(1)" -- 3 no""", "write [python, -c, 'print(1)', --, '3', 'no']"),
        ("python ${mounts.code}/x.py", "write [python, '${mounts.code}/x.py']"),
        ("echo it''s \"a, b\"", "write [echo, its, 'a, b']"),
        ("python x.py > log", "write run: python x.py > log"),
        ('echo "$HOME"', 'write run: echo "$HOME"'),
        ("a 'b", "write [one, two]"),
    ],
)
def test_a_command_on_one_line_is_answered_with_the_list_to_write(written: str, hint: str) -> None:
    (found,) = problems(f"command: {written}\n")

    assert (found.what, found.hint) == ("a list is expected here", hint)


@pytest.mark.parametrize(
    ("disk", "at", "what", "hint"),
    [
        ("{size: 100GiB, tier: fast}", ("tier",), "'fast' is not low, medium, high or best", None),
        ("{size: 100GB}", ("size",), "'100GB' is not a size", "write 100GiB"),
        ("100GB", (), "'100GB' is not a size", "write 100GiB"),
        ("{}", (), "no size and no tier", "write disk: 100GiB, or {size: 100GiB, tier: high}"),
        ("[1]", (), "a size is expected here", "write disk: 100GiB, or {size: 100GiB, tier: high}"),
    ],
)
def test_a_wrong_disk_is_answered_at_its_place(
    disk: str, at: tuple[str, ...], what: str, hint: str | None
) -> None:
    (found,) = problems(f"command: [a]\ncluster: {{disk: {disk}}}\n")

    assert (found.path, found.what, found.hint) == (("cluster", "disk", *at), what, hint)


def test_a_disk_of_any_tier_is_written_into_records_as_before() -> None:
    def dump(disk: str) -> Any:
        text = f"{HEAD}command: [a]\ncluster: {{disk: {disk}}}\n"
        found, wrong = validate.parse_spec(reader.read(text.encode()))
        assert found is not None, wrong
        return found.model_dump(mode="json", context=types.AS_WRITTEN)["cluster"]["disk"]

    assert dump("1GiB") == "1048576KiB"
    assert dump("{size: 1GiB}") == "1048576KiB"
    assert dump("{tier: high}") == {"tier": "high"}
    assert dump("{size: 1GiB, tier: best}") == {"size": "1048576KiB", "tier": "best"}


@pytest.mark.parametrize("written", ["python x.py -n '3' --say 'it''s' no", "sh -c 'a; b' '' -"])
def test_the_list_to_write_is_read_back_as_the_words_of_a_shell(written: str) -> None:
    (found,) = problems(f"command: {written}\n")
    assert found.hint is not None and found.hint.startswith("write [")

    again, wrong = validate.parse_spec(reader.read(f"{HEAD}command: {found.hint[6:]}\n".encode()))

    assert wrong == [] and again is not None
    assert list(again.command or ()) == shlex.split(written)


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("cluster: {spot: true}", "write capacity: spot"),
        ("spot: true", "write cluster: {capacity: spot}"),
        ("nodes: 3", "did you mean 'cluster.nodes'?"),
        ("cluster: {image: python}", "did you mean 'container.image'?"),
        ("attempts: 3", "did you mean 'retry.attempts'?"),
        ("cluster: {node: 3}", "did you mean 'nodes'?"),
        ("gpu_type: A100", "did you mean 'cluster.gpu_type'?"),
        ("source: ./code", None),
    ],
)
def test_a_field_in_the_wrong_place_is_answered_with_the_right_one(
    written: str, hint: str | None
) -> None:
    (found,) = problems(f"{written}\nrun: a\n")

    assert found.hint == hint


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("num_nodes: 2", "write cluster: {nodes: 2}"),
        ("numNodes: 2", "write cluster: {nodes: 2}"),
        ("resources: {cpus: 4}", "write cluster: {nodes: 1, cpus: 4, memory: 16GiB, gpus: 1}"),
        ("cluster: {accelerators: A100}", "write gpus: 8, gpu_type: A100"),
        ("container: {image_id: a}", "write image: python:3.11"),
        ("workdir: .", "write mounts: [{name: code, source: ., target: /job/code}]"),
        ("metric: {name: l, goal: minimize, pattern: 'l=(.+)'}\nsweep: {a: [1, 2]}", "write min"),
        ("timout: 1h", "did you mean 'timeout'?"),
    ],
)
def test_a_word_of_another_tool_is_answered_with_what_to_write(written: str, hint: str) -> None:
    (found,) = problems(f"{written}\nrun: a\n")

    assert found.hint == hint


def test_problems_of_fields_of_rules_and_of_the_provider_are_one_round() -> None:
    text = (
        "apiVersion: runspec/v1\nname: a\nprovider: aws-batch\ncluster: {capacity: spotty, cpu: 2}\n"
        "env: {AWS_BATCH_A: '1'}\nmounts: [{name: a, source: ./a}]\nmax_parallel: 2\ncommand: [a]\n"
    )

    _, found = source.validate_text(source.read("job.yaml", text.encode()))

    assert [".".join(map(str, problem.path)) for problem in found] == [
        "cluster.capacity",
        "cluster.cpu",
        "mounts.0.target",
        "max_parallel",
        "env.AWS_BATCH_A",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "cluster: {gpus: many, gpu_type: A100}\ncommand: [a]\n",
        "command: 5\n",
        "run: []\n",
        "outputs: [{name: a}]\nrun: echo ${outputs.a}\n",
    ],
)
def test_a_value_that_is_gone_causes_no_further_problem(text: str) -> None:
    (found,) = problems(text)

    assert "missing" in found.what or "expected" in found.what or "number" in found.what


@pytest.mark.parametrize(
    "text", ["run: a\nresources: {cpus: 2}\n", "apiVersion: batch/v1\nkind: Job\nspec: {}\n"]
)
def test_the_first_line_for_another_tools_file_says_what_is_imported(text: str) -> None:
    _, found = source.validate_text(source.read("my job", text.encode()))

    assert found[0].what == "this is no spec, which begins with apiVersion: runspec/v1"
    hint = found[0].hint or ""
    assert hint.startswith("runspec import 'my job' --to . reads ") and "of Slurm" in hint


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("any_of: [a]", "gpu_type: [H100, A100]"),
        ("idle_minutes_to_autostop: 5", "machines end with the job"),
        ("max_price: 1.5", "runspec apply --max-usd 20"),
        ("healthcheck: {test: x}", "ports: [8888]"),
        ("sampling_algorithm: random", "sweep: {random:"),
        ("objective: {goal: minimize}", "write metric:"),
        ("completions: 10", "sweep: {index: 0..9}"),
        ("kind: Job", "runspec import FILE"),
        ("backends: [aws]", "runspec providers"),
        ("roles: [a]", "case $RUNSPEC_RANK in"),
        ("modules: [cuda]", "write setup: |"),
        ("errorStrategy: retry", "write retry: {attempts: 3, on:"),
        ("publishDir: out", "write outputs: ["),
        ("resourceFiles: [a]", "write mounts: ["),
        ("targetDedicatedNodes: 2", "write cluster: {nodes: 2}"),
        ("maxForks: 4", "write max_parallel: 4"),
        ("exclusive: true", "under providers"),
        ("ttlSecondsAfterFinished: 10", "write ttl: 7d"),
        ("restart: on-failure", "write retry: {attempts: 3}"),
        ("early_termination: {type: bandit}", "max_failed: 3"),
        ("disk_tier: best", "write cluster: {disk: {size: 100GiB, tier: high}}"),
    ],
)
def test_words_of_peers_that_are_like_no_field_are_answered(written: str, says: str) -> None:
    (found,) = problems(f"{written}\nrun: a\n")

    assert says in (found.hint or "")


def test_the_words_of_a_whole_file_of_another_tool_mean_nothing_within_a_field() -> None:
    (found,) = problems("cluster: {kind: a}\nrun: a\n")

    assert found.hint is None


@pytest.mark.parametrize("provider", sorted(registry.list_installed()))
def test_each_provider_says_where_machines_are_in_place_of_regions_and_zones(provider: str) -> None:
    """What is to be written under `providers` is a setting that a job file may have."""
    places = registry.load(provider).options_model.places
    written = re.search(r"providers: \{.*?\}\}", places or "")
    text = f"apiVersion: runspec/v1\nname: a\nprovider: {provider}\nrun: a\n"
    wrong = [
        "zones: [a, b]",
        "cluster: {availability_zones: [a]}",
        f"providers: {{{provider}: {{regions: [a]}}}}",
    ]

    found = [source.validate_text(source.read("a", f"{text}{it}\n".encode()))[1] for it in wrong]
    after = source.validate_text(
        source.read("a", f"{text}{written[0] if written else ''}".encode())
    )

    assert [[problem.hint for problem in each] for each in found] == [[places]] * 3
    assert [p for p in after[1] if p.severity == "error"] == []


HINTED = re.compile(r"write ([a-z_]+: (?:\{.*\}|\[.*\]|[a-z0-9]+))(?:$|, |: )")


@pytest.mark.parametrize("hint", sorted({*peer_words.WORDS.values()}))
def test_hints_name_valid_fields(hint: str) -> None:
    written = HINTED.match(hint)
    if written is None or re.search("NAME|REPOSITORY", written[1]):
        assert not hint.startswith("write cluster")
        return
    text = f"{HEAD}{written[1]}\n"
    text += "" if "entrypoint" in text else "command: [echo, a]\n"

    _, wrong = validate.parse_spec(reader.read(text.encode()))

    assert [p.what for p in wrong if "is not used" not in p.what and "sweep" not in p.what] == []


@pytest.mark.parametrize("value", ["hf_" + 34 * "a", "a3c0ffee" * 5])
def test_a_secret_in_place_of_its_name_is_refused_and_never_shown(value: str) -> None:
    (found,) = problems(f"run: a\nsecrets: {{TOKEN: {value}}}\n")

    assert found.what == "the value of 'TOKEN' looks like the secret itself"
    assert found.private and value not in str(found)


@pytest.mark.parametrize("word", sorted(peer_words.WORDS))
def test_a_word_of_another_tool_is_no_field_of_a_spec(word: str) -> None:
    assert word not in Spec.model_fields


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        (
            "run: a\nmounts: [{name: a, source: ., mountPath: /a}]\n",
            {
                "write target: /job/data, the path in the job",
                "an entry is {name: data, source: ./data, target: /job/data}",
            },
        ),
        (
            "run: a\noutputs: [{name: a, dir: /a}]\n",
            {"write path: /job/out", "an entry is {name: model, path: /job/model}"},
        ),
    ],
)
def test_words_within_mounts_and_outputs_are_answered_with_ours(text: str, hints: set[str]) -> None:
    assert {problem.hint for problem in problems(text)} == hints


def test_a_setting_of_a_provider_is_not_taken_for_a_word_of_another_tool() -> None:
    assert problems("providers: {local: {partition: a}}\nrun: a\n") == []


@pytest.mark.parametrize(
    "text", ["#!/bin/bash\n#SBATCH -N 2\nhostname\n", "#!/bin/sh\nname: a\necho b\n"]
)
def test_a_script_is_answered_with_the_command_that_imports_it(text: str) -> None:
    (found,) = source.read("my train.sh", text.encode()).diagnostics

    assert found.what == "this is a script, and a spec is a YAML file"
    assert (found.hint or "").startswith("runspec import 'my train.sh' --to . ")


LONG = rules.ARGUMENT_BYTES


@pytest.mark.parametrize(
    ("field", "most"),
    [
        ("run: '{}'", LONG - 1),
        ("command: [echo, '{}']", LONG - 1),
        ("run: 'true'\nenv: {{A: '{}'}}", LONG - 1 - len("A=")),
        ("run: 'true'\nsmoke: '{}'", LONG - 1),
    ],
)
def test_a_text_that_linux_passes_to_no_program_is_refused(field: str, most: int) -> None:
    assert problems(field.format("x" * most)) == []
    (wrong,) = problems(field.format("x" * (most + 1)))
    assert f"{LONG:,} bytes" in wrong.what and "a file of a mounted folder" in str(wrong.hint)
    (wrong,) = problems(field.format("ä" * (most // 2 + 1)))
    assert "bytes" in wrong.what


@pytest.mark.process
def test_the_longest_text_is_that_of_the_kernel() -> None:
    assert subprocess.run(["true", "x" * (LONG - 1)], check=False).returncode == 0
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["true", "x" * LONG], check=False)
