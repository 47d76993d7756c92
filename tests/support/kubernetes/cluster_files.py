"""The files of a cluster of the tests: keys, tokens of users, and kubeconfigs, which their owner alone can read."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from runspec_emulators.frame.listening import Certificate
from tests.support import certificates

ADMINISTRATORS = "system:masters"  # everything is allowed to this group
# Each user by name: the groups, which have rights by the roles that an API server begins with.
# https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings
USERS: Mapping[str, tuple[str, ...]] = {
    "admin": (ADMINISTRATORS,),
    "system:kube-controller-manager": (ADMINISTRATORS,),  # it acts for all controllers
    "system:kube-scheduler": (),
    "system:node-program": (ADMINISTRATORS,),
    "newcomer": (),  # may do nothing until a test binds a role
}


class Files(NamedTuple):
    """Where a cluster keeps what its programs and its users read."""

    folder: Path
    server: Certificate
    """Of the API server and of nodes."""
    caller: Certificate
    """With which the API server calls nodes."""
    tokens: Mapping[str, str]
    url: str

    @property
    def token_file(self) -> Path:
        return self.folder / "tokens.csv"

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of *user*, which has one context of this name in the namespace "default"."""
        return self.folder / f"{user.rpartition(':')[2]}.kubeconfig"


def write_files(folder: Path, url: str) -> Files:
    """Write the files of a cluster that is at *url* into *folder*."""
    made = {name: folder / name for name in ("server", "caller")}
    for path in made.values():
        path.mkdir(parents=True, mode=0o700)
    tokens = {user: secrets.token_urlsafe(24) for user in USERS}
    files = Files(
        folder,
        certificates.made(made["server"]),
        certificates.made(made["caller"]),
        tokens,
        url,
    )
    rows = [
        f'{tokens[user]},{user},{user},"{",".join(groups)}"\n' for user, groups in USERS.items()
    ]
    write_private(files.token_file, "".join(rows))
    for user, token in tokens.items():
        write_private(files.kubeconfig(user), json.dumps(_kubeconfig(files, user, token)))
    return files


def write_private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


def _kubeconfig(files: Files, user: str, token: str) -> dict[str, object]:
    """Describe how *user* reaches the cluster; JSON is YAML too.

    https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
    """
    name = user.rpartition(":")[2]
    cluster = {"server": files.url, "certificate-authority": str(files.server.authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": "tests", "user": name}}],
        "current-context": name,
    }
