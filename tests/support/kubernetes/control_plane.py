"""A real control plane of Kubernetes 1.20 on this machine: etcd, API server, controller manager and scheduler.

Nothing of it needs systemd, root or containers. Nodes are programs of ours: see `node`.
"""

from __future__ import annotations

import base64
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import urllib3
from urllib3.exceptions import HTTPError

from runspec_emulators.frame.listening import HOST, Closing, free_port
from runspec_emulators.frame.processes import inherited
from runspec_emulators.slurm.daemons import Daemons, Failed, tail
from tests.support import certificates
from tests.support.kubernetes.api import Api, Refused
from tests.support.kubernetes.cluster_files import Files, write_files
from tests.support.wait import until

UP_S = 120.0  # the limit on a busy machine; usually it takes 8 s
LOOK_S = 0.1
CHECKOUT = Path(__file__).resolve().parents[3]
ETCD, API_SERVER = "etcd", "kube-apiserver"
CONTROLLERS, SCHEDULER = "kube-controller-manager", "kube-scheduler"
PROGRAMS = (ETCD, API_SERVER, CONTROLLERS, SCHEDULER)
# Without those of clouds, and of what no test has: each asks the API server for its objects again and again.
WANTED = (
    "endpoint,garbagecollector,job,namespace,nodelifecycle,persistentvolume-binder,podgc,resourcequota,"
    "root-ca-cert-publisher,serviceaccount,serviceaccount-token,ttl-after-finished"
)
GATES = "--feature-gates=TTLAfterFinished=true"  # alpha in 1.20, and stable since 1.23


class ControlPlane(Closing):
    """A cluster with *nodes* node programs named "node1" and so on, ready when it is made.

    *programs* is the folder that `tools/build-kubernetes` prints. *lost_s* is how long a node may be silent until it
    is lost, in seconds. `close` ends every process and removes what the cluster kept. Raises Failed.
    """

    def __init__(self, folder: Path, programs: Path, nodes: int = 2, lost_s: int = 40) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder, self.programs, self.lost_s = folder.resolve(), programs, lost_s
        self.ports = {name: free_port() for name in (*PROGRAMS, "peer")}
        url = f"https://{HOST}:{self.ports[API_SERVER]}"
        self.files: Files = write_files(self.folder / "files", url)
        self.kubeconfig = self.files.kubeconfig("admin")
        self.near = Path(tempfile.mkdtemp(prefix="kubernetes-"))
        (self.folder / "logs").mkdir()
        self.daemons = Daemons(self.folder / "logs", self.near)
        try:
            self._start(nodes)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.daemons.close()
        shutil.rmtree(self.near, ignore_errors=True)

    @property
    def etcd_url(self) -> str:
        return f"http://{HOST}:{self.ports[ETCD]}"

    def start_node(self, name: str) -> None:
        """Start the program of the node *name*; after a loss, it comes back without its pods."""
        self.daemons.start(name, node_words(self.files, name, self.near / name), _environment())

    def lose_node(self, name: str) -> None:
        """Kill the program of a node and all its pods, as a loss of power would."""
        self.daemons.stop(name, signal.SIGKILL)

    def await_nodes(self, *names: str) -> None:
        """Wait until the nodes *names* are ready."""
        with Api.opened(self.kubeconfig) as api:
            self._until(lambda: all(_is_ready(api, name) for name in names), "no node is ready")

    def forget(self) -> None:
        """Have etcd forget all versions of objects but the newest, as it does after five minutes.

        https://etcd.io/docs/v3.4/op-guide/maintenance/#history-compaction-v3-api-key-value-database
        """
        with urllib3.PoolManager() as pool:
            any_key = {"key": base64.b64encode(b"\0").decode()}
            answer = pool.request("POST", f"{self.etcd_url}/v3/kv/range", json=any_key)
            revision = answer.json()["header"]["revision"]
            compaction = {"revision": revision, "physical": True}
            pool.request("POST", f"{self.etcd_url}/v3/kv/compaction", json=compaction)

    def _start(self, nodes: int) -> None:
        self._run(ETCD, etcd_words(self.near / ETCD, self.etcd_url, self.ports["peer"]))
        self._run(API_SERVER, self._server_words())
        with Api.opened(self.kubeconfig) as api:
            self._until(lambda: _answers(api), "the API server is not ready")
            self._run(CONTROLLERS, self._controller_words())
            self._run(SCHEDULER, self._scheduler_words())
            names = [f"node{i + 1}" for i in range(nodes)]
            for name in names:
                self.start_node(name)
            self._until(lambda: _has_account(api), "no controller works")
        self.await_nodes(*names)

    def _run(self, program: str, words: Sequence[str]) -> None:
        self.daemons.start(program, [str(self.programs / program), *words], _environment())

    def _until(self, claim: Callable[[], bool], message: str) -> None:
        end = time.monotonic() + UP_S
        while not claim():
            self.daemons.check()
            if time.monotonic() > end:
                logs = {name: tail(self.folder / "logs" / f"{name}.out", 3) for name in PROGRAMS}
                raise Failed(f"{message} after {UP_S:.0f} s: {logs}")
            time.sleep(LOOK_S)

    def _server_words(self) -> list[str]:
        server, caller = self.files.server, self.files.caller
        return [
            GATES,
            f"--etcd-servers={self.etcd_url}",
            f"--bind-address={HOST}",
            f"--secure-port={self.ports[API_SERVER]}",
            f"--cert-dir={self.near}",
            f"--tls-cert-file={server.shown}",
            f"--tls-private-key-file={server.key}",
            f"--token-auth-file={self.files.token_file}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--endpoint-reconciler-type=none",  # its address is a loopback address, which no service may have
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={server.shown}",
            f"--service-account-signing-key-file={server.key}",
            f"--kubelet-certificate-authority={server.authority}",
            f"--kubelet-client-certificate={caller.shown}",
            f"--kubelet-client-key={caller.key}",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def _controller_words(self) -> list[str]:
        server = self.files.server
        return [
            GATES,
            *self._client_words(CONTROLLERS),
            f"--controllers={WANTED}",
            f"--root-ca-file={server.authority}",
            f"--service-account-private-key-file={server.key}",
            f"--node-monitor-grace-period={self.lost_s}s",
            "--node-monitor-period=1s",
            "--pvclaimbinder-sync-period=1s",
            "--kube-api-qps=200",  # 20 makes each start wait
            "--kube-api-burst=400",
        ]

    def _scheduler_words(self) -> list[str]:
        return [GATES, *self._client_words(SCHEDULER)]

    def _client_words(self, program: str) -> list[str]:
        config = self.files.kubeconfig(f"system:{program}")
        return [
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--authentication-skip-lookup",
            f"--bind-address={HOST}",
            "--port=0",
            f"--secure-port={self.ports[program]}",
            f"--cert-dir={self.near / program}",
            "--leader-elect=false",
        ]


def etcd_words(data: Path, url: str, peer_port: int) -> list[str]:
    peers = f"http://{HOST}:{peer_port}"
    return [
        f"--data-dir={data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
    ]


class NodePrograms(Closing):
    """Two node programs for a control plane of somebody else, on this machine, that has no nodes.

    Its API server must reach them on the loopback interface, without a check of their certificates.
    """

    names = ("runspec-node1", "runspec-node2")

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        for name in ("logs", "server"):
            (folder / name).mkdir(parents=True, mode=0o700)
        self.near = Path(tempfile.mkdtemp(prefix="kubernetes-"))
        self.daemons = Daemons(folder / "logs", self.near)
        server = certificates.made(folder / "server")
        try:
            for name in self.names:
                words = [*PROGRAM, name, str(self.near / name), str(kubeconfig), *map(str, server)]
                self.daemons.start(name, words, _environment())
            with Api.opened(kubeconfig) as api:
                until(lambda: all(_is_ready(api, name) for name in self.names))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.daemons.close()
        shutil.rmtree(self.near, ignore_errors=True)


PROGRAM = (sys.executable, "-m", "tests.support.kubernetes.node")


def node_words(files: Files, name: str, folder: Path) -> list[str]:
    """Return the words that start the program of the node *name*, which keeps its pods in *folder*."""
    kubeconfig = files.kubeconfig("system:node-program")
    server, caller = files.server, files.caller
    return [*PROGRAM, name, str(folder), str(kubeconfig), *map(str, (*server, caller.authority))]


def has_nodes(kubeconfig: Path) -> bool:
    """Return whether a cluster has a node that is ready."""
    with Api.opened(kubeconfig) as api:
        names = [node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"]]
        return any(_is_ready(api, name) for name in names)


def _environment() -> Mapping[str, str]:
    return {**inherited(), "PYTHONPATH": str(CHECKOUT)}


def _answers(api: Api) -> bool:
    try:
        return api.call("GET", "/readyz", parse=False).status == 200
    except HTTPError:
        return False


def _has_account(api: Api) -> bool:
    """Say whether the namespace has the service account that every pod needs, with its token."""
    try:
        account = api.get("/api/v1/namespaces/default/serviceaccounts/default")
    except Refused:
        return False
    return bool(account.get("secrets"))


def _is_ready(api: Api, name: str) -> bool:
    try:
        node = api.get(f"/api/v1/nodes/{name}")
    except Refused:
        return False
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")
