"""What inside.sh promises: the user's words, exit code and signals, byte for byte, in every shell."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from runspec_jobs.provider.payload import strip_inside_sh
from tests.support.agent.shells import (
    CALLS,
    Word,
    every_call,
    every_shell,
    line,
    program,
    run,
    start,
)

pytestmark = pytest.mark.process

PLACE = re.compile(rb"(\$?)\$\{([A-Za-z_][^}.$]*)\.([A-Za-z0-9_-]+)\}")
KINDS = (b"mounts", b"outputs", b"sweep")
VALUES: dict[bytes, bytes] = {
    b"mounts.a-b": b"/m \x81\xff$ ${sweep.lr} `id` $(id) * \\ \n",
    b"outputs.Model_1": b"",
    b"sweep.lr": b"0.1$",
}
VARIABLES: dict[str, Word] = {
    "RUNSPEC_MOUNT_A_B": VALUES[b"mounts.a-b"],
    "RUNSPEC_OUTPUT_MODEL_1": VALUES[b"outputs.Model_1"],
    "RUNSPEC_SWEEP_LR": VALUES[b"sweep.lr"],
}
PIECES = [b"${%s}" % name for name in VALUES] + [
    *(b"$", b"{", b"}", b"${", b"$$", b"${HOME}", b"${mounts.}", b"${mounts.a.b}", b"${mounts.a"),
    *(b"${mounts.a b}", b"${MOUNTS.a-b}", b"mounts.a-b", b"${sweep.l:r}", b"."),
    *(
        b"'",
        b'"',
        b"\\",
        b"`id`",
        b"$(id)",
        b";",
        b"&",
        b"*",
        b"?",
        b"[a]",
        b"~",
        b" ",
        b"\n",
        b"\t",
    ),
    *(
        b"${env.HOME}",
        b"$${env.HOME}",
        b"${a b.c}",
        b"${A:-b.c}",
        b"${A:-",
        b"$${a.b",
        b"${1.c}",
        b"${a.b.c}",
    ),
    *(b"-", b"--", b"-n", b"=", b"#", b"!", b"%s", b"\xc3", b"\xa9", b"\xff"),
    *(
        bytes([n]) for n in (1, 2, 0x7F, *range(0x80, 0x90))
    ),  # shells mark quotes with some of these
]


def known(word: bytes) -> bool:
    """Say whether *word* names only what is there: pieces may come together to another name."""
    return all(
        m[1] or m[2] not in KINDS or m[2] + b"." + m[3] in VALUES for m in PLACE.finditer(word)
    )


words = st.lists(
    st.one_of(
        st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join),
        st.binary(max_size=20).map(lambda word: word.replace(b"\0", b"")),
    ).filter(known),
    max_size=8,
)


def filled_in(word: bytes) -> bytes:
    def value(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return match[0][1:]
        return VALUES[match[2] + b"." + match[3]] if match[2] in KINDS else match[0]

    return PLACE.sub(value, word)


def printed(shell: str, form: str, argv: list[bytes]) -> list[bytes]:
    """Give the words that a program gets when inside.sh is given *argv*."""
    printf = shutil.which("printf")
    assert printf is not None, "printf is needed"
    done = run(shell, form, [printf, r"%s\0", *argv, "end"], **VARIABLES, LC_ALL="C.UTF-8")
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.split(b"\0")[:-2]


@example(argv=[b"${A:-${sweep.lr}} $${A:-${sweep.lr} ${a.b", b"$${a.b$"])
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(argv=words)
@example(argv=[b"", b"\n", b" ", b"a\n\n", b"-e", b"--", b"*"])
@example(argv=[b"$${mounts.a-b}", b"$$${sweep.lr}", b"${sweep.lr}${sweep.lr}", b"$", b"$$"])
@example(argv=[bytes(range(1, 256))])
@example(argv=[b"$${env.HOME} ${env.HOME} $$${a.b} $${a.b.c} $${a b.c} $${A:-b.c}"])
def test_every_word_reaches_the_program_byte_for_byte(argv: list[bytes]) -> None:
    """Whatever bytes the words are of; only the places of the contract are filled in, once."""
    expected = [filled_in(word) for word in argv]

    for shell, form in CALLS:
        assert printed(shell, form, argv) == expected, (shell, form)


@every_call
def test_placeholders_in_long_arguments_are_replaced(shell: str, form: str) -> None:
    """A script may be as long as the kernel lets a word be (131,071 bytes)."""
    word = b"x" * 60_000 + b"${sweep.lr}" + b"y$" * 300 + b"z" * 60_000

    assert printed(shell, form, [word]) == [filled_in(word)]


@every_call
def test_an_unknown_name_is_an_error(shell: str, form: str) -> None:
    """Exit 2, and one line that names the variable."""
    done = run(shell, form, ["true", "${mounts.code}"])

    said = b"runspec: unknown name 'code': RUNSPEC_MOUNT_CODE is not set\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", said)


@every_call
@pytest.mark.parametrize("locale", [None, "", "C.UTF-8", "nowhere_NO.UTF-8"])
def test_the_program_gets_the_environment_as_it_was(
    shell: str, form: str, locale: str | None
) -> None:
    """LC_ALL among it, which inside.sh changes for itself, and variables with common names."""
    own = {"IFS_": " ", "w": "1", "i": "2", "out": "3", "name": "4", "value": "5"}
    given_env = own if locale is None else {**own, "LC_ALL": locale}

    done = run(shell, form, ["env", "-0"], **given_env)

    found = dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if entry)
    of_shells = {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}
    assert {k: v for k, v in found.items() if k not in of_shells} == given_env


# --- exit codes and signals --------------------------------------------------------------------


SOME_CODES = [0, 1, 2, 3, 42, *range(124, 132), 137, 143, 254, 255]
ALL_CODES = list(range(256))


@pytest.mark.parametrize(
    "shell, codes", [("dash", ALL_CODES), ("bash", SOME_CODES), ("busybox", SOME_CODES)]
)
def test_every_exit_code_is_kept(shell: str, codes: list[int]) -> None:
    """From 0 to 255."""

    found: list[int] = []
    for first in range(0, len(codes), 32):
        some = [start(shell, "text", ["sh", "-c", f"exit {n}"]) for n in codes[first : first + 32]]
        for child in some:
            child.communicate()
            found.append(child.returncode)

    assert found == codes


@every_call
def test_the_program_takes_the_place_of_the_shell(shell: str, form: str) -> None:
    """So it is the first process of a container, and a SIGTERM is its own."""
    child = start(shell, form, ["sh", "-c", 'echo $$; trap "exit 9" TERM; kill -TERM $$; exit 1'])

    out, _ = child.communicate()

    assert (int(out), child.returncode) == (child.pid, 9)


@every_call
def test_a_sigterm_reaches_the_program(shell: str, form: str) -> None:
    """And ends it, if it does not mind."""
    child = start(shell, form, ["sh", "-c", "echo ready; exec sleep 60"])
    assert child.stdout is not None
    child.stdout.readline()

    child.send_signal(signal.SIGTERM)
    child.communicate()

    assert child.returncode == -signal.SIGTERM


@every_call
@pytest.mark.parametrize("word", ["no-such-program", "", "./no such", "-no-such"])
def test_a_command_that_is_not_there_is_127(shell: str, form: str, word: str) -> None:
    """With one line that names it."""
    done = run(shell, form, [word, "x"])

    said = f"runspec: '{word}': command not found\n".encode()
    assert (done.returncode, done.stderr) == (127, said)


@every_call
def test_a_program_may_begin_with_a_dash(shell: str, form: str, tmp_path: Path) -> None:
    """It is a program, not an option of the shell's exec."""
    program(tmp_path, "-prog", 'printf "%s," "$@"')

    done = run(shell, form, ["-prog", "-a", "b"], PATH=f"{os.environ['PATH']}:{tmp_path}")

    assert done.stdout == b"-a,b,"


@every_call
def test_no_command_at_all_is_an_error(shell: str, form: str) -> None:
    """Exit 2, not a job that has succeeded in doing nothing."""
    assert run(shell, form, []).returncode == 2


def test_inside_sh_fits_into_a_request() -> None:
    """AWS Batch takes 8,192 bytes of overrides for the whole job."""
    assert len(strip_inside_sh()) < 3_200


# --- renames -----------------------------------------------------------------------------------


@every_call
def test_the_words_of_a_service_get_the_names_of_the_contract(shell: str, form: str) -> None:
    """From left to right; what the service does not say leaves the name alone."""
    renames = (
        "RUNSPEC_RANK=AWS_INDEX RUNSPEC_NODES=NOT_THERE RUNSPEC_JOB=ODD RUNSPEC_X=RUNSPEC_RANK"
    )
    odd = b"a'\"$(id)`id`;\xff\n"

    done = run(
        shell,
        form,
        ["sh", "-c", 'printf "%s|" "$RUNSPEC_RANK" "$RUNSPEC_NODES" "$RUNSPEC_JOB" "$RUNSPEC_X"'],
        RUNSPEC_WORDS=renames,
        AWS_INDEX="3",
        RUNSPEC_NODES="8",
        ODD=odd,
    )

    assert done.stdout == b"3|8|" + odd + b"|3|"


@every_shell
@pytest.mark.parametrize(
    "pair", ["A", "=B", "A=", "A=B=C", "a=B", "A=b", "A=$(id)", "1A=B", "A=1B", "A;id=B", "*=B"]
)
def test_a_rename_that_is_not_one_is_an_error(shell: str, pair: str) -> None:
    """Before it is evaluated: exit 2 and the pair."""
    done = run(shell, "text", ["true"], RUNSPEC_WORDS=pair, B="1", b="1", A="1")

    assert done.returncode == 2
    assert f"RUNSPEC_WORDS: '{pair}'".encode() in done.stderr


# --- the claim ---------------------------------------------------------------------------------

CLAIMERS = 12


def race(shell: str, folder: Path, path: str) -> tuple[list[str], list[tuple[int, str]]]:
    """Let many jobs claim at once; give the ids of those that ran, and how all ended."""
    ran = folder / "ran"
    children = [
        subprocess.Popen(
            line(shell, "text", ["sh", "-c", f'echo "$RUNSPEC_JOB" >>"{ran}"']),
            env={"PATH": path, "RUNSPEC_CLAIM": str(folder / "claim"), "RUNSPEC_JOB": f"job {n}"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in range(CLAIMERS)
    ]
    ends = [(child.communicate()[1], child.returncode) for child in children]
    return ran.read_text().splitlines(), [(code, said) for said, code in ends]


def check(folder: Path, ran: list[str], ends: list[tuple[int, str]]) -> None:
    assert len(ran) == 1
    left = f"runspec: duplicate of {ran[0]}, leaving\n"
    assert sorted(ends) == [(0, "")] + [(0, left)] * (CLAIMERS - 1)
    assert sorted(entry.name for entry in folder.iterdir() if entry.is_file()) == ["claim", "ran"]


@every_shell
def test_of_many_jobs_that_claim_one_runs(shell: str, tmp_path: Path) -> None:
    """The others name it and leave with 0; nothing but the claim stays."""
    ran, ends = race(shell, tmp_path, os.environ["PATH"])

    check(tmp_path, ran, ends)


@every_shell
def test_one_of_many_jobs_runs_without_hard_links_too(shell: str, tmp_path: Path) -> None:
    """On SMB, say: then O_EXCL decides, and readers wait for the id."""
    program(tmp_path / "bin", "ln", "exit 1")

    ran, ends = race(shell, tmp_path, f"{tmp_path}/bin:{os.environ['PATH']}")

    check(tmp_path, ran, ends)


@every_call
def test_the_same_job_enters_its_claim_again(shell: str, form: str, tmp_path: Path) -> None:
    """A service's own retry keeps the job's id."""
    claim = {"RUNSPEC_CLAIM": str(tmp_path / "claim"), "RUNSPEC_JOB": "a/b:c \xe9"}

    done = [run(shell, form, ["echo", "ran"], **claim) for _ in range(2)]

    assert [d.stdout for d in done] == [b"ran\n", b"ran\n"]


# busybox runs its own sleep, whatever is on PATH: there is no standing in for it.
slept_for = pytest.mark.parametrize("shell", ["dash", "bash"])


@slept_for
def test_a_claim_without_an_id_is_looked_at_again(shell: str, tmp_path: Path) -> None:
    """Whoever made it is about to write its id: here, while we sleep."""
    claim = tmp_path / "claim"
    claim.touch()
    program(tmp_path / "bin", "sleep", f'echo other >"{claim}"')
    path = f"{tmp_path}/bin:{os.environ['PATH']}"

    done = run(
        shell, "text", ["echo", "ran"], RUNSPEC_CLAIM=str(claim), RUNSPEC_JOB="me", PATH=path
    )

    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"runspec: duplicate of other, leaving\n"


@slept_for
def test_a_claim_that_stays_without_an_id_stops_the_job(shell: str, tmp_path: Path) -> None:
    """Exit 75: nobody knows whether another one runs."""
    claim = tmp_path / "claim"
    claim.touch()
    program(tmp_path / "bin", "sleep", ":")
    path = f"{tmp_path}/bin:{os.environ['PATH']}"

    done = run(
        shell, "text", ["echo", "ran"], RUNSPEC_CLAIM=str(claim), RUNSPEC_JOB="me", PATH=path
    )

    assert (done.returncode, done.stdout) == (75, b"")


@every_shell
@pytest.mark.parametrize(
    "words", [{"RUNSPEC_JOB": ""}, {"RUNSPEC_JOB": "me", "RUNSPEC_CLAIM": "/no/such/folder/claim"}]
)
def test_a_claim_that_cannot_be_made_stops_the_job(
    shell: str, words: dict[str, str], tmp_path: Path
) -> None:
    """A job that may be the second one does not run."""
    done = run(shell, "text", ["echo", "ran"], **{"RUNSPEC_CLAIM": str(tmp_path / "c"), **words})

    assert done.returncode in (2, 75)
    assert done.stdout == b""


# --- handing over to the zipapp ----------------------------------------------------------------


@every_call
@pytest.mark.parametrize("launch", ["mpi", "torchrun"])
def test_a_launch_is_handed_to_the_zipapp(
    shell: str, form: str, launch: str, tmp_path: Path
) -> None:
    """With the words as they are to be run, by the Python that was named."""
    python = program(tmp_path, "my python", 'printf "%s|" "$@"')

    done = run(
        shell,
        form,
        ["train", "${sweep.lr}", ""],
        RUNSPEC_LAUNCH=launch,
        RUNSPEC_PYTHON=str(python),
        RUNSPEC_INSIDE="/x y.pyz",
        RUNSPEC_SWEEP_LR="0.1",
    )

    assert done.stdout == b"-IS|/x y.pyz|launch|--|train|0.1||"


@every_shell
@pytest.mark.parametrize("name", ["python3", "python"])
def test_the_python_is_whichever_there_is(shell: str, name: str, tmp_path: Path) -> None:
    """python3, else python."""
    program(tmp_path, name, 'echo "$0"')

    done = run(shell, "text", ["x"], RUNSPEC_LAUNCH="mpi", RUNSPEC_INSIDE="i", PATH=str(tmp_path))

    assert done.stdout.decode() == f"{tmp_path}/{name}\n"


@every_shell
def test_an_image_without_python_cannot_launch(shell: str, tmp_path: Path) -> None:
    """Exit 127 and a line that says what is missing."""
    done = run(shell, "text", ["x"], RUNSPEC_LAUNCH="mpi", RUNSPEC_INSIDE="i", PATH=str(tmp_path))

    said = b"runspec: launch: mpi needs python3, which this image does not have\n"
    assert (done.returncode, done.stderr) == (127, said)


@every_shell
@pytest.mark.parametrize("words", [{"RUNSPEC_LAUNCH": "mpich"}, {"RUNSPEC_LAUNCH": "mpi"}])
def test_a_launch_that_lacks_its_words_is_an_error(shell: str, words: dict[str, str]) -> None:
    """An unknown launch, or no zipapp: exit 2."""
    assert run(shell, "text", ["true"], **words).returncode == 2
