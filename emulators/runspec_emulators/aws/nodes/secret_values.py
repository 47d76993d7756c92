"""What the agent of a machine does before it starts a container: it reads the secrets of the job.

https://docs.aws.amazon.com/AmazonECS/latest/developerguide/resource-initialization-error.html
"""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

from runspec_emulators import privacy
from runspec_emulators.aws import signature
from runspec_emulators.aws.nodes.engine import CannotStart

AGENT = ("execution-role", privacy.KEY)
ANSWER_S = 30.0


def read_secret(url: str | None, region: str, arn: str) -> str:
    """Return the current version of the secret *arn* of Secrets Manager at *url*; raise CannotStart if there is none.

    https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetSecretValue.html
    """
    status, answer = _ask(url, region, arn) if url and ":secretsmanager:" in arn else (404, {})
    if status != 200 or "SecretString" not in answer:
        raise CannotStart(
            "ResourceInitializationError: unable to pull secrets or registry auth: execution "
            "resource retrieval failed: unable to retrieve secret from asm: service call has "
            f"been retried 1 time(s): failed to fetch secret {arn}"
        )
    return str(answer["SecretString"])


def _ask(url: str, region: str, arn: str) -> tuple[int, dict[str, object]]:
    parts = urlsplit(url)
    body = json.dumps({"SecretId": arn}).encode()
    headers = {
        "host": f"secretsmanager.{region}.amazonaws.com",
        "content-type": "application/x-amz-json-1.1",
        "x-amz-target": "secretsmanager.GetSecretValue",
    }
    link = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=ANSWER_S)
    try:
        signed = signature.sign("POST", "/", headers, body, AGENT, region, "secretsmanager")
        link.request("POST", "/", body, signed)
        answer = link.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        link.close()
