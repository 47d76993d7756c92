"""Notes say what is allowed in a command or script and is nearly always a mistake, with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from runspec_jobs.load.notes import command
from runspec_jobs.provider.spec_checks import literal_paths
from runspec_jobs.spec.model import Spec

MOUNTS = [{"name": "code", "source": "./src", "target": "/job/code"}]
OUTPUTS = [{"name": "out", "path": "/job/out"}]


def spec(**fields: Any) -> Spec:
    job = {"apiVersion": "runspec/v1", "name": "a", "provider": "local", "mounts": MOUNTS}
    return Spec.model_validate({**job, "outputs": OUTPUTS, **fields})


def told(**fields: Any) -> list[tuple[str, str | None]]:
    return [(".".join(map(str, p.path)), p.hint) for p in command.find_notes(spec(**fields))]


@pytest.mark.parametrize(
    ("words", "at", "hint"),
    [
        (["a", "&&", "b c"], 1, "write run: a && 'b c'"),
        (["a", ">", "log"], 1, "write run: a > log"),
        (["a", "|", "b"], 1, "write run: a | b"),
        (["a", "$HOME"], 1, "write run: a $HOME"),
        (["a", "--out=${HOME}/x"], 1, "write run: a --out=${HOME}/x"),
        (["python", "~/x.py"], 1, "write run: python ~/x.py"),
        (["cat", "*.csv"], 1, "write run: cat *.csv"),
        (["a", "$mounts.code/x"], 1, "write ${mounts.code}"),
        (["a", "$RUNSPEC_RANK"], 1, "write run: a $RUNSPEC_RANK"),
    ],
)
def test_a_word_that_only_a_shell_reads_is_named(words: list[str], at: int, hint: str) -> None:
    assert told(command=words) == [(f"command.{at}", hint)]


@pytest.mark.parametrize(
    "words",
    [
        ["sh", "-c", "a && b $HOME", "&&", "$HOME"],
        ["bash", "-ec", "x", ">"],
        ["find", ".", "-exec", "rm", "{}", ";"],
        ["sort", "-t", "|", "x"],
        ["test", "a", ">", "b"],
        ["grep", "a$", "US$", "$5", "^[0-9]*$"],
        ["python", "-c", "print('$HOME')"],
        ["python", "x.py", "--glob", "data/*.csv", "a > b", "x=*"],
        ["a", "${mounts.code}/x", "$${mounts.code}", "$$HOME"],
    ],
)
def test_words_that_programs_read_themselves_are_not_named(words: list[str]) -> None:
    assert told(command=words) == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("RUNSPEC_NODE_RANK", "write RUNSPEC_RANK"),
        ("RUNSPEC_NNODES", "write RUNSPEC_NODES"),
        ("RUNSPEC_RNAK", "did you mean RUNSPEC_RANK?"),
        ("RUNSPEC_OUTPUT_OUTS", "did you mean RUNSPEC_OUTPUT_OUT?"),
        ("RUNSPEC_QQQ", "runspec docs inside lists the variables of a job"),
    ],
)
def test_a_variable_that_no_job_has_is_named_with_the_near_one(name: str, hint: str) -> None:
    assert told(run=f"echo ${name} ${name}\n") == [("run", hint)]
    assert told(run=f'echo "${{{name}}}"\n') == [("run", hint)]


@pytest.mark.parametrize(
    "text",
    [
        "echo $RUNSPEC_RANK ${RUNSPEC_NODES} $RUNSPEC_MOUNT_CODE $RUNSPEC_OUTPUT_OUT",
        "RUNSPEC_MINE=1; echo $RUNSPEC_MINE",
        "echo ${RUNSPEC_MINE:-3}",
        "env | grep RUNSPEC_; for n in RUNSPEC_*; do :; done",
        "echo $NODE_RANK",
    ],
)
def test_variables_that_a_job_has_or_makes_are_not_named(text: str) -> None:
    assert told(run=text) == []


def test_variables_of_torchrun_are_named_in_a_job_without_it() -> None:
    text = 'python x.py --world $WORLD_SIZE --rank "$RANK"\n'

    assert [hint for _, hint in told(run=text)] == [
        "write RUNSPEC_NODES, or set launch: torchrun",
        "write RUNSPEC_RANK, or set launch: torchrun",
    ]
    assert told(run=text, launch="torchrun") == []
    assert told(run=text, env={"WORLD_SIZE": "1", "RANK": "0"}) == []


@pytest.mark.parametrize(
    "text",
    [
        "RANK=3; echo $RANK",
        "for RANK in 1 2; do echo $RANK; done",
        ". ./env.sh; echo $RANK",
        "echo ${RANK:-0} $RANKS",
        "sh -c 'echo $RANK'",
        "#!/usr/bin/env python3\nprint('$RANK')",
    ],
)
def test_variables_that_a_script_sets_itself_are_not_named(text: str) -> None:
    assert told(run=text) == []


def test_a_script_for_sh_with_words_of_bash_gets_one_note() -> None:
    (found,) = command.find_notes(spec(run="echo\nif [[ a ]]; then x=(1); fi\n"))

    assert found.what == (
        "/bin/sh reads this script, and not every /bin/sh knows '[[' in line 2, 'an array' in line 2"
    )
    assert found.hint == "write #!/bin/bash as the first line of the script"
    assert (found.path, found.severity) == (("run",), "note")
    assert told(run="#!/bin/bash\n[[ a ]]\n") == []


def test_a_literal_path_is_named_with_the_placeholder_to_write() -> None:
    found = literal_paths(
        spec(
            command=["python", "/job/code/train.py", "/job/coder", "x/job/out"],
            env={"A": "/job/out"},
        ),
        "here",
    )

    assert [(p.path, p.what, p.hint) for p in found] == [
        (("command", 1), "there is no /job/code here", "write ${mounts.code}/train.py"),
        (("env", "A"), "there is no /job/out here", "read RUNSPEC_OUTPUT_OUT in the program"),
    ]


def test_a_variable_of_env_that_names_another_is_taken_as_it_is() -> None:
    env = {"PATH": "/opt/bin:$PATH", "PRICE": "5 $", "HOME": "/h"}

    assert told(run="a", env=env) == [("env.PATH", 'set it in run: export PATH="/opt/bin:$PATH"')]
