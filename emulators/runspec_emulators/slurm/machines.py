"""A Slurm whose nodes have a network address, a name, a disk and an sshd each, as real machines do. Root only.

A node is a network, a UTS and a mount namespace, held by a process; so is the login node, which has
the bridge. Nothing is made outside of them, so that no subnet is taken from anybody, and all of it
is gone when the processes are. The nodes reach each other, and nobody else. namespaces(7), veth(4)
"""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Iterable
from pathlib import Path

from runspec_emulators.slurm.cluster import HEAD, PARTITIONS, Cluster, found_programs
from runspec_emulators.slurm.conf import Machine, Node, Shape
from runspec_emulators.slurm.daemons import Failed

HEAD_ADDRESS = "10.77.255.1"
# Slurm's own ports, which every machine can use in its network namespace.
CONTROLLER_PORT, NODE_PORT = 6817, 6818
# Arguments: the host name, the file for /etc/hosts, and the command that keeps the namespaces open.
HOLD = """
set -e
hostname "$1"
mount --bind "$2" /etc/hosts
mount -t tmpfs -o mode=0755 none /mnt
ip link set lo up
shift 2
exec "$@"
"""
SSHD = """
Port 22
HostKey {folder}/host
AuthorizedKeysFile {folder}/me.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
SetEnv SLURM_CONF={conf} HOME={home}
"""
SSH = """
IdentityFile {folder}/me
UserKnownHostsFile {folder}/known
GlobalKnownHostsFile /dev/null
BatchMode yes
"""


class Machines(Cluster):
    """Nodes "m1" ..., with addresses of their own and a private /mnt, and the login node "head".

    `run` runs there, and so does what begins with `at("head")`; `ssh_config` is what ssh needs there.
    """

    def __init__(self, folder: Path, nodes: int = 4, shape: Shape | None = None) -> None:
        if os.geteuid() != 0:
            raise Failed("network namespaces need root")
        self.holders: dict[str, int] = {}
        names = [f"m{i}" for i in range(1, nodes + 1)]
        super().__init__(folder, names, shape, PARTITIONS)

    @property
    def ssh_config(self) -> Path:
        return self.places.folder / "ssh" / "config"

    @property
    def ssh(self) -> Path:
        return self.places.folder / "ssh"

    def at(self, name: str) -> list[str]:
        """Return the words before a command that runs on "head" or on a node."""
        if name not in self.holders:
            return []
        return ["nsenter", f"--target={self.holders[name]}", "--net", "--uts", "--mount", "--"]

    def lose(self, name: str) -> None:
        """Have a machine vanish from the network, with all that Slurm runs on it."""
        self._tell(HEAD, [f"link set {name} down"])
        self.daemons.stop(f"{name}-sshd")
        super().lose(name)

    def start_node(self, name: str) -> None:
        self._tell(HEAD, [f"link set {name} up"])
        if self.daemons.codes().get(f"{name}-sshd", 0) is not None:
            self._start_sshd(name)
        super().start_node(name)

    def _layout(self, names: Iterable[str]) -> tuple[Machine, int, tuple[Node, ...]]:
        nodes = tuple(
            Node(name, NODE_PORT, f"10.77.{i >> 8}.{i & 255}", name)
            for i, name in enumerate(names, 1)
        )
        return Machine(HEAD, HEAD_ADDRESS), CONTROLLER_PORT, nodes

    def _configure(self) -> None:
        super()._configure()
        hosts = {"127.0.0.1": "localhost", HEAD_ADDRESS: HEAD}
        hosts |= {node.address: node.name for node in self.nodes}
        file = self.places.folder / "hosts"
        file.write_text("".join(f"{address} {name}\n" for address, name in hosts.items()))
        self._make_keys()
        for name in (HEAD, *(node.name for node in self.nodes)):
            argv = ["unshare", "--net", "--uts", "--mount", "sh", "-c", HOLD, "sh", name, str(file)]
            line = [*argv, "sleep", "infinity"]
            self.holders[name] = self.daemons.start(f"{name}-holder", line, self._own)
        for name in self.holders:
            self._await_holder(name)
        self._connect()

    def _await_holder(self, name: str) -> None:
        command = Path(f"/proc/{self.holders[name]}/cmdline")
        self._await(command.read_bytes, lambda line: line.startswith(b"sleep"))

    def _connect(self) -> None:
        """Put the bridge into the login node, and a cable from it into every node."""
        lines = [
            "link add br0 type bridge",
            f"addr add {HEAD_ADDRESS}/16 dev br0",
            "link set br0 up",
        ]
        for node in self.nodes:
            peer = f"peer name eth0 netns {self.holders[node.name]}"
            lines += [
                f"link add {node.name} type veth {peer}",
                f"link set {node.name} master br0 up",
            ]
        self._tell(HEAD, lines)
        for node in self.nodes:
            self._tell(node.name, [f"addr add {node.address}/16 dev eth0", "link set eth0 up"])

    def _tell(self, name: str, lines: Iterable[str]) -> None:
        """Have `ip` do these things on a machine."""
        done = subprocess.run(
            [*self.at(name)[:-3], "--net", "--", "ip", "-batch", "-"],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failed(f"ip on {name}: {done.stderr.strip()}")

    def _make_keys(self) -> None:
        folder = self.ssh
        folder.mkdir(mode=0o700, exist_ok=True)
        for name in ("host", "me"):
            if not (folder / name).exists():
                line = [
                    "ssh-keygen",
                    "-q",
                    "-t",
                    "ed25519",
                    "-N",
                    "",
                    "-C",
                    name,
                    "-f",
                    folder / name,
                ]
                subprocess.run(line, check=True, stdin=subprocess.DEVNULL)
        key = (folder / "host.pub").read_text()
        names = [HEAD, HEAD_ADDRESS]
        names += [word for node in self.nodes for word in (node.name, node.address)]
        (folder / "known").write_text(f"{','.join(names)} {key}")
        places = {"folder": folder, "conf": self.places.slurm_conf, "home": folder / "home"}
        # So that a login reads nothing from the home of root.
        (folder / "home").mkdir(mode=0o700, exist_ok=True)
        (folder / "sshd").write_text(textwrap.dedent(SSHD.format(**places)))
        self.ssh_config.write_text(SSH.format(**places))
        # sshd needs this folder for its unprivileged process.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)

    def _start_nodes(self) -> None:
        self._start_sshd(HEAD)
        super()._start_nodes()

    def _start_sshd(self, name: str) -> None:
        sshd = found_programs({"sshd": "openssh-server"})["sshd"]
        argv = [*self.at(name), sshd, "-D", "-e", "-f", str(self.ssh / "sshd")]
        self.daemons.start(f"{name}-sshd", argv, self._own)
