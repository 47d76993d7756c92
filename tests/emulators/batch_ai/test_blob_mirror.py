"""Containers of a real Blob service are mounted: what they hold is there, what is written goes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from runspec_emulators.azure_services.blob import Blobs, package
from runspec_emulators.frame.listening import HOST
from tests.emulators.batch_ai.hand import SHARE, Hand
from tests.support.requirements import lack, need

BLOB = {"accountName": "account", "containerName": "data", "relativeMountPath": "data"}
VERSION = "2021-12-02"


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blobs]:
    need("node")
    if package() is None:
        lack("azurite, which tools/setup --test installs")
    found = Blobs(tmp_path_factory.mktemp("blobs"), "account")
    yield found
    found.close()


@pytest.fixture
def container(blobs: Blobs) -> Iterator[ContainerClient]:
    key: Any = {"account_name": "account", "account_key": blobs.key}
    with ContainerClient(blobs.url, "data", credential=key, api_version=VERSION) as client:
        client.create_container()
        yield client
        client.delete_container()


def mounted(blobs: Blobs) -> dict[str, Any]:
    blob = {**BLOB, "credentials": {"accountKey": blobs.key}}
    share = {**SHARE, "credentials": blob["credentials"]}
    return {"azureFileShares": [share], "azureBlobFileSystems": [blob]}


def hand_of(make: Callable[..., Hand], blobs: Blobs) -> Hand:
    url = f"http://{HOST}:{blobs.port}/{{account}}"
    return make(blob_url=url, accounts={"account": blobs.key}).ready()


def test_a_job_reads_and_writes_a_container(
    make: Callable[..., Hand], blobs: Blobs, container: ContainerClient
) -> None:
    container.upload_blob("in/a.txt", b"from the container\n")
    hand = hand_of(make, blobs)

    done = hand.run(
        "cd $AZ_BATCHAI_JOB_MOUNT_ROOT/data; cat in/a.txt; echo 1 >$AZ_BATCHAI_OUTPUT_MODEL/m",
        mountVolumes=mounted(blobs),
        outputDirectories=[{"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/data"}],
    )

    written = f"{done.job_output_directory_path_segment}/outputs/m"
    assert hand.text() == "from the container\n"
    assert container.download_blob(written).readall() == b"1\n"
    assert hand.text("m", "MODEL") == "1\n"


def test_a_file_whose_name_is_no_text_stays_on_the_node(
    make: Callable[..., Hand], blobs: Blobs, container: ContainerClient
) -> None:
    hand = hand_of(make, blobs)

    hand.run(
        "cd $AZ_BATCHAI_JOB_MOUNT_ROOT/data; touch \"$(printf 'a\\377')\" b; echo done",
        mountVolumes=mounted(blobs),
    )

    assert hand.text() == "done\n"
    assert list(container.list_blob_names()) == ["b"]


def test_a_blob_that_somebody_deletes_while_a_container_is_mounted_is_not_there(
    make: Callable[..., Hand],
    blobs: Blobs,
    container: ContainerClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand, real = hand_of(make, blobs), ContainerClient.list_blobs
    for name in ("kept", "lost"):
        container.upload_blob(name, b"")

    def listed(client: ContainerClient) -> list[Any]:
        found = list(real(client))
        container.delete_blob("lost")
        return found

    monkeypatch.setattr(ContainerClient, "list_blobs", listed)
    hand.run("ls $AZ_BATCHAI_JOB_MOUNT_ROOT/data", mountVolumes=mounted(blobs))

    assert hand.text() == "kept\n"


def test_the_next_job_reads_a_replaced_blob(
    make: Callable[..., Hand], blobs: Blobs, container: ContainerClient
) -> None:
    hand = hand_of(make, blobs)
    command = "cat $AZ_BATCHAI_JOB_MOUNT_ROOT/data/a"
    for name in ("one", "two"):
        container.upload_blob("a", name.encode(), overwrite=True)
        hand.run(command, name, mountVolumes=mounted(blobs))

    assert [hand.text(name=name) for name in ("one", "two")] == ["one", "two"]


def test_a_container_that_is_not_there_cannot_be_mounted(
    make: Callable[..., Hand], blobs: Blobs, tmp_path: Path
) -> None:
    done = hand_of(make, blobs).run(mountVolumes=mounted(blobs))

    assert done.execution_state == "failed"
    assert done.execution_info.errors[0].code == "MountVolumeFailed"
    assert blobs.key not in done.execution_info.errors[0].message


def test_links_that_lead_nowhere_and_pipes_end_no_job(
    make: Callable[..., Hand], blobs: Blobs, container: ContainerClient
) -> None:
    """Nor does a link that leads to itself, to its folder, or has a target that is too long, nor an odd name."""
    hand = hand_of(make, blobs)

    done = hand.run(
        "cd $AZ_BATCHAI_OUTPUT_MODEL; echo 1 >m; mkdir d; mkfifo p; touch $(printf '\\377') $(printf '\\001'); "
        "ln -s gone a; ln -s b b; ln -s . c; ln -s $(printf %0300d 0) e",
        mountVolumes=mounted(blobs),
        outputDirectories=[{"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/data"}],
    )

    assert done.execution_state == "succeeded"
    assert sorted(hand.files("MODEL")) == ["d", "m"]
