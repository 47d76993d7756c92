"""Volumes of a pod: folders of this machine.

https://kubernetes.io/docs/concepts/storage/volumes/
"""

from __future__ import annotations

from pathlib import Path

from runspec_emulators.kubernetes.nodes import environment
from runspec_emulators.kubernetes.nodes.environment import Missing
from runspec_emulators.kubernetes.resources import CONFIG_MAPS, SECRETS
from runspec_emulators.kubernetes.world import Object, World


class Volumes:
    """The volumes of one pod below *folder*."""

    def __init__(self, world: World, pod: Object, folder: Path, address: str) -> None:
        self._world, self._pod, self._folder, self._address = world, pod, folder, address
        self._namespace = pod["metadata"]["namespace"]
        self.folders: dict[str, Path] = {}
        """The folder of each volume, by its name."""

    def set_up(self) -> None:
        """Make all volumes; raise Missing for what is not there."""
        for volume in self._pod["spec"].get("volumes") or ():
            folder = self._folder / volume["name"]
            try:
                self.folders[volume["name"]] = self._make(volume, folder)
            except Missing as exc:
                raise Missing(
                    f'MountVolume.SetUp failed for volume "{volume["name"]}" : {exc}'
                ) from exc

    def _make(self, volume: Object, folder: Path) -> Path:
        if "persistentVolumeClaim" in volume:
            return self._claim(volume["persistentVolumeClaim"]["claimName"])
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        folder.mkdir(parents=True, exist_ok=True)
        sources = volume.get("projected", {}).get("sources") or [volume]
        for source in sources:
            mode = (volume.get("projected") or {}).get("defaultMode", 0o644)
            self._fill(source, folder, mode)
        return folder

    def _claim(self, name: str) -> Path:
        settings = self._world.settings
        given = settings.claims.get(f"{self._namespace}/{name}")
        folder = Path(given) if given else settings.folder / "claims" / self._namespace / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _fill(self, source: Object, folder: Path, mode: int) -> None:
        """Write the files of one source; a kind that has none leaves the folder empty."""
        for kind, resource in (("configMap", CONFIG_MAPS), ("secret", SECRETS)):
            if kind in source:
                given = source[kind]
                name = given.get("secretName") or given.get("name", "")
                data = environment.read_data(self._world, resource, self._namespace, name)
                if data is None and not given.get("optional"):
                    raise Missing(f'{kind.lower()} "{name}" not found')
                self._write(folder, data or {}, given, given.get("defaultMode", mode))
        for item in source.get("downwardAPI", {}).get("items") or ():
            text = environment.field(self._pod, item["fieldRef"]["fieldPath"], self._address)
            _write_file(folder / item["path"], text.encode(), item.get("mode", mode))

    def _write(self, folder: Path, data: dict[str, bytes], given: Object, mode: int) -> None:
        items = given.get("items") or [{"key": key, "path": key} for key in data]
        for item in items:
            if item["key"] not in data:
                if given.get("optional"):
                    continue
                raise Missing(f"references non-existent config key: {item['key']}")
            _write_file(folder / item["path"], data[item["key"]], item.get("mode", mode))


def _write_file(file: Path, content: bytes, mode: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    file.touch(0o600)
    file.write_bytes(content)
    file.chmod(mode)
