"""What a job prints, at a terminal and in a pipe, and how soon."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from runspec_jobs import api
from runspec_jobs.cli.app import run
from tests.support.terminal import RUNSPEC, Terminal
from tests.support.wait import until

HEAD = "apiVersion: runspec/v1\nname: job\nprovider: local\nproviders: {local: {engine: process}}\n"
COLOURS = r"""run: printf '\033[31mred\n\033]0;title\007\033[2Jlast\033[0m\n'""" + "\n"
LOG = b"\x1b[31mred\n\x1b]0;title\x07\x1b[2Jlast\x1b[0m\n"

pytestmark = pytest.mark.slow


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return tmp_path / "job.yaml"


def test_colours_pass_at_a_terminal_and_nothing_else_does(job: Path) -> None:
    job.write_text(HEAD + COLOURS)

    terminal = Terminal("apply", str(job))

    assert terminal.code() == 0
    assert "\x1b[31mred\x1b[0m\r\n\x1b[31mlast\x1b[0m\x1b[0m\r\n" in terminal.shown
    assert "title" not in terminal.shown
    assert "\x1b[2J" not in terminal.shown


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_without_colours_at_a_terminal_if_that_is_wanted(
    job: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    job.write_text(HEAD + COLOURS)
    assert run(["apply", "--json", str(job)]) == 0
    monkeypatch.setenv(name, value)

    terminal = Terminal("logs", "job")

    assert terminal.code() == 0
    assert terminal.shown == "red\r\nlast\r\n"


def test_a_pipe_gets_no_colours_and_a_saved_log_all(job: Path) -> None:
    job.write_text(HEAD + COLOURS)
    assert run(["apply", "--json", str(job)]) == 0

    piped = subprocess.run([*RUNSPEC, "logs", "job"], capture_output=True, check=True)
    assert run(["logs", "job", "--save", str(job.with_name("log"))]) == 0

    assert piped.stdout == b"red\nlast\n"
    assert job.with_name("log").read_bytes() == LOG


BAR = """
import sys, time
from tqdm import tqdm

print("begun", flush=True)
for _ in tqdm(range(40), mininterval=0, ncols=60):
    time.sleep(0.05)
print("ended")
"""


def bar(job: Path, program: str = BAR, more: str = "") -> None:
    """Write a spec that runs *program*, whose progress bar takes two seconds."""
    script = job.with_name("bar.py")
    script.write_text(program)
    job.write_text(f"{HEAD}command: [{json.dumps(sys.executable)}, {script}]\n{more}")


def test_a_progress_bar_of_tqdm_moves_at_a_terminal_and_ends_as_one_line(job: Path) -> None:
    bar(job)

    terminal = Terminal("apply", str(job))
    assert terminal.code() == 0

    lines = screen(terminal.shown)
    (last,) = [line for line in lines if "/40" in line]
    assert last.startswith("100%|")
    assert len(set(re.findall(r" (\d+)/40", terminal.shown))) > 10
    begun, ended = lines.index("begun"), lines.index("ended")
    assert begun < lines.index(last) < ended


def test_a_progress_bar_of_tqdm_in_a_pipe_is_its_first_and_its_last_text(job: Path) -> None:
    bar(job)

    piped = subprocess.run([*RUNSPEC, "apply", str(job)], capture_output=True, check=True)
    again = subprocess.run([*RUNSPEC, "logs", "job"], capture_output=True, check=True)

    for out in (piped.stdout, again.stdout):
        shown = [line for line in out.decode().splitlines() if "/40" in line]
        assert len(shown) == 2
        assert shown[-1].startswith("100%|")
        assert b"\r" not in out


def test_bars_of_several_nodes_have_a_line_each(job: Path) -> None:
    bar(job, more="cluster: {nodes: 2}\n")

    terminal = Terminal("apply", str(job))
    assert terminal.code() == 0

    assert "\x1b[1A\x1b[J" in terminal.shown
    assert "\x1b[36m[node 0]\x1b[0m 100%" in terminal.shown
    shown = [line for line in screen(terminal.shown) if "/40" in line]
    assert sorted(line[:13] for line in shown) == ["[node 0] 100%", "[node 1] 100%"]


def test_a_line_that_has_not_ended_is_at_the_terminal_and_stays_after_ctrl_c(job: Path) -> None:
    job.write_text(HEAD + "run: |\n  printf 'asks: '\n  exec sleep 600\n")

    terminal = Terminal("apply", str(job))
    terminal.until("asks: ")
    terminal.type("\x03")
    terminal.until("detached")
    assert terminal.code() == 130

    assert "asks:" in screen(terminal.shown)
    assert run(["destroy", "job"]) == 0


LINES = """
import time

for pause_s in (0, 0.3, 0.3, 0.3, 2, 8):
    time.sleep(pause_s)
    print(time.time())
time.sleep(3)
"""


@pytest.mark.parametrize("follower", ["apply", "logs"])
def test_a_line_is_on_the_screen_within_a_second(job: Path, follower: str) -> None:
    """Also after a silence, and although the program does not flush its output."""
    bar(job, LINES)
    words = ["apply", str(job)] if follower == "apply" else ["logs", "-f", "job"]
    latest = []
    for _ in range(3):  # on a busy machine, a process may wait that long for a processor
        if follower == "logs":
            assert run(["apply", "-d", "--json", str(job)]) == 0
        with subprocess.Popen([*RUNSPEC, *words], stdout=subprocess.PIPE) as logs:
            assert logs.stdout
            late = [time.time() - float(line) for line in iter(logs.stdout.readline, b"")]
        assert logs.returncode == 0
        assert len(late) == 6
        # `logs` begins when the first lines have been printed.
        latest.append(max(late if follower == "apply" else late[-2:]))
        if latest[-1] < 1:
            return
        assert run(["destroy", "job"]) == 0

    assert min(latest) < 1


def test_a_spec_can_have_python_collect_its_output(job: Path) -> None:
    bar(job, LINES.replace("2, 8", ""), 'env: {PYTHONUNBUFFERED: ""}\n')

    with subprocess.Popen([*RUNSPEC, "apply", str(job)], stdout=subprocess.PIPE) as logs:
        assert logs.stdout
        late = [time.time() - float(line) for line in iter(logs.stdout.readline, b"")]

    assert len(late) == 4
    assert min(late) > 2


def test_lines_are_chosen_while_a_log_is_followed_and_afterwards(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job.write_text(HEAD + "run: |\n  seq 1 100\n  sleep 3\n  seq 101 110\n")
    assert run(["apply", "-d", "--json", str(job)]) == 0
    until(lambda: run(["logs", "job"]) == 0 and "100\n" in capfd.readouterr().out)

    assert run(["logs", "-f", "job", "--tail", "2", "--grep", "5"]) == 0
    assert capfd.readouterr().out.split() == ["85", "95", "105"]
    assert run(["logs", "job", "--tail", "2"]) == 0
    assert capfd.readouterr().out == "109\n110\n"
    assert run(["logs", "job", "--tail", "1", "--grep", "^9", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["line"] == "99"
    assert [line.text for line in api.get("job").logs(tail=1, grep="^8")] == ["89"]
    followed = api.get("job").logs(tail=1, grep="^8", follow=True)
    assert [line.text for line in followed] == ["89"]


@pytest.mark.parametrize(
    "option", [["--tail", "2"], ["--grep", "x"], ["--since", "5m"], ["--timestamps"]]
)
def test_a_saved_log_is_whole(
    job: Path, capfd: pytest.CaptureFixture[str], option: list[str]
) -> None:
    assert run(["logs", "job", "--save", "log", *option]) == 2
    assert f"{option[0]} cannot be used with --save" in capfd.readouterr().err


def screen(text: str) -> list[str]:
    """Return the lines that a terminal shows after *text*, which may erase and overwrite its last lines."""
    lines, at = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+|\x1b", text):
        if part == "\n":
            lines.append("")
            at = 0
        elif part == "\r":
            at = 0
        elif part == "\x1b[2K":
            lines[-1] = ""
        elif part == "\x1b[J":
            lines[-1] = lines[-1][:at]
        elif part.endswith("A"):
            del lines[len(lines) - int(part[2:-1]) :]
        elif not part.startswith("\x1b"):
            lines[-1] = lines[-1][:at].ljust(at) + part + lines[-1][at + len(part) :]
            at += len(part)
    return [line.rstrip() for line in lines]


SWEEP = """\
sweep: {lr: [0.1, 0.01]}
metric: {name: loss, goal: min, pattern: 'loss=([0-9.]+)'}
outputs: [{name: model, path: /job/model}]
run: |
  for i in 1 2 3; do echo "loss=${sweep.lr}"; sleep 1; done
  echo x > ${outputs.model}/x
"""
BEST = (
    r"succeeded: \d+\.\d s, best task 1 \(lr 0\.01\) with loss 0\.01, 1 output: runspec fetch job"
)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_live_area_shows_the_state_and_the_last_metric_and_goes(job: Path, columns: int) -> None:
    job.write_text(HEAD + SWEEP)

    terminal = Terminal("apply", str(job), columns=columns)
    assert terminal.code() == 0

    ages = re.findall(r"running\x1b\[0m (\d) s", terminal.shown)
    assert len(set(ages)) > 1
    assert re.search(r"\| loss 0\.01 \(task 1\)", terminal.shown)
    # Without a metric, there is room for the nodes in 40 columns too.
    whole = re.search(r"running\x1b\[0m \d s \| loss [^|\r]*\| 2 of 2 nodes run", terminal.shown)
    assert (whole is not None) == (columns > 40)
    areas = re.findall(r"running\x1b\[0m[^\x1b\r\n]*", terminal.shown)
    assert max(len(one.replace("\x1b[0m", "")) for one in areas) < columns
    left = screen(terminal.shown)
    assert not any("running" in line or "Ctrl-C" in line for line in left)
    assert sum("loss=" in line for line in left) == 6
    assert re.search(BEST, "\n".join(left))


def test_a_live_area_has_no_colours_with_no_color_and_a_dumb_terminal_has_none(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write_text(HEAD + SWEEP)
    monkeypatch.setenv("NO_COLOR", "1")

    plain = Terminal("apply", str(job))
    assert plain.code() == 0
    monkeypatch.setenv("TERM", "dumb")
    dumb = Terminal("apply", "--new", str(job))
    assert dumb.code() == 0

    assert re.search(r"running \d s \| loss", plain.shown)
    assert not re.search(r"\x1b\[[0-9;]*m", plain.shown)
    assert "\x1b" not in dumb.shown
    assert not re.search(r"running \d s", dumb.shown)
    assert "start 2 tasks of 1 node without a container" in dumb.shown
    assert re.search(BEST, dumb.shown)


def test_a_pipe_gets_plain_lines_and_the_line_at_the_end(job: Path) -> None:
    job.write_text(HEAD + SWEEP)

    done = subprocess.run([*RUNSPEC, "apply", str(job)], capture_output=True, text=True)

    assert sorted(set(done.stdout.split("\n"))) == ["", "[task 0] loss=0.1", "[task 1] loss=0.01"]
    first, step, last = done.stderr.splitlines()
    assert first.startswith("runspec: run job-")
    assert step == "runspec: start 2 tasks of 1 node without a container"
    assert re.fullmatch(f"runspec: job-[0-9a-z]{{6}} {BEST}", last)
    again = subprocess.run([*RUNSPEC, "apply", str(job)], capture_output=True, text=True)
    assert again.stderr.splitlines()[-1] == last


def test_github_actions_get_groups_in_which_no_line_of_the_job_is_a_command(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write_text(HEAD + "run: |\n  echo '::add-mask::a'\n  echo '::endgroup::'\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")

    done = subprocess.run([*RUNSPEC, "apply", str(job)], capture_output=True, text=True)
    logs = subprocess.run([*RUNSPEC, "logs", "job"], capture_output=True, text=True)

    begin, stop, *printed, resume, end = done.stdout.splitlines()
    assert re.fullmatch(r"::group::log of job-[0-9a-z]{6}", begin)
    assert (token := re.fullmatch(r"::stop-commands::([0-9a-f]{32})", stop))
    assert printed == ["::add-mask::a", "::endgroup::"]
    assert (resume, end) == (f"::{token[1]}::", "::endgroup::")
    told = done.stderr.splitlines()
    assert (told[0], told[3]) == ("::group::start job", "::endgroup::")
    assert re.fullmatch(r"runspec: job-[0-9a-z]{6} succeeded: \d+\.\d s", told[-1])
    assert logs.stdout.splitlines() == printed


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_an_upload_has_a_bar_and_a_rate_and_goes(job: Path, columns: int) -> None:
    program = """
import time
from runspec_jobs.api.events import Event
from runspec_jobs.cli.live.progress import ProgressPrinter

try:
    with ProgressPrinter(live=True) as printer:
        printer(Event("step", "upload mount [code]"))
        for done in range(12):
            printer(Event("transfer", "upload mount [code]", done * 400_000, 4_800_000))
            time.sleep(0.1)
        printer(Event("step", "make the pool"))
        time.sleep(0.6)
        printer(Event("step", "submit the job"))
        raise OSError
except OSError:
    pass
"""

    terminal = Terminal(program=[sys.executable, "-c", program], columns=columns)
    assert terminal.code() == 0

    shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown)
    assert re.search(r"upload mo.* \d\.\d/4\.8 MB .*MB/s", shown)
    assert ("\u2501\u2501" in shown) == (columns > 40)
    assert "make the pool" in shown
    assert [line for line in screen(terminal.shown) if line.startswith("runspec")] == [
        "runspec: submit the job"
    ]


def test_a_watched_list_and_status_change_in_place(job: Path) -> None:
    job.write_text(HEAD + "run: sleep 600\n")
    assert run(["apply", "-d", "--json", str(job)]) == 0

    status = Terminal("status", "job", "--watch")
    status.until("running")
    listed = Terminal("list", "--alive", "--watch", columns=40, rows=6)
    listed.until("running")
    assert run(["cancel", "job"]) == 0
    status.until("cancelled")
    assert status.code() == 0
    listed.until("none of the 1 runs on record")
    listed.type("\x03")
    assert listed.code() == 0

    assert any("cancelled" in line for line in screen(status.shown))
    assert not any("running" in line for line in screen(status.shown))
    assert not any("running" in line for line in screen(listed.shown))


def test_the_state_has_a_colour_in_a_list_unless_no_color_is_set(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.write_text(HEAD + "run: exit 3\n")
    assert run(["apply", "--json", str(job)]) == 1

    coloured = Terminal("list")
    assert coloured.code() == 0
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal("list")
    assert plain.code() == 0

    assert "\x1b[31mfailed\x1b[0m" in coloured.shown
    assert "\x1b" not in plain.shown


def test_lines_have_times_and_old_ones_are_left_out(
    job: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job.write_text(HEAD + "run: |\n  date +%T\n  sleep 8\n  date +%T\n  sleep 600\n")
    assert run(["apply", "-d", "--json", str(job)]) == 0
    until(lambda: run(["logs", "job"]) == 0 and capfd.readouterr().out.count(":") == 4)
    capfd.readouterr()

    assert run(["logs", "job", "--timestamps"]) == 0
    printed = [line.split() for line in capfd.readouterr().out.splitlines()]
    assert run(["logs", "job", "--since", "6s", "--timestamps", "--json"]) == 0
    (new,) = map(json.loads, capfd.readouterr().out.splitlines())
    found = api.get("job")
    (first, second) = found.logs(timestamps=True)
    assert first.at is not None
    assert list(found.logs(since=first.at + timedelta(seconds=2))) == [second]
    assert [line.at for line in found.logs()] == [None, None]
    assert run(["destroy", "job"]) == 0

    assert len(printed) == 2
    for _, shown, own in printed:
        late = [sum(60**n * int(x) for n, x in enumerate(t.split(":")[::-1])) for t in (shown, own)]
        assert abs(late[0] - late[1]) <= 1
    assert new["line"] == printed[1][2]
    assert abs(new["at"] - time.time()) < 30
