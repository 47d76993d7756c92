"""A shell and a tunnel lead to the pod of a node, by a program whose words contain no secrets."""

from __future__ import annotations

import pytest

from runspec_jobs.provider import Unavailable
from runspec_jobs.provider.types import StdioProxy
from tests.unit.runspec_kubernetes.fake_cluster import RUN, Fakes

RUNNING = {"phase": "Running", "containerStatuses": [{"name": "job", "state": {"running": {}}}]}


def running(fakes: Fakes, index: int) -> str:
    pod = fakes.add_pod(index, "Running", 2)
    pod["status"] = RUNNING
    return str(pod["metadata"]["name"])


def test_a_shell_begins_in_the_newest_pod_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "vt100")
    fakes = Fakes(nodes=2, count=2)
    fakes.add_pod(3, "Failed", 1)
    name = running(fakes, 3)

    plain = fakes.client.shell(RUN, 1, 1, ["ls", "a b"], terminal=False)
    seen = fakes.client.shell(RUN, 1, 1, [], terminal=True)

    assert plain.env is None
    assert plain.argv[1:6] == ("-P", "-m", "runspec_kubernetes.shell_stream", "default", name)
    assert plain.argv[-8:] == ("-", "enter", RUN, "1", "1", "--", "ls", "a b")
    assert "--tty" in seen.argv
    assert seen.argv[-5:] == ("vt100", "enter", RUN, "1", "1")


def test_a_tunnel_is_the_relay_of_the_agent() -> None:
    fakes = Fakes()
    running(fakes, 2)
    next(iter(fakes.cluster.objects.values()))["status"] = {**RUNNING, "podIP": "10.0.0.7"}

    route = fakes.client.tunnel(RUN, 2, 0, 8888)

    assert isinstance(route, StdioProxy)
    assert route.argv[-4:] == ("-", "relay", "10.0.0.7,127.0.0.1", "8888")


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "leaving", ""])
def test_a_node_that_does_not_run_cannot_be_entered(phase: str) -> None:
    fakes = Fakes()
    if phase == "leaving":
        running(fakes, 0)
        pod = next(iter(fakes.cluster.objects.values()))
        pod["metadata"]["deletionTimestamp"] = "2026-11-25T10:00:00Z"
    elif phase:
        fakes.add_pod(0, phase)

    with pytest.raises(Unavailable):
        fakes.client.shell(RUN, 0, 0, ["true"], terminal=False)
    with pytest.raises(Unavailable):
        fakes.client.tunnel("nobody-abc123", 0, 0, 8888)
