"""The ENTRYPOINT of an image in place of a command: what runs it where it can, and what refuses it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from runspec_agent.base import image_entrypoint
from runspec_jobs.document import reader
from runspec_jobs.load import registry
from runspec_jobs.plan import smoke
from runspec_jobs.provider import Facts, Problem, Spec
from runspec_jobs.spec import validate
from runspec_jobs.spec.placeholders import argv
from runspec_slurm import containers
from runspec_slurm.decision import decide
from runspec_slurm.options import SlurmOptions

TEXT = """\
apiVersion: runspec/v1
name: job
provider: {provider}
container: {{image: "a:1", entrypoint: image, args: [a  b, "$(id)"]}}
"""


def read(provider: str, more: str = "") -> Spec:
    found, wrong = validate.parse_spec(reader.read(TEXT.format(provider=provider) + more))
    assert found is not None, wrong
    return found


def problems(provider: str, **facts: Any) -> list[Problem]:
    loaded, wanted = registry.load(provider), read(provider)
    options = loaded.options_model()
    found = loaded.check(wanted, Facts(options, **{"complete": False, **facts}))
    return [p for p in found if p.path == ("container", "entrypoint")]


@pytest.mark.parametrize("provider", ["aws-batch", "azure-batch-ai"])
def test_a_service_that_cannot_replace_it_refuses_and_says_how_to_see_it(provider: str) -> None:
    (found,) = problems(provider)

    assert found.severity == "error"
    assert found.hint is not None and "docker image inspect" in found.hint
    assert ("ENTRYPOINT []" in found.hint) is (provider == "aws-batch")


def test_a_machine_without_an_engine_refuses_it() -> None:
    here = {"engine": "process", "engine_why": "podman: not found", "cpus": 1}

    (found,) = problems("local", survey=here, complete=True)

    assert found.what == "podman: not found, and without it there is no entrypoint"


@pytest.mark.parametrize(
    ("engine", "words"),
    [("apptainer", ("/.singularity.d/runscript",)), ("pyxis", ("/bin/sh", "/etc/rc"))],
)
def test_a_converted_image_has_it_in_a_file(engine: str, words: tuple[str, ...]) -> None:
    wanted = read("slurm")
    facts = Facts(SlurmOptions.model_validate({"container": engine}))

    found = argv(wanted, containers.choose_entrypoint(decide(wanted, facts)))

    assert found == (*words, "a  b", "$(id)")


CONFIGS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "both": (
        {"Entrypoint": ["printf", "<%s>"], "Cmd": ["c"]},
        ["a  b", "$(id)"],
        ["a  b", "$(id)"],
    ),
    "no arguments": ({"Entrypoint": ["printf", "<%s>"], "Cmd": ["c d", "'"]}, [], ["c d", "'"]),
    "a script of several lines": (
        {
            "Entrypoint": ["sh", "-c", "printf '<%s>' \\\n \"$0\" 'a\\nb'\nprintf '<%s>' \"$1\""],
            "Cmd": ["c\n", "d"],
        },
        [],
        ["c\n", "a\\nb", "d"],
    ),
    "no ENTRYPOINT": ({"Entrypoint": None, "Cmd": ["printf", "<%s>", "e"]}, [], ["e"]),
    "arguments for a CMD": ({"Cmd": ["x"]}, ["printf", "<%s>", "f"], ["f"]),
}


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.process
def test_words_reach_the_program_as_an_engine_would_pass_them(name: str) -> None:
    config, args, expected = CONFIGS[name]
    code = image_entrypoint.write(config)
    assert code is not None and "\n" not in code
    wanted = read("local").model_copy(
        update={"container": read("local").container.model_copy(update={"args": tuple(args)})}
    )

    env = {"PATH": "/usr/bin:/bin", image_entrypoint.VARIABLE: code}
    said = subprocess.run(argv(wanted), env=env, capture_output=True, text=True, check=True).stdout

    assert said == "".join(f"<{word}>" for word in expected)


def test_an_image_without_a_program_has_no_code() -> None:
    assert image_entrypoint.write({"Entrypoint": None, "Cmd": [], "WorkingDir": "/"}) is None


def test_a_smoke_test_runs_its_own_program() -> None:
    wanted = read("local", "smoke: [echo, hi]\n")
    document = reader.read(TEXT.format(provider="local") + "smoke: [echo, hi]\n")
    assert isinstance(document.value, dict)

    text = smoke.make_text(wanted, document.value)

    found, wrong = validate.parse_spec(reader.read(text))
    assert found is not None, wrong
    assert (found.command, found.container.image) == (("echo", "hi"), "a:1")
    assert json.loads(text)["container"] == {"image": "a:1"}
