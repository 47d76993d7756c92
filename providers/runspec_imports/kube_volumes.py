"""Import the volumes of a pod: folders of the container, ConfigMaps of the same file, and shared file systems."""

from __future__ import annotations

import re
from typing import NamedTuple

from runspec_imports.kube_cluster import KUBERNETES
from runspec_imports.kube_program import Beside
from runspec_jobs.provider.importing.draft import Draft, make_key
from runspec_jobs.provider.importing.mapping import ForeignMap

SHM = "/dev/shm"  # noqa: S108 - the path of shared memory in every container
SIZE = re.compile(r"(\d+)(Gi|Mi|G|M)")
TARGET = re.compile(r"/([A-Za-z0-9_.-]+/?)+")
FILE = re.compile(r"(?!.*\.\.)[\w.-]+(/[\w.-]+)*")
# Kinds of volumes that are file systems; the profile says where they are.
SHARED = "persistentVolumeClaim hostPath nfs csi cephfs glusterfs flexVolume azureFile".split()
LOST = {
    "secret": "write its keys under secrets, which are variables",
    "projected": "a job of runspec has no such files",
    "downwardAPI": "only the cluster knows these values",
}


class Volume(NamedTuple):
    """A volume: the *source* of its mounts, or the size of shared memory that it asks for, or a lost one."""

    kind: str  # scratch, folder or lost
    source: str = ""
    size: str = ""


def take_volumes(
    pod: ForeignMap, container: ForeignMap, draft: Draft, beside: Beside
) -> dict[str, str]:
    """Add the mounts of *container*; return volumes that are folders of the container, with their paths."""
    volumes = {one.text("name"): one for one in pod.maps("volumes")}
    known = {name: _read(one, name, draft, beside) for name, one in volumes.items()}
    folders: dict[str, str] = {}
    for mount in container.maps("volumeMounts"):
        name, target = mount.text("name"), mount.text("mountPath")
        part, read_only = mount.text("subPath").strip("/"), mount.truth("readOnly")
        volume = known.get(name, Volume("lost"))
        if name not in known or not TARGET.fullmatch(target):
            draft.notes.lose(f"mount {target}", "its volume or its path is not valid", mount.value)
        elif volume.kind == "scratch" and target.rstrip("/") != SHM:
            folders[name] = target
        elif volume.kind == "scratch":
            draft.container["shm"] = volume.size
        elif volume.kind == "folder":
            mode = None if volume.source.startswith("./") else "ro" if read_only else "rw"
            source = f"{volume.source}/{part}" if part else volume.source
            draft.add_mount(f"{name}-{part}" if part else name, source, target, mode)
    return folders


def _read(volume: ForeignMap, name: str, draft: Draft, beside: Beside) -> Volume:
    kind = next(iter(key for key in volume.list_keys() if key != "name"), "")
    source = volume.map(kind)
    if kind == "emptyDir":
        size = SIZE.fullmatch(source.text("sizeLimit"))
        source.skip("medium")
        return Volume("scratch", size=f"{size[1]}{size[2][0]}iB" if size else "")
    if kind == "configMap":
        return _read_config(source, draft, beside)
    if kind not in SHARED:
        source.clear()
        draft.notes.lose(
            f"volume {name}: {kind}", LOST.get(kind, "runspec has no such volume"), volume.value
        )
        return Volume("lost")
    claim, path = source.text("claimName"), source.text("path")
    key = make_key(claim or name, ())
    source.clear()
    if draft.provider == KUBERNETES and claim:
        draft.profile.setdefault("shared", {})[key] = f"pvc:{claim}"
    elif kind == "hostPath" and draft.provider == "aws-batch" and path:
        draft.profile.setdefault("shared", {})[key] = f"host:{path}"
    else:
        what = f"volume {name}: say in the profile where it is: shared: {{{key}: ...}}"
        draft.notes.add(what, volume.value)
    return Volume("folder", f"shared://{key}")


def _read_config(source: ForeignMap, draft: Draft, beside: Beside) -> Volume:
    name = source.text("name")
    items = {item.text("key"): item.text("path") for item in source.maps("items")}
    mode = source.text("defaultMode")
    if mode not in ("", "420", "0644"):
        draft.notes.lose(
            f"mode of {name}", "change that of the files beside the spec", source.value
        )
    data = beside.maps.get(name)
    if data is None:
        why = "it is not in the file: put its files into a folder, and mount that"
        draft.notes.lose(f"volume of ConfigMap {name}", why, source.value)
        return Volume("lost")
    chosen = items or {key: key for key in data}
    if unfit := [
        key for key, path in chosen.items() if key not in data or not FILE.fullmatch(path)
    ]:
        draft.notes.lose(
            f"{', '.join(unfit)} of ConfigMap {name}", "it is no plain file", source.value
        )
    folder = beside.add_files(name, {key: path for key, path in chosen.items() if key not in unfit})
    return Volume("folder", folder)
