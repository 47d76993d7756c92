"""Credentials for a store that are the job's alone: keys of the run, or an identity that Kubernetes gives a pod.

A webhook or an agent of the cloud projects a token of the service account into the pod, and sets variables. The file is
read for each request of credentials, because the token in it is replaced.

https://docs.aws.amazon.com/eks/latest/userguide/iam-roles-for-service-accounts.html

https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html

https://azure.github.io/azure-workload-identity/docs/topics/service-account-labels-and-annotations.html
"""

import calendar
import json
import threading
import time
import urllib.parse
from http.client import HTTPException
from typing import Any, Callable, Dict, Mapping, Optional, Tuple
from xml.etree import ElementTree

from runspec_agent.base import boot
from runspec_agent.base.boot import PASSING, TRIES, Keys
from runspec_agent.base.job_env import LOST, Failure
from runspec_agent.store.managed_identity import EARLY_S, REFUSED

# Of the keys of a store that the program does not get; it may have other ones in AWS_ACCESS_KEY_ID.
OWN_KEYS = ("RUNSPEC_S3_ACCESS_KEY_ID", "RUNSPEC_S3_SECRET_ACCESS_KEY", "RUNSPEC_S3_SESSION_TOKEN")
# Every container of a pod has it: https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
IN_POD = "KUBERNETES_SERVICE_HOST"
STS = "{https://sts.amazonaws.com/doc/2011-06-15/}"
STORAGE = "https://storage.azure.com/.default"
JWT = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ANSWER_S = 30.0

Credentials = Tuple[Any, float]  # and when they expire, in seconds since 1970


class Renewed:
    """Credentials that are requested again before they expire, for any thread."""

    def __init__(self, request: Callable[[], Credentials]) -> None:
        self._request = request
        self._lock = threading.Lock()
        self._kept: Credentials = (None, 0.0)

    def get(self) -> Any:
        with self._lock:
            if time.time() > self._kept[1] - EARLY_S:
                self._kept = self._request()
            return self._kept[0]


class BlobLogin(Renewed):
    """Tokens for Blob storage, as `managed_identity.Login` has them."""

    def token(self) -> str:
        return str(self.get())


def find_aws(env: Mapping[str, str], region: str) -> "Optional[Callable[[], Keys]]":
    """Return a function for the keys of this run or pod in *env*; None if there are none, and `boot` finds others."""
    if env.get(OWN_KEYS[0]):
        keys = (env[OWN_KEYS[0]], env.get(OWN_KEYS[1], ""), env.get(OWN_KEYS[2]))
        return lambda: keys
    if IN_POD not in env:  # these variables are the program's own, which may name any role
        return None
    if env.get("AWS_ROLE_ARN") and env.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return Renewed(lambda: _assume_role(env, region)).get
    if env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") and env.get(
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
    ):
        return Renewed(lambda: _ask_agent(env)).get
    return None


# https://azure.github.io/azure-workload-identity/docs/installation/mutating-admission-webhook.html
OF_AZURE = (
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "AZURE_AUTHORITY_HOST",
)


def find_azure(env: Mapping[str, str]) -> Optional[BlobLogin]:
    """Return the login of the identity that *env* names, or None."""
    return BlobLogin(lambda: _ask_entra(env)) if all(map(env.get, OF_AZURE)) else None


def _assume_role(env: Mapping[str, str], region: str) -> Credentials:
    """https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html"""
    base = "https://sts.{}.{}/".format(region, boot.domain(region))
    form = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": env["AWS_ROLE_ARN"],
        "RoleSessionName": env.get("AWS_ROLE_SESSION_NAME") or env.get("RUNSPEC_RUN", "runspec"),
        "WebIdentityToken": _token(env["AWS_WEB_IDENTITY_TOKEN_FILE"]),
    }
    url = env.get("AWS_ENDPOINT_URL_STS") or env.get("AWS_ENDPOINT_URL") or base

    def read(body: bytes) -> Credentials:
        found = ElementTree.fromstring(body).find(".//{}Credentials".format(STS))
        texts = {} if found is None else {item.tag[len(STS) :]: item.text or "" for item in found}
        return _keys(dict(texts, Token=texts["SessionToken"]))

    return _asked("the role {}".format(env["AWS_ROLE_ARN"]), "POST", url, {}, read, form)


def _ask_agent(env: Mapping[str, str]) -> Credentials:
    """https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html"""
    headers = {"Authorization": _token(env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"])}
    url = env["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
    return _asked(
        "the EKS Pod Identity", "GET", url, headers, lambda body: _keys(json.loads(body.decode()))
    )


def _keys(answer: Mapping[str, Any]) -> Credentials:
    end = calendar.timegm(time.strptime(answer["Expiration"][:19], "%Y-%m-%dT%H:%M:%S"))
    return (answer["AccessKeyId"], answer["SecretAccessKey"], answer.get("Token")), float(end)


def _ask_entra(env: Mapping[str, str]) -> Credentials:
    """https://learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow"""
    host = env["AZURE_AUTHORITY_HOST"]
    form = {
        "client_id": env["AZURE_CLIENT_ID"],
        "scope": STORAGE,
        "grant_type": "client_credentials",
        "client_assertion_type": JWT,
        "client_assertion": _token(env["AZURE_FEDERATED_TOKEN_FILE"]),
    }

    def read(body: bytes) -> Credentials:
        answer = json.loads(body.decode())
        return answer["access_token"], time.time() + float(answer["expires_in"])

    url = "{}/{}/oauth2/v2.0/token".format(host.rstrip("/"), env["AZURE_TENANT_ID"])
    return _asked("the identity {}".format(env["AZURE_CLIENT_ID"]), "POST", url, {}, read, form)


def _token(path: str) -> str:
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read().strip()
    except (OSError, ValueError) as error:
        text = "the token of the service account cannot be read from {}: {}"
        raise Failure(text.format(path, error), REFUSED) from error


def _asked(
    who: str,
    method: str,
    url: str,
    headers: Dict[str, str],
    read: Callable[[bytes], Credentials],
    form: Optional[Dict[str, str]] = None,
) -> Credentials:
    """Return what *read* makes of the answer; requests that a later one may replace are sent again after a pause.

    The form and headers have a token, which no message has.
    """
    body = None if form is None else urllib.parse.urlencode(form).encode("ascii")
    if form is not None:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
    why, passes = "", True
    for count in range(1, TRIES + 1):
        try:
            status, answer = _sent(method, url, headers, body)
            if status == 200:
                return read(answer)
            why = "{} {}".format(status, _code(answer)).rstrip()
            passes = status in PASSING or "IDPCommunicationError" in why
        except (OSError, HTTPException) as error:
            why, passes = str(error), True
        except (ValueError, LookupError, TypeError, ElementTree.ParseError):
            why, passes = "the answer has no credentials", False
        if not passes or count == TRIES:
            break
        time.sleep(0.25 * 2**count)
    text = "{} gives no credentials: {}".format(who, why)
    raise Failure(text, LOST if passes else REFUSED)


def _sent(
    method: str, url: str, headers: Dict[str, str], body: Optional[bytes]
) -> Tuple[int, bytes]:
    parts = urllib.parse.urlsplit(url)
    link = boot.connection(parts.scheme == "https", parts.netloc, ANSWER_S)
    try:
        path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        link.request(method, path, body, headers)
        answer = link.getresponse()
        return answer.status, answer.read()
    finally:
        link.close()


def _code(answer: bytes) -> str:
    """Return the error code of an answer of STS or Entra."""
    text = answer.decode("utf-8", "replace")
    if "<Code>" in text:
        return text.partition("<Code>")[2].partition("</Code>")[0]
    try:
        found = json.loads(text)
        said = str(found.get("error_description") or found.get("message") or "")
        return "{} {}".format(found.get("error", ""), said.partition(":")[0]).strip()
    except (ValueError, AttributeError):
        return ""
