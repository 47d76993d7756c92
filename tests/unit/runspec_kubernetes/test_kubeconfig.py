"""A kubeconfig that is missing or malformed is named, and its text is in no error."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from runspec_jobs.provider import CredentialsError, NoAnswer, RemoteError, Unavailable
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.session import Session
from runspec_kubernetes.timing import CLOCK, DEFAULT, Timing


def refusal() -> str:
    with pytest.raises(Unavailable) as caught:
        _ = Session(KubernetesOptions(), DEFAULT, CLOCK).api
    return str(caught.value)


def test_without_a_kubeconfig_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert refusal() == "there is no kubeconfig ~/.kube/config"

    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none:{tmp_path}/neither")
    assert refusal() == f"there is no kubeconfig {tmp_path}/none:{tmp_path}/neither"


@pytest.mark.parametrize(
    "text",
    ["{token-text: [", "token-text", "[token-text]", "users: [{name: a}, 3]"],
)
def test_a_malformed_kubeconfig_is_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(file))

    said = refusal()

    assert said.startswith(f"the kubeconfig {file} cannot be used: it is malformed ("), said
    assert "token-text" not in said


def test_a_kubeconfig_that_cannot_be_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    assert refusal() == f"the kubeconfig {tmp_path} cannot be used: Is a directory"


@pytest.mark.process
def test_a_server_behind_a_firewall_is_given_up_before_an_answer_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as server, socket.socket() as first:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        first.connect(server.getsockname())  # the queue is full: Linux drops further requests
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        file = tmp_path / "config"
        file.write_text(write_config(url, {"token": "t"}))
        session = Session(
            KubernetesOptions(kubeconfig=str(file)), Timing(reach_s=0.1, answer_s=9), CLOCK
        )

        with pytest.raises(RemoteError, match=r"connect timeout=0\.1"):
            session.send("GET", "/version")


@pytest.mark.process
def test_a_server_that_takes_a_request_and_never_answers_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    file = tmp_path / "config"
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        file.write_text(write_config(url, {"token": "t"}))
        session = Session(KubernetesOptions(kubeconfig=str(file)), Timing(answer_s=0.1), CLOCK)

        with pytest.raises(NoAnswer, match="has taken the request, and does not answer"):
            session.send("GET", "/version")

    assert DEFAULT.reach_s + DEFAULT.answer_s <= 40


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["sh", "-c", "echo token-text >&2; exit 7"], "process returned 7"),
        (["sh", "-c", "echo token-text"], "it gave no login"),
        (["no-such-program"], "[Errno 2] No such file or directory: 'no-such-program'"),
    ],
)
def test_a_login_program_that_fails_is_an_error_without_its_text(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: list[str], why: str
) -> None:
    """The library writes a line to the log, and goes on without a login."""
    file = tmp_path / "config"
    login = {"command": command[0], "args": command[1:], "apiVersion": "v1"}
    file.write_text(write_config("http://127.0.0.1:9", {"exec": login}))

    with pytest.raises(CredentialsError) as caught:
        Session(KubernetesOptions(kubeconfig=str(file)), DEFAULT, CLOCK).send("GET", "/version")

    assert str(caught.value) == f"the login program of the kubeconfig has failed: {why}"
    assert capfd.readouterr() == ("", "")


def write_config(server: str, user: dict[str, object]) -> str:
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    known = {"clusters": [{"name": "a", "cluster": {"server": server}}], "contexts": [context]}
    return json.dumps({**known, "users": [{"name": "a", "user": user}], "current-context": "a"})
