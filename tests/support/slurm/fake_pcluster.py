"""Programs that stand in for `pcluster` and for the way to the head node: the Slurm is that of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

# Clusters are files beside it, and up at once. It says what pcluster 3.16.1 says, and takes its words.
PCLUSTER = """#!PYTHON -IS
import json, os, sys
words = sys.argv[2:]
said = dict(zip(words[::2], words[1::2]))
name = said["--cluster-name"]
folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clusters")
os.makedirs(folder, exist_ok=True)
place = os.path.join(folder, name + ".json")

def say(answer, code=0):
    print(json.dumps(answer, indent=2))
    sys.exit(code)

if sys.argv[1] == "create-cluster" and os.path.exists(place):
    say({"message": f"Bad Request: cluster {name} already exists"}, 1)
if sys.argv[1] != "create-cluster" and not os.path.exists(place):
    say({"message": f"Cluster '{name}' does not exist or belongs to an incompatible ParallelCluster major version."}, 1)
if said.get("--dryrun") == "true":
    say({"message": "Request would have succeeded, but DryRun flag is set."}, 1)
if sys.argv[1] in ("create-cluster", "update-cluster"):
    with open(said["--cluster-configuration"]) as file:
        tags = json.load(file).get("Tags", [])
    new = f"{place}.{os.getpid()}"
    with open(new, "w") as file:
        json.dump({
            "clusterName": name,
            "clusterStatus": "CREATE_COMPLETE",
            "computeFleetStatus": "RUNNING",
            "headNode": {"privateIpAddress": "127.0.0.1"},
            "tags": [{"key": tag["Key"], "value": tag["Value"]} for tag in tags],
        }, file)
    try:
        if sys.argv[1] == "create-cluster":
            os.link(new, place)
            os.unlink(new)  # a rename of two names of one file does nothing
        else:
            os.rename(new, place)
    except FileExistsError:  # another one has made it meanwhile
        os.unlink(new)
        say({"message": f"Bad Request: cluster {name} already exists"}, 1)
    say({"cluster": {"clusterName": name}})
with open(place) as file:
    found = json.load(file)
if sys.argv[1] == "delete-cluster":
    os.remove(place)
say(found)
"""
# What stands behind the host is one line for a shell, as with ssh itself; `-L SOCKET:ADDRESS:PORT` leads there.
SSH = """#!/bin/sh
for word; do
  case $word in
    -L) exec PYTHON -IS "${0%/*}/ssh-tunnel" "$@" ;;
    --) break ;;
  esac
done
while [ "$1" != -- ]; do shift; done
shift 2
exec /bin/sh -c "$*"
"""
TUNNEL = """\
import socket, sys, threading
words = sys.argv[1:]
place, address, port = words[words.index("-L") + 1].rsplit(":", 2)

def pump(one, other):
    while data := one.recv(65536):
        other.sendall(data)
    other.shutdown(socket.SHUT_WR)

listening = socket.socket(socket.AF_UNIX)
listening.bind(place)
listening.listen()
while True:
    near, _ = listening.accept()
    try:
        far = socket.create_connection((address.strip("[]"), int(port)))
    except OSError:
        near.close()
        continue
    for pair in ((near, far), (far, near)):
        threading.Thread(target=pump, args=pair, daemon=True).start()
"""


def install(folder: Path) -> Path:
    """Write the programs into *folder*, and give it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("pcluster", PCLUSTER.replace("PYTHON", sys.executable)),
        ("ssh", SSH.replace("PYTHON", sys.executable)),
        ("ssh-tunnel", TUNNEL),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder
