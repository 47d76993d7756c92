"""The address under which other nodes reach this one."""

import json
import socket
from http.client import HTTPException
from typing import Mapping

from . import boot


def own(env: Mapping[str, str]) -> str:
    """Return what ECS says of this container's network, else the address that leads out of here.

    https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-response.html
    """
    if "RUNSPEC_HOST" in env:
        return env["RUNSPEC_HOST"]
    if "ECS_CONTAINER_METADATA_URI_V4" in env:
        try:
            found = json.loads(boot.fetch(env["ECS_CONTAINER_METADATA_URI_V4"]).decode())
            for network in found.get("Networks") or ():
                for address in network.get("IPv4Addresses") or ():
                    if address:  # in the network of the machine it is ""
                        return str(address)
        except (OSError, ValueError, HTTPException):  # the way out will do
            pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("192.0.2.1", 9))  # nothing is sent; a documentation address, RFC 5737
        except OSError:  # there is none
            return socket.gethostname()
        return str(way.getsockname()[0])
