"""The emulator as a server on the loopback interface."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspec_emulators.frame import server
from runspec_emulators.frame.faults import Faults
from runspec_emulators.frame.listening import Certificate
from runspec_emulators.kubernetes.cluster import Cluster
from runspec_emulators.kubernetes.errors import FAULTS
from runspec_emulators.kubernetes.http import Handler, Listener
from runspec_emulators.kubernetes.settings import Settings


class Kubernetes(server.Server[Cluster]):
    """A running cluster below *folder*. `close` ends every process of every pod."""

    def __init__(
        self,
        folder: Path,
        *,
        token: str | None = None,
        port: int = 0,
        certificate: Certificate | None = None,
        **settings: Any,
    ) -> None:
        """Without a *token*, a new one is made. With a *certificate* it talks https. *settings*: see `Settings`."""
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.token = token or secrets.token_urlsafe(24)
        self.settings = Settings(self.folder, token=self.token, **settings)
        listener = Listener(port, Handler, Faults(FAULTS))
        listener.names = self.settings.hosts
        super().__init__(
            listener, lambda url: Cluster(self.settings, url).begin(), Cluster.close, certificate
        )
        self.kubeconfig = self.folder / "kubeconfig"
        self.write_kubeconfig(self.kubeconfig)

    def write_kubeconfig(
        self, file: Path, token: str | None = None, namespace: str = "default"
    ) -> None:
        """Write a kubeconfig for the bearer of a token, which only its owner can read.

        https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
        """
        cluster: dict[str, Any] = {"server": self.url}
        if self._certificate is not None:
            cluster["certificate-authority"] = str(self._certificate.authority)
        name = "rehearsal"
        context = {"cluster": name, "user": name, "namespace": namespace}
        value = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token or self.token}}],
            "contexts": [{"name": name, "context": context}],
            "current-context": name,
        }
        with open(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as out:
            json.dump(value, out, indent=2)

    @property
    def env(self) -> Mapping[str, str]:
        """The variable that leads a client here."""
        return {"KUBECONFIG": str(self.kubeconfig)}
