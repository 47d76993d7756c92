"""What a job asks its machine (IMDS, or ECS): credentials and the notice of a spot machine, whatever is answered.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st

from runspec_agent.base import boot
from runspec_agent.base.job_env import Failure
from runspec_agent.preemption.ec2 import Ec2PreemptionWatcher
from runspec_agent.store.s3 import S3Bucket
from tests.drawn.drawing import COUNT, cut, odd, tried
from tests.drawn.schema import LACKS, lacking
from tests.support.http_server import DROPPED, ReceivedRequest, Reply, Server

pytestmark = pytest.mark.slow
JSON = {"Content-Type": "application/json"}
KEYS = {
    "Code": "Success",
    "LastUpdated": "2026-11-23T10:00:00Z",
    "Type": "AWS-HMAC",
    "AccessKeyId": "A",
    "SecretAccessKey": "S",
    "Token": "T",
    "Expiration": "2099-11-23T16:00:00Z",
}
NOTICE = {"action": "terminate", "time": "2026-11-23T10:02:00Z"}
FAILED = {"Code": "Failed", "Message": "no", "LastUpdated": "2026-11-23T10:00:00Z"}


def said(value: Any) -> Reply:
    return Reply(200, JSON, json.dumps(value).encode())


REFUSED = [*(Reply(status) for status in (400, 401, 403, 404, 429, 500, 503)), DROPPED]
ODD = [said(value) for value in (FAILED, None, [], [KEYS], "x", 0, {})]
NO_TEXT = [Reply(200, {}, body) for body in (b"line\nline", "é".encode(), b"\xff", b"")]
WORDS = st.text("abcXYZ019-_+=", min_size=1, max_size=56).map(
    lambda word: Reply(200, {}, word.encode())
)


def replies(part: str) -> st.SearchStrategy[Reply]:
    """Return a strategy for what the machine may answer to a question."""
    if part in ("token", "role"):
        return st.one_of(WORDS, WORDS, st.sampled_from([*REFUSED, *NO_TEXT]), odd("text/plain"))
    truth = PARTS[part]
    members: st.SearchStrategy[Any] = st.sampled_from((None, "", 1, [{}]))
    values = st.dictionaries(st.text(max_size=3), members, max_size=2)
    whole = values.map(lambda more: said({**more, **truth}))
    lacks = LACKS.map(lambda lack: said(lacking(truth, lack).value))
    wrong = st.sampled_from([*ODD, *NO_TEXT, *REFUSED])
    return st.one_of(whole, whole, lacks, wrong, cut(said(truth)), odd("application/json"))


def well(part: str, reply: Reply) -> bool:
    """Say whether *reply* is a right answer to a question, and so one that has to be understood."""
    if reply.status != 200 or reply.sent is not None:
        return False
    if part in ("token", "role"):
        return reply.body.isalnum()
    try:
        found = json.loads(reply.body)
    except ValueError:
        return False
    return isinstance(found, dict) and PARTS[part].items() <= found.items()


PARTS: dict[str, Any] = {"token": b"tok", "role": b"my-role", "keys": KEYS, "notice": NOTICE}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as found:
        monkeypatch.setattr(boot, "HOSTS", {"container": found.url, "machine": found.url})
        monkeypatch.setattr(boot.Store, "tries", 1)
        for name, value in {
            "AWS_ENDPOINT_URL": found.url,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": found.url,
            "RUNSPEC_STORE": "s3://jobs/p",
            "RUNSPEC_REGION": "eu-central-1",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        yield found


def answering(part: str, reply: Reply) -> Any:
    def answer(asked: ReceivedRequest) -> Reply:
        which = part_of(asked.path)
        if which == part:
            return reply
        truth = PARTS.get(which, b"of the store")
        return said(truth) if isinstance(truth, dict) else Reply(200, {}, truth)

    return answer


def part_of(path: str) -> str:
    if path == "/latest/api/token":
        return "token"
    if path.endswith("security-credentials/"):
        return "role"
    if "security-credentials/" in path or path == "/v2/credentials":
        return "keys"
    return "notice" if path.endswith("instance-action") else ""


@pytest.mark.parametrize("part", ["token", "role", "keys", "container"])
def test_whatever_the_machine_answers_a_job_has_its_credentials_or_a_failure(
    machine: Server, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    if part == "container":
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/credentials")
    drawn = "keys" if part == "container" else part

    def check(reply: Reply) -> None:
        boot.role_cache.clear()
        machine.asked.clear()
        machine.answering = answering(drawn, reply)
        found: Any
        try:
            found = S3Bucket().get("k")
        except Failure as exc:
            found = exc
        if isinstance(found, Failure):
            assert str(found) and not well(drawn, reply)
            return
        assert found == b"of the store"
        signed = machine.asked[-1].headers
        assert "Credential=A/" in signed["authorization"]
        if drawn == "keys":
            assert reply.sent is None and json.loads(reply.body)["SecretAccessKey"] == "S"

    assert tried(f"machine: {part}", replies(drawn), check) >= COUNT


@pytest.mark.parametrize("part", ["token", "notice"])
def test_whatever_the_machine_answers_once_its_notice_is_heard_after_it(
    machine: Server, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(Ec2PreemptionWatcher, "every_s", 0.0)
    monkeypatch.setattr(Ec2PreemptionWatcher, "answer_s", 30.0)

    def check(reply: Reply) -> None:
        rest = [reply]

        def answer(asked: ReceivedRequest) -> Reply:
            first = part_of(asked.path) == part and rest
            return rest.pop() if first else answering("", reply)(asked)

        machine.answering = answer
        watch = Ec2PreemptionWatcher({"AWS_EC2_METADATA_SERVICE_ENDPOINT": machine.url})
        watch.run()
        assert watch.notice is not None
        assert not well("notice", reply) or watch.notice == NOTICE["time"]

    assert tried(f"notice: {part}", replies(part), check) >= COUNT
