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
import time
import urllib.parse
from typing import IO, Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

TRIES = 6
EMPTY = hashlib.sha256(b"").hexdigest()
PASSING = (429, 500, 502, 503, 504)
_kept: Dict[str, Any] = {}

Query = Sequence[Tuple[str, str]]
Body = Union[bytes, Callable[[], IO[bytes]]]


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


def credentials() -> Tuple[str, str, Optional[str]]:
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
    if _kept.get("until", 0) < time.time():
        found = _asked(os.environ)
        end = calendar.timegm(time.strptime(found["Expiration"][:19], "%Y-%m-%dT%H:%M:%S"))
        left_s = end - time.time()
        _kept.update(found, until=time.time() + min(left_s - 300, 3000))
    return _kept["AccessKeyId"], _kept["SecretAccessKey"], _kept["Token"]


def _asked(env: Mapping[str, str]) -> Dict[str, Any]:
    url = env.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if env.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        url = "http://169.254.170.2" + env["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
    if url:
        token = env.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        content = fetch(url, headers={"Authorization": token} if token else {})
    else:
        base = "http://169.254.169.254/latest/"
        asked = fetch(base + "api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "300"})
        headers = {"X-aws-ec2-metadata-token": asked.decode()}
        base += "meta-data/iam/security-credentials/"
        role = fetch(base, headers=headers).decode().split()[0]
        content = fetch(base + role, headers=headers)
    found: Dict[str, Any] = json.loads(content.decode())
    return found


class Store:
    """The bucket and prefix of `RUNSPEC_STORE` (s3://bucket/prefix), in the region `RUNSPEC_REGION`."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self.bucket, _, self.prefix = env["RUNSPEC_STORE"][len("s3://") :].partition("/")
        self.region = env["RUNSPEC_REGION"]
        end = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
        ours = "https://s3.{}.amazonaws.com{}".format(
            self.region, ".cn" * self.region.startswith("cn-")
        )
        parts = urllib.parse.urlsplit(end or ours)
        self.https, self.host = parts.scheme == "https", parts.netloc

    def send(
        self,
        method: str,
        key: str,
        query: Query = (),
        body: Body = b"",
        digest: str = EMPTY,
        headers: Optional[Dict[str, str]] = None,
        size: int = 0,
    ) -> http.client.HTTPResponse:
        """Return the answer, its body unread; tried again while the store is busy or not to be reached.

        *body* is bytes or a function that opens a file anew for every try, with its *size*.
        """
        for count in range(1, TRIES):
            try:
                answer = self._once(method, key, query, body, digest, headers or {}, size)
                if answer.status not in PASSING:
                    return answer
                answer.read()
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.25 * 2**count)
        return self._once(method, key, query, body, digest, headers or {}, size)

    def _once(
        self,
        method: str,
        key: str,
        query: Query,
        body: Body,
        digest: str,
        headers: Dict[str, str],
        size: int,
    ) -> http.client.HTTPResponse:
        path = "/" + self.bucket
        if key:
            path += "/" + urllib.parse.quote(self.prefix + "/" + key, safe="/-_.~")
        asked = "&".join(
            "{}={}".format(*(urllib.parse.quote(word, safe="-_.~") for word in pair))
            for pair in sorted(query)
        )
        signed = self._signed(method, path, asked, digest, headers)
        kind = http.client.HTTPSConnection if self.https else http.client.HTTPConnection
        link = kind(self.host, timeout=60)
        if callable(body):
            with body() as stream:
                signed["Content-Length"] = str(size)
                link.request(method, path + ("?" + asked if asked else ""), stream, signed)
        else:
            link.request(method, path + ("?" + asked if asked else ""), body, signed)
        return link.getresponse()

    def _signed(
        self, method: str, path: str, query: str, digest: str, headers: Dict[str, str]
    ) -> Dict[str, str]:
        key, secret, token = credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        found = {k.lower(): v for k, v in headers.items()}
        found.update({"host": self.host, "x-amz-content-sha256": digest, "x-amz-date": now})
        if token:
            found["x-amz-security-token"] = token
        names = ";".join(sorted(found))
        lines = "".join("{}:{}\n".format(k, found[k]) for k in sorted(found))
        words = (method, path, query, lines, names, digest)
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


def main() -> None:
    wanted = os.environ["RUNSPEC_INSIDE_SHA256"]
    try:
        answer = Store().send("GET", "inside/{}.pyz".format(wanted))
        content = answer.read()
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        sys.exit("runspec: cannot get what runs the job: {}".format(error))
    if answer.status != 200 or hashlib.sha256(content).hexdigest() != wanted:
        sys.exit(
            "runspec: cannot get what runs the job: the store answers {}".format(answer.status)
        )
    path = os.path.join(tempfile.mkdtemp(prefix="runspec-"), "inside.pyz")
    with open(path, "wb") as stream:
        stream.write(content)
    os.environ["RUNSPEC_INSIDE"] = path
    os.execv(sys.executable, [sys.executable, "-IS", path, "job", "--", *sys.argv[1:]])


if __name__ == "__main__":
    main()
