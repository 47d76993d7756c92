"""The spec and the profile that an import of Batch AI's files builds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from runspec_azure.session import clouds
from runspec_batchai.importing.foreign_file import ForeignObject, SecretRedactor
from runspec_batchai.options import ACCOUNT

UNFIT = re.compile(r"[^a-z0-9_-]+")
STORAGE = "|".join(re.escape(cloud.storage) for cloud in clouds.CLOUDS)
HOST = re.compile(rf"https?://([^/.]+)\.file\.(?:{STORAGE})/([^/]+)/?")
ACCOUNT_GAP, KEY_GAP = "<AZURE_BATCHAI_STORAGE_ACCOUNT>", "<AZURE_BATCHAI_STORAGE_KEY>"
GAP = re.compile(r"<\w[\w. -]*>")  # a placeholder, such as those in exported files


@dataclass
class Draft:
    """The result of an import so far; *settings* are the spec's settings of this provider."""

    spec: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    hidden: SecretRedactor = field(default_factory=SecretRedactor)
    has_gaps: bool = False  # whether `az batchai` would have filled in its own account
    roots: dict[str, str] = field(default_factory=dict)  # the path of each volume, by its name

    @property
    def shared(self) -> dict[str, Any]:
        shared: dict[str, Any] = self.profile.setdefault("shared", {})
        return shared

    def secret(
        self, wanted: str, variable: str, value: Any, vault: ForeignObject, where: str
    ) -> str:
        """Add the source of a secret to the profile, without its value; return its name."""
        names: dict[str, str] = self.profile.setdefault("secrets", {})
        if vault:
            source = vault.inner("sourceVault")
            link = f"azure-kv:{source.text('id') or ''}#{vault.text('secretUrl') or ''}"
            source.end()
            vault.end()
        else:
            link = f"env:{variable}"
        name = key(wanted, {k: k for k, v in names.items() if v != link})
        names[name] = link
        if isinstance(value, str) and value and not GAP.fullmatch(value):
            self.hidden.add(value)
            self.notes.append(
                f"{where} contains a secret in plain text, which is not imported: export {variable} "
                "before you apply, and consider the secret compromised"
            )
        return name

    def credentials(self, source: ForeignObject, account: str | None) -> str | None:
        """Add the key of a storage account to the profile; return its name, or None if it is the profile's key."""
        main = account is None or account == self.profile.get("storage_account")
        wanted, variable = "storage-key", "AZURE_BATCHAI_STORAGE_KEY"
        if not main:
            wanted = f"{account}-key"
            variable = f"{UNFIT.sub('_', str(account)).upper()}_KEY"
        inner = source.inner("credentials")
        path = f"{inner.path}.accountKey"
        value, vault = inner.text("accountKey"), inner.inner("accountKeySecretReference")
        inner.end()
        name = self.secret(wanted, variable, value, vault, path)
        return None if name == "storage-key" else name

    def account(self, account: str | None) -> str | None:
        """Return the account of a volume, or None if it is the profile's; the first one becomes the profile's."""
        if not account or GAP.search(account):
            return None
        if re.fullmatch(ACCOUNT, account) and not self.has_gaps:
            self.profile.setdefault("storage_account", account)
        return None if account == self.profile.get("storage_account") else account

    def volumes(self, source: ForeignObject, level: str, root: str) -> None:
        """Add all kinds of `mountVolumes` to the profile."""
        for one in source.each("azureFileShares"):
            self._share(one, level, root)
        for one in source.each("azureBlobFileSystems"):
            account = self.account(one.text("accountName"))
            volume = {"container": one.text("containerName"), "account": account}
            self._volume(one, {**volume, "key": self.credentials(one, account)}, level, root)
        for one in source.each("fileServers"):
            server = one.inner("fileServer")
            volume = {"file_server": server.text("id"), "folder": one.text("sourceDirectory")}
            server.end()
            self._volume(one, volume, level, root)
        for one in source.each("unmanagedFileSystems"):
            self._volume(one, {"command": one.text("mountCommand")}, level, root)
        source.end()

    def _share(self, one: ForeignObject, level: str, root: str) -> None:
        url = one.text("azureFileUrl") or ""
        match = HOST.fullmatch(url)
        named = one.text("accountName") or (match[1] if match else None)
        account = self.account(named)
        share = (match[2] if match else url.rstrip("/").rpartition("/")[2]) or "share"
        owner = match[1] if match is not None else ""
        plain = owner in (named, ACCOUNT_GAP) and url == clouds.PUBLIC.share_url(owner, share)
        volume = {
            "share": share,
            "account": account,
            "key": self.credentials(one, account),
            "url": None if plain else url,
            "file_mode": one.text("fileMode"),
            "directory_mode": one.text("directoryMode"),
        }
        self._volume(one, volume, level, root)

    def _volume(self, mount: ForeignObject, volume: dict[str, Any], level: str, root: str) -> None:
        where = mount.text("relativeMountPath") or ""
        name = key(where, self.shared)
        volume |= {"mount_options": mount.text("mountOptions")}
        volume |= {"at": None if name == where else where}
        volume |= {"level": level if level == "cluster" else None}
        self.shared[name] = {k: v for k, v in volume.items() if v is not None}
        self.roots[name] = f"{root}/{where}"
        mount.end()


def key(text: str, used: dict[str, Any]) -> str:
    """Return *text* as a name for a spec that is not in *used*.

    >>> key("My Logs", {}), key("a", {"a": 1})
    ('my-logs', 'a-2')
    """
    name = UNFIT.sub("-", text.lower()).strip("-_")
    name = name if name[:1].isalpha() else f"x-{name}".rstrip("-")
    name, number, whole = name[:36], 1, name[:36]
    while whole in used:
        number += 1
        whole = f"{name}-{number}"
    return whole
