"""The images that the account supports."""

from __future__ import annotations

from runspec_emulators.azure_batch.api.requests import Request
from runspec_emulators.azure_batch.resource import Response
from runspec_emulators.azure_batch.world import World

# node agent SKU, publisher, offer, sku, with containers. A few of those that
# https://github.com/Azure/Batch and `az batch pool supported-images list` name.
IMAGES = (
    ("batch.node.ubuntu 22.04", "microsoft-dsvm", "ubuntu-hpc", "2204", True),
    ("batch.node.ubuntu 24.04", "microsoft-dsvm", "ubuntu-hpc", "2404", True),
    ("batch.node.ubuntu 22.04", "canonical", "0001-com-ubuntu-server-jammy", "22_04-lts", False),
    ("batch.node.ubuntu 24.04", "canonical", "ubuntu-24_04-lts", "server", False),
)


def images(_world: World, _request: Request) -> Response:
    value = [
        {
            "nodeAgentSKUId": agent,
            "imageReference": {
                "publisher": publisher,
                "offer": offer,
                "sku": sku,
                "version": "latest",
            },
            "osType": "linux",
            "capabilities": ["DockerCompatible"] if contained else [],
            "verificationType": "verified",
        }
        for agent, publisher, offer, sku, contained in IMAGES
    ]
    return Response(200, {"value": value})
