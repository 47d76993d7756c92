"""Commands in pods, and ports of them, over websockets.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#create-connect-post-requests-to-exec-of-pod,
https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets
"""

from __future__ import annotations

import json
import os
import pty
import socket as sockets
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Sequence
from fcntl import ioctl
from typing import Any, Protocol

from runspec_emulators.frame.processes import exit_code, kill_group
from runspec_emulators.kubernetes import errors
from runspec_emulators.kubernetes.api.requests import Request
from runspec_emulators.kubernetes.nodes.kubelet import Kubelet
from runspec_emulators.kubernetes.nodes.log_requests import container_of
from runspec_emulators.kubernetes.nodes.websocket import Socket
from runspec_emulators.kubernetes.world import Object

# The first byte of each message: pkg/util/remotecommand/constants.go of k8s.io/apimachinery. v5 has
# added CLOSE, because a websocket cannot close one direction.
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
EXEC = ("v5.channel.k8s.io", "v4.channel.k8s.io")
PORTS = "v4.channel.k8s.io"
CHUNK = 1 << 15
Use = Callable[[Socket], None]


class Place(Protocol):
    """Where a command can be started, such as a container."""

    def spawn(
        self, argv: Sequence[str], errors: int, stdin: int, stdout: int = subprocess.PIPE
    ) -> tuple[subprocess.Popen[bytes], str]:
        """Start a command; return its process, and why it failed to start, if it did."""


def choose_protocol(header: str, known: tuple[str, ...]) -> str:
    """Return the best protocol that a client offers in *header*, or raise ServiceError."""
    offered = [p.strip() for p in header.split(",")]
    for protocol in known:
        if protocol in offered:
            return protocol
    raise errors.bad_request(
        f"unable to upgrade: unable to negotiate protocol: client supports {offered}"
    )


def open_exec(kubelet: Kubelet, request: Request, pod: Object) -> tuple[str, Use]:
    """Return the protocol of a command's stream, and what runs the command; raise ServiceError."""
    protocol = choose_protocol(request.headers.get("sec-websocket-protocol", ""), EXEC)
    name = container_of(request, pod)
    argv = [word for word in request.query.get("command", []) if word]
    if not argv:
        cause = errors.required("command")
        raise errors.refuse(
            422, "Invalid", f'PodExecOptions "" is invalid: {cause.field}: {cause.message}'
        )
    run = kubelet.runs.get(pod["metadata"]["uid"])
    container = run.containers.get(name) if run else None
    if container is None or container.process is None or container.process.returncode is not None:
        said = f'unable to upgrade connection: container not found ("{name}")'
        raise errors.refuse(500, "InternalError", f"Internal error occurred: {said}")
    wants = {n: request.is_set(n) for n in ("stdin", "stdout", "stderr", "tty")}
    return protocol, lambda socket: Command(container, argv, wants, socket).run()


class Command:
    """One command and its streams, which it `wants` by their names."""

    def __init__(
        self, container: Place, argv: list[str], wants: dict[str, bool], socket: Socket
    ) -> None:
        self._container, self._argv, self._wants, self._socket = container, argv, wants, socket
        self._master = -1
        self._input = -1

    def run(self) -> None:
        try:
            process, failed = self._start()
        except OSError as exc:
            self._say({"status": "Failure", "reason": "InternalError", "message": str(exc)})
            return
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        readers = [
            threading.Thread(target=self._pass, args=source, daemon=True)
            for source in self._sources(process)
        ]
        for reader in readers:
            reader.start()
        code = exit_code(process.wait())
        for reader in readers:
            reader.join(1.0)
        self._close(process)
        self._end(126 if failed else code)

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        self._input = -1
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def _start(self) -> tuple[subprocess.Popen[bytes], str]:
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        if self._wants["tty"]:
            self._master, other = pty.openpty()
            try:
                return self._container.spawn(self._argv, other, other, other)
            finally:
                os.close(other)
        stdin = pipe if self._wants["stdin"] else nothing
        process, failed = self._container.spawn(self._argv, pipe, stdin)
        if process.stdin is not None:
            self._input = process.stdin.fileno()
        return process, failed

    def _sources(self, process: subprocess.Popen[bytes]) -> list[tuple[int, int]]:
        if self._master >= 0:
            self._input = self._master
            return [(self._master, STDOUT)]
        pairs = ((process.stdout, STDOUT), (process.stderr, STDERR))
        return [(pipe.fileno(), channel) for pipe, channel in pairs if pipe is not None]

    def _pass(self, source: int, channel: int) -> None:
        """Send what comes from a command."""
        try:
            while data := os.read(source, CHUNK):
                self._socket.send(bytes([channel]) + data)
        except OSError:  # a terminal ends so, and a client that is gone
            pass

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Pass on what the client sends; a client that goes away ends the command."""
        for message in self._socket.messages():
            channel, data = message[:1], message[1:]
            try:
                if channel == bytes([STDIN]) and self._input >= 0:
                    os.write(self._input, data)
                elif channel == bytes([RESIZE]) and self._master >= 0:
                    size = json.loads(data)
                    words = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                    ioctl(self._master, termios.TIOCSWINSZ, words)
                elif message == bytes([CLOSE, STDIN]) and process.stdin is not None:
                    process.stdin.close()
            except (OSError, ValueError, KeyError):
                continue
        if process.poll() is None:
            kill_group(process.pid)

    def _end(self, code: int) -> None:
        if code == 0:
            self._say({"status": "Success"})
            return
        message = f"command terminated with non-zero exit code: exit status {code}"
        causes = [{"reason": "ExitCode", "message": str(code)}]
        more = {"reason": "NonZeroExitCode", "details": {"causes": causes}}
        self._say({"status": "Failure", "message": message, **more})

    def _say(self, status: dict[str, Any]) -> None:
        text = json.dumps({"metadata": {}, **status}).encode()
        self._socket.send(bytes([ERROR]) + text)


# Ports.


def open_ports(kubelet: Kubelet, request: Request, pod: Object) -> tuple[str, Use]:
    """Return the protocol of a stream to ports of a pod, and what connects them; raise ServiceError."""
    protocol = choose_protocol(request.headers.get("sec-websocket-protocol", ""), (PORTS,))
    given = [p for text in request.query.get("ports", []) for p in text.split(",")]
    if not given or not all(p.isdigit() and 0 < int(p) < 65536 for p in given):
        raise errors.bad_request(f'unable to parse "{",".join(given)}" as ports')
    run = kubelet.runs.get(pod["metadata"]["uid"])
    if run is None or run.done.is_set() or pod["status"].get("phase") != "Running":
        phase = pod["status"].get("phase")
        said = f"unable to forward port because pod is not running. Current status={phase}"
        raise errors.bad_request(said)
    address = run.address
    return protocol, lambda socket: _Ports(address, [int(p) for p in given], socket).run()


class _Ports:
    """The connections of one websocket: two channels for each port, of data and of errors."""

    def __init__(self, address: str, ports: list[int], socket: Socket) -> None:
        self._address, self._ports, self._socket = address, ports, socket
        self._links: dict[int, sockets.socket] = {}

    def run(self) -> None:
        for number, port in enumerate(self._ports):
            for channel in (2 * number, 2 * number + 1):
                # Each channel begins with its port, so that a client can tell them apart.
                self._socket.send(bytes([channel]) + struct.pack("<H", port))
            self._connect(2 * number, port)
        for message in self._socket.messages():
            link = self._links.get(message[0]) if message else None
            if link is not None and message[1:]:
                try:
                    link.sendall(message[1:])
                except OSError:
                    continue
        for link in self._links.values():
            link.close()

    def _connect(self, channel: int, port: int) -> None:
        """Connect to a port at the address of the pod, or at loopback, where programs of all pods listen."""
        why = ""
        for address in (self._address, "127.0.0.1"):
            try:
                self._links[channel] = sockets.create_connection((address, port), 5)
                break
            except OSError as exc:
                why = f"error forwarding port {port} to pod: {exc}"
        else:
            self._socket.send(bytes([channel + 1]) + why.encode())
            return
        self._links[channel].settimeout(None)
        threading.Thread(target=self._pass, args=(channel,), daemon=True).start()

    def _pass(self, channel: int) -> None:
        link = self._links[channel]
        try:
            while data := link.recv(CHUNK):
                self._socket.send(bytes([channel]) + data)
        except OSError:
            pass
        if len(self._links) == 1:
            self._socket.close()
