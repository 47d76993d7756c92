"""The first thing that runs in a job on a service with an object store: it gets the zipapp and becomes it.

It travels inside the request, so it is one file, small, and imports nothing of ours; `bucket` builds on it. Requests
are signed as https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html says, with
the credentials that the machine hands to its containers.
"""

import calendar
import hashlib
import hmac
import http.client
import json
import os
import sys
import tempfile
import threading
import time
import urllib.parse
from email.message import Message
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

TRIES = 6
PASSING = (429, 500, 502, 503, 504)
LOST = 75
HOSTS = {"container": "http://169.254.170.2", "machine": "http://169.254.169.254"}

Pairs = Sequence[Tuple[str, str]]
Keys = Tuple[str, str, Optional[str]]
_kept: Dict[str, Tuple[float, Keys]] = {}  # whole tuples: many threads read while one renews
_renewing = threading.Lock()


class Ask(NamedTuple):
    """A request; *body* is bytes, or a function that opens *size* bytes of SHA-256 *digest* anew for every try."""

    method: str
    key: str
    query: Pairs = ()
    body: Union[bytes, Callable[[], Any]] = b""
    headers: Pairs = ()
    size: int = 0
    digest: str = ""


class Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


def whole(answer: http.client.HTTPResponse) -> Answer:
    with answer:
        return Answer(answer.status, answer.headers, answer.read())


def fetch(url: str, method: str = "GET", headers: Optional[Dict[str, str]] = None) -> bytes:
    """Return the body of a plain request; the services of the machine itself answer at once."""
    parts = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    link = kind(parts.netloc, timeout=5)
    try:
        link.request(
            method, parts.path + ("?" + parts.query if parts.query else ""), headers=headers or {}
        )
        answer = link.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError("{}: {}".format(url, answer.status))
        return body
    finally:
        link.close()


def credentials() -> Keys:
    """Return (key, secret, token): of the environment, of the container's role, or of the machine's.

    https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-security-credentials.html
    """
    env = os.environ.get
    if env("AWS_ACCESS_KEY_ID"):
        return (
            env("AWS_ACCESS_KEY_ID", ""),
            env("AWS_SECRET_ACCESS_KEY", ""),
            env("AWS_SESSION_TOKEN"),
        )
    with _renewing:
        if "role" not in _kept or _kept["role"][0] < time.time():
            found = _asked(os.environ)
            end = calendar.timegm(time.strptime(found["Expiration"][:19], "%Y-%m-%dT%H:%M:%S"))
            keys = found["AccessKeyId"], found["SecretAccessKey"], found.get("Token")
            _kept["role"] = min(end - 300, time.time() + 3000), keys
        return _kept["role"][1]


def _asked(env: Mapping[str, str]) -> Dict[str, Any]:
    url = env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        url = HOSTS["container"] + env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
    if url:
        token = env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        content = fetch(url, headers={"Authorization": token} if token else {})
    else:
        base = HOSTS["machine"] + "/latest/"
        asked = fetch(base + "api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "300"})
        headers = {"X-aws-ec2-metadata-token": asked.decode()}
        base += "meta-data/iam/security-credentials/"
        role = fetch(base, headers=headers).decode().partition("\n")[0]
        content = fetch(base + role, headers=headers)
    found: Dict[str, Any] = json.loads(content.decode())
    return found


class Store:
    """The bucket and prefix of `RUNSPEC_STORE` (s3://bucket/prefix), in the region `RUNSPEC_REGION`."""

    tries = TRIES
    timeout_s = 60.0

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        # Python 3.6 without a locale reads variables as ASCII, and escapes the rest.
        where = env["RUNSPEC_STORE"].encode("utf-8", "surrogateescape").decode("utf-8")
        self.bucket, _, self.prefix = where[len("s3://") :].partition("/")
        self.region = env["RUNSPEC_REGION"]
        end = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
        ours = "https://s3.{}.amazonaws.com{}".format(
            self.region, ".cn" * self.region.startswith("cn-")
        )
        parts = urllib.parse.urlsplit(end or ours)
        self.https, self.host = parts.scheme == "https", parts.netloc

    def send(self, ask: Ask, take: Callable[[http.client.HTTPResponse], Any] = whole) -> Any:
        """Return what *take* makes of the answer; tried again while the store is busy, silent or breaks off."""
        for count in range(1, self.tries):
            try:
                found = take(self._once(ask))
                if found.status not in PASSING:
                    return found
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.25 * 2**count)
        return take(self._once(ask))

    def _once(self, ask: Ask) -> http.client.HTTPResponse:
        path, query = self._path(ask)
        headers = self._signed(ask, path, query)
        url = path + ("?" + query if query else "")
        kind = http.client.HTTPSConnection if self.https else http.client.HTTPConnection
        link = kind(self.host, timeout=self.timeout_s)
        try:
            if callable(ask.body):
                with ask.body() as stream:
                    headers["Content-Length"] = str(ask.size)
                    link.request(ask.method, url, stream, headers)
            else:
                link.request(ask.method, url, ask.body, headers)
            answer = link.getresponse()
        except BaseException:  # whatever it is goes on; the connection does not
            link.close()
            raise
        if link.sock is not None:
            link.sock.close()  # in fact when the answer has been read
        return answer

    def _path(self, ask: Ask) -> Tuple[str, str]:
        path = "/" + self.bucket
        if ask.key:
            path += "/" + _quoted(self.prefix + "/" + ask.key, "/-_.~")
        pairs = sorted([_quoted(word, "-_.~") for word in pair] for pair in ask.query)
        return path, "&".join("=".join(pair) for pair in pairs)

    def _signed(self, ask: Ask, path: str, query: str) -> Dict[str, str]:
        key, secret, token = credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        digest = ask.digest if callable(ask.body) else hashlib.sha256(ask.body).hexdigest()
        found = {k.lower(): v for k, v in ask.headers}
        found.update({"host": self.host, "x-amz-content-sha256": digest, "x-amz-date": now})
        if token:
            found["x-amz-security-token"] = token
        names = ";".join(sorted(found))
        lines = "".join("{}:{}\n".format(k, found[k]) for k in sorted(found))
        words = (ask.method, path, query, lines, names, digest)
        request = "\n".join(words)
        scope = "{}/{}/s3/aws4_request".format(now[:8], self.region)
        text = "\n".join(
            ("AWS4-HMAC-SHA256", now, scope, hashlib.sha256(request.encode()).hexdigest())
        )
        made = ("AWS4" + secret).encode()
        for word in (now[:8], self.region, "s3", "aws4_request", text):
            made = hmac.new(made, word.encode(), hashlib.sha256).digest()
        found["Authorization"] = (
            "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}".format(
                key, scope, names, made.hex()
            )
        )
        return found


def _quoted(word: str, safe: str) -> str:
    return urllib.parse.quote(
        word, safe, errors="surrogateescape"
    )  # Python 3.6 reads names as ASCII


def main() -> None:
    wanted = os.environ["RUNSPEC_INSIDE_SHA256"]
    try:
        answer = Store().send(Ask("GET", "inside/{}.pyz".format(wanted)))
    except (OSError, ValueError, LookupError, http.client.HTTPException) as error:
        sys.exit(_told("the store cannot be reached: {}".format(error), LOST))
    if answer.status != 200:
        busy = answer.status in PASSING
        sys.exit(_told("the store answers {}".format(answer.status), LOST if busy else 1))
    if hashlib.sha256(answer.body).hexdigest() != wanted:
        sys.exit(_told("what came is not what was put there", 1))
    path = os.path.join(tempfile.mkdtemp(prefix="runspec-"), "inside.pyz")
    with open(path, "wb") as stream:
        stream.write(answer.body)
    os.environ["RUNSPEC_INSIDE"] = path
    os.execv(sys.executable, [sys.executable, "-IS", path, "job", "--", *sys.argv[1:]])


def _told(what: str, code: int) -> int:
    print("runspec: cannot get what runs the job: {}".format(what), file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
