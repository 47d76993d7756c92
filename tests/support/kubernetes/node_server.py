"""What the API server asks the kubelet of a node: logs of containers, and commands in them."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlsplit

from runspec_emulators.frame.errors import ServiceError
from runspec_emulators.frame.listening import HOST, Certificate, Listener
from runspec_emulators.kubernetes.nodes import streams
from runspec_emulators.kubernetes.nodes.websocket import accept
from tests.support.kubernetes.node_container import Running
from tests.support.kubernetes.node_log import read_options
from tests.support.kubernetes.node_pod import Pod

# What the kubelet says of a container without a log: validateContainerLogStatus in pkg/kubelet/kubelet_pods.go
WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
Find = Callable[[str, str], Pod | None]


class Server(Listener):
    """The kubelet's API of a node, which answers whoever has a certificate of *callers*, the API server."""

    def __init__(self, find: Find, certificate: Certificate, callers: Path | None = None) -> None:
        super().__init__((HOST, 0), Handler)
        self.find = find
        self.encrypt(certificate)
        assert self.tls is not None, "BUG: it has a certificate"
        if callers is None:
            return
        self.tls.load_verify_locations(callers)
        self.tls.verify_mode = ssl.CERT_REQUIRED


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: object) -> None:
        """Write no log of requests."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        words = parts.path.strip("/").split("/")
        if len(words) != 4 or words[0] not in ("containerLogs", "exec"):
            self._refuse(404, "not found")
            return
        pod = self.server.find(words[1], words[2])
        if pod is None:
            self._refuse(404, f'pod "{words[2]}" does not exist')
        elif pod.running is None:
            which = f'container "{words[3]}" in pod "{words[2]}"'
            self._refuse(400, f"{which} is waiting to start: {WAITING.get(pod.waits, pod.waits)}")
        elif words[0] == "exec":
            self._start(pod.running, parse_qs(parts.query))
        else:
            self._give(pod, dict(parse_qsl(parts.query)))

    def _start(self, container: Running, query: dict[str, list[str]]) -> None:
        """Run a command with its streams in a websocket; their names are those of the kubelet."""
        names = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
        wants = {stream: query.get(name) == ["1"] for stream, name in names.items()}
        try:
            header = self.headers.get("Sec-WebSocket-Protocol", "")
            protocol = streams.choose_protocol(header, streams.EXEC)
        except ServiceError as exc:
            self._refuse(exc.status, exc.message)
            return
        command = query.get("command", [])
        self.close_connection = True
        accept(self, protocol, lambda link: streams.Command(container, command, wants, link).run())

    def _give(self, pod: Pod, query: dict[str, str]) -> None:
        if query.get("previous") == "true":
            which = f'"{pod.container["name"]}" in pod "{pod.name}"'
            self._refuse(400, f"previous terminated container {which} not found")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part in pod.log.read(read_options(query)):
            if part:
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _refuse(self, status: int, message: str) -> None:
        body = message.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
