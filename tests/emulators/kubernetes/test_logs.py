"""Logs of pods: with times, from a time, the last lines, and as they come."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiException

from runspec_emulators.kubernetes.nodes.logs import Log, Wanted, stamp
from runspec_emulators.kubernetes.nodes.pod_files import PodFiles
from tests.emulators.kubernetes.stand import Stand, until


def filled(folder: Path, lines: int) -> Log:
    log = Log(folder / "log")
    text = b"".join(stamp(n * 10**9) + b" line %d\n" % n for n in range(lines))
    log.file.write_bytes(text)
    log.end()
    return log


def test_a_log_is_read_from_a_time(tmp_path: Path) -> None:
    log = filled(tmp_path, 10)

    assert b"".join(log.read(Wanted(since=b"1970-01-01T00:00:08"))) == b"line 8\nline 9\n"


@pytest.mark.parametrize(("containers", "kept"), [(1, "a" * 4093 + "end"), (4, "a" * 3072)])
def test_a_termination_message_is_the_end_of_its_file(
    tmp_path: Path, containers: int, kept: str
) -> None:
    """Of that, all containers of a pod share 12 KiB: tail.ReadAtMost and normalizeStatus of the kubelet."""
    container = {"name": "job", "terminationMessagePolicy": "File"}
    volumes: Any = None
    files = PodFiles({"spec": {"containers": [container] * containers}}, tmp_path, volumes)
    file = tmp_path / "messages" / "job" / "termination-log"
    file.parent.mkdir(parents=True)
    file.write_text("a" * 5000 + "end")

    assert files.message(container, 1, filled(tmp_path, 0)) == kept


@pytest.mark.parametrize(("tail", "first"), [(0, None), (1, 99_999), (5, 99_995), (200_000, 0)])
def test_a_log_is_read_from_its_end(tmp_path: Path, tail: int, first: int | None) -> None:
    log = filled(tmp_path, 100_000)

    lines = b"".join(log.read(Wanted(tail=tail))).splitlines()

    assert lines[:1] == ([] if first is None else [b"line %d" % first])
    assert len(lines) == min(tail, 100_000)


def test_a_log_is_cut_at_a_limit(tmp_path: Path) -> None:
    assert b"".join(filled(tmp_path, 10).read(Wanted(limit=10))) == b"line 0\nlin"


def test_a_log_that_is_rotated_begins_anew_and_is_followed(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", most=100)
    following = log.read(Wanted(follow=True))
    assert next(following) == b""

    log.take(BytesIO(b"".join(b"line %d\n" % n for n in range(4))))

    assert b"".join(log.read(Wanted())) == b"line 2\nline 3\n"
    assert b"".join(following) == b"".join(b"line %d\n" % n for n in range(4))


def test_a_log_that_is_gone_is_empty(tmp_path: Path) -> None:
    log = filled(tmp_path, 1)
    log.file.unlink()

    assert list(log.read(Wanted())) == []


@pytest.mark.process
def test_each_line_has_its_time(stand: Stand) -> None:
    stand.run("echo one; echo two >&2; printf three")
    stand.ended()

    lines = stand.log(timestamps=True).splitlines()

    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z "
    assert [re.sub(form, "", line, count=1) for line in lines] == ["one", "two", "three"]
    assert lines == sorted(lines)


@pytest.mark.process
def test_a_pod_that_has_not_begun_has_no_log(stand: Stand) -> None:
    stand.run("true", container={"image": "missing"})
    until(lambda: stand.pod()["status"].get("containerStatuses"))

    with pytest.raises(ApiException) as refused:
        stand.log()

    assert refused.value.status == 400
    assert 'container \\"job\\" in pod \\"p\\" is waiting to start' in str(refused.value.body)


@pytest.mark.process
def test_a_container_that_begins_again_has_a_previous_log(stand: Stand) -> None:
    mount = {"name": "v", "mountPath": "/seen"}
    script = "echo $(ls /seen | wc -l); if [ -e /seen/x ]; then exit 0; fi; touch /seen/x; exit 1"
    stand.run(
        script,
        container={"volumeMounts": [mount]},
        restartPolicy="OnFailure",
        volumes=[{"name": "v"}],
    )
    stand.ended()

    assert (stand.log(), stand.log(previous=True)) == ("1\n", "0\n")
    assert stand.pod()["status"]["containerStatuses"][0]["restartCount"] == 1
