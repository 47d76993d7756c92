"""Jobs run for real, and what they write comes back by the service's own ways."""

from __future__ import annotations

from tests.unit.runspec_rehearsal_batchai.hand import Hand, get


def test_a_job_runs_and_its_stdout_comes_by_ranges_of_a_signed_link(hand: Hand) -> None:
    done = hand.run("echo one; echo two; echo bad >&2")
    link = hand.files()["stdout.txt"].download_url

    first, rest, none = (get(link, f"bytes={a}") for a in ("0-3", "4-", "8-"))

    assert (done.execution_state, done.execution_info.exit_code) == ("succeeded", 0)
    assert (first.status, first.body) == (206, b"one\n")
    assert (rest.status, rest.body) == (206, b"two\n")
    assert (none.status, none.headers["Content-Range"]) == (416, "bytes */8")
    assert hand.text("stderr.txt") == "bad\n"
