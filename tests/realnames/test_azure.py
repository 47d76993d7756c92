"""Azure Batch by the services' own names over TLS: no endpoint option is set anywhere."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import generate_container_sas

from runspec_emulators.azure_services.entra import Cloud
from tests.realnames import azure
from tests.realnames.azure import BATCHAI, CONTAINER, FILES, HOSTS, IDENTITY, STORAGE, SUBSCRIPTION
from tests.realnames.world import Done, World
from tests.support.profiles import own_profile
from tests.support.root import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.root]

FOLDER: dict[str, Any] = {
    "mounts": [{"name": "code", "source": "./code", "target": "/job/code"}],
    "outputs": [{"name": "model", "path": "/job/model"}],
}
SYSTEM_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
KEYS = {"batch_key": "env:BATCH_KEY", "storage_key": "env:STORAGE_KEY"}
HERE = HOSTS["public"]
# Azurite takes the first label for the name of the account.
OWN_BATCH, OWN_BLOBS = "batch.company.example", f"{STORAGE}.company.example"
OWN = {OWN_BATCH: "batch", OWN_BLOBS: "blobs", BATCHAI: "batchai", FILES: "batchai"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    names = [*HERE, *OWN]
    folder = tmp_path_factory.mktemp("world")
    with World(folder, azure.SERVICES, names, cloud="public", own=OWN) as found:
        yield found


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def login(world: World) -> Mapping[str, str]:
    """The variables of a program that logs in by its secret."""
    world.begin()
    profile()
    return {k: v for k, v in world.tell("credentials").items() if k.startswith("AZURE_")}


def profile(batch: str = HERE.batch, **more: Any) -> None:
    """Name the accounts, and no endpoint: the URL of a Batch account is its name."""
    settings = {
        "batch_url": f"https://{batch}",
        "storage_account": STORAGE,
        "container": CONTAINER,
        "prefix": Path.cwd().name,
        **more,
    }
    own_profile().write_text(json.dumps({"providers": {"azure-batch": settings}}))


def write(text: str, **fields: Any) -> str:
    spec = {"apiVersion": "runspec/v1", "name": "job", "provider": "azure-batch", "run": text}
    Path("job.yaml").write_text(json.dumps({**spec, **fields}))
    return "job.yaml"


def good(done: Done) -> str:
    assert done.code == 0, done.err
    return done.out


def test_a_job_from_apply_to_destroy_by_a_secret_at_the_login(
    world: World, login: Mapping[str, str]
) -> None:
    Path("code").mkdir()
    Path("code/words").write_text("hello over TLS\n")
    job = write("cat ${mounts.code}/words | tee ${outputs.model}/copy", **FOLDER)

    assert "container rehearsal" in good(world.runspec("doctor", "azure-batch", env=login))
    assert "hello over TLS" in good(world.runspec("apply", job, env=login))
    assert "hello over TLS" in good(world.runspec("logs", "job", env=login))
    good(world.runspec("fetch", "job", "out", env=login))
    assert [p.read_text() for p in Path("out").rglob("copy")] == ["hello over TLS\n"]
    good(world.runspec("destroy", "job", env=login))
    good(world.runspec("destroy", "--site", env=login))
    good(world.runspec("gc", "azure-batch", "--yes", env=login))

    asked = {(r.scheme, r.host) for r in world.requests()}
    assert {("https", HERE.batch), ("https", HERE.blob), ("https", HERE.login)} <= asked
    assert {host for scheme, host in asked if scheme == "http"} <= {"169.254.169.254"}
    assert [r for r in world.requests() if r.status == 421] == []


@pytest.mark.matrix
def test_a_large_file_and_many_files_arrive_whole(world: World, login: Mapping[str, str]) -> None:
    """100 MB go in blocks, both ways; 5,000 files are one tar."""
    for name in ("large", "many"):
        Path(name).mkdir()
    block = hashlib.sha256(b"a block").digest() * (1 << 15)
    Path("large/file").write_bytes(block * 100)
    for number in range(5000):
        Path(f"many/{number:04}").write_text(f"{number}\n")
    job = write(
        "sha256sum < ${mounts.large}/file; cat ${mounts.many}/* | sha256sum; ls ${mounts.many} | wc -l; "
        "cp ${mounts.large}/file ${outputs.model}/",
        mounts=[
            {"name": "large", "source": "./large", "target": "/job/large"},
            {"name": "many", "source": "./many", "target": "/job/many"},
        ],
        outputs=FOLDER["outputs"],
    )

    out = good(world.runspec("apply", job, env=login))
    good(world.runspec("fetch", "job", "out", env=login))

    large = hashlib.sha256(block * 100).hexdigest()
    many = hashlib.sha256("".join(f"{n}\n" for n in range(5000)).encode()).hexdigest()
    assert [large, many, "5000"] == [line.split()[0] for line in out.splitlines()]
    (fetched,) = [p for p in Path("out").rglob("file") if p.is_file()]
    assert hashlib.sha256(fetched.read_bytes()).hexdigest() == large
    puts = [r.target for r in world.requests() if r.method == "PUT" and r.status == 201]
    assert len([target for target in puts if "comp=block&" in target]) >= 12
    assert len([target for target in puts if "comp=blocklist" in target]) >= 2


def test_a_job_is_followed_and_cancelled(world: World, login: Mapping[str, str]) -> None:
    good(world.runspec("apply", write("echo begun; sleep 300"), "--detach", env=login))

    with world.popen(
        sys.executable, "-m", "runspec_jobs", "logs", "-f", "job", env=login
    ) as follower:
        assert follower.stdout is not None
        first = follower.stdout.readline()
        good(world.runspec("cancel", "job", env=login))
        follower.communicate(timeout=120)

    assert first == "begun\n"
    found = json.loads(good(world.runspec("status", "job", "--json", env=login)))
    assert found["state"] == "cancelled"


@pytest.mark.parametrize("files", ["agent", "signed"])
def test_keys_of_the_accounts_sign_for_their_real_names(
    files: str, world: World, login: Mapping[str, str]
) -> None:
    profile(**KEYS, files=files)
    Path("code").mkdir()
    Path("code/words").write_text("hello\n")
    job = write("tee ${outputs.model}/copy < ${mounts.code}/words", **FOLDER, name=files)
    env = world.tell("credentials")
    keys = {name: env[name] for name in ("BATCH_KEY", "STORAGE_KEY")}

    out = good(world.runspec("apply", job, env=keys))
    good(world.runspec("fetch", files, "out", env=keys))

    assert "hello" in out
    assert [p.read_text() for p in Path("out").rglob("copy")] == ["hello\n"]
    assert HERE.login not in {request.host for request in world.requests()}
    signed = [r.target for r in world.requests() if r.host == HERE.blob and "sig=" in r.target]
    assert signed
    assert all("spr=https&" in target for target in signed)


def test_machines_log_in_at_their_own_address(world: World, login: Mapping[str, str]) -> None:
    """Both the one that applies and the job's: nothing is in the environment of either."""
    by_identity()
    job = write('test "$HF" = "the value of a secret"; echo good', secrets={"HF": "hf"})

    assert "good" in good(world.runspec("apply", job))

    asked = [r for r in world.requests() if r.host == "169.254.169.254"]
    assert any("msi_res_id" in r.target for r in asked)
    assert any("msi_res_id" not in r.target for r in asked)
    assert {HERE.manager, HERE.vault} <= {r.host for r in world.requests()}
    assert not [r for r in world.requests() if "sig=" in r.target]


def by_identity(batch: str = HERE.batch, vault: str = HERE.vault) -> None:
    where = {"subscription": SUBSCRIPTION, "resource_group": "rehearsal", "identity": IDENTITY}
    profile(batch, **where, secrets={"hf": f"azure-kv:https://{vault}/secrets/hf"})


def test_a_store_copies_and_deletes_by_its_name(world: World, login: Mapping[str, str]) -> None:
    """The source of a copy is a URL, which has to be the one that the store itself knows."""
    key = world.tell("credentials")["STORAGE_KEY"]
    end = datetime.now(UTC) + timedelta(hours=1)
    sas = generate_container_sas(
        STORAGE, CONTAINER, account_key=key, permission="racwdl", expiry=end, protocol="https"
    )
    env = {"RUNSPEC_STORE": f"https://{HERE.blob}/{CONTAINER}/copies of ours", "RUNSPEC_SAS": sas}

    done = world.run(sys.executable, "-m", "tests.realnames.copies", env=env, cwd=ROOT)

    assert good(done) == "copied and deleted\n"
    assert {r.scheme for r in world.requests() if r.host == HERE.blob} == {"https"}


def test_endpoints_of_a_company_s_own(world: World, login: Mapping[str, str]) -> None:
    where = {"batch_account": azure.ACCOUNT, "blob_url": f"https://{OWN_BLOBS}"}
    profile(OWN_BATCH, **where, cloud="public")

    out = good(world.runspec("apply", write("echo hello there"), env=login))

    hosts = {request.host for request in world.requests()}
    assert "hello there" in out
    assert hosts - {"169.254.169.254"} == {OWN_BATCH, OWN_BLOBS, HERE.login}


def test_all_that_runspec_asks_goes_through_the_proxy(
    world: World, login: Mapping[str, str]
) -> None:
    done = world.runspec("apply", write("echo hello there"), env={**login, **world.proxy})

    assert "hello there" in good(done)
    ours = [r for r in world.requests() if r.host in (HERE.batch, HERE.login)]
    assert ours
    assert all(request.proxied for request in ours)
    assert [r for r in world.requests() if r.host == HERE.blob and r.proxied]


@pytest.mark.matrix
def test_batch_ai_at_a_company_s_endpoint_with_files_and_blobs_by_their_names(
    world: World, login: Mapping[str, str]
) -> None:
    settings = {
        "arm_url": f"https://{BATCHAI}",
        "subscription": SUBSCRIPTION,
        "location": "eastus",
        "storage_account": STORAGE,
        "container": CONTAINER,
        "file_share": "logs",
        "prefix": Path.cwd().name,
        "ssh_public_key": "ssh-ed25519 AAAA",
        "secrets": {"storage-key": "env:STORAGE_KEY"},
    }
    own_profile().write_text(json.dumps({"providers": {"azure-batch-ai": settings}}))
    env = {**login, "STORAGE_KEY": world.tell("credentials")["STORAGE_KEY"]}
    Path("code").mkdir()
    Path("code/words").write_text("学習 over TLS\n")
    text = "tee $AZ_BATCHAI_OUTPUT_MODEL/copy < $AZ_BATCHAI_INPUT_CODE/words"
    job = write(text, **FOLDER, provider="azure-batch-ai")

    good(world.runspec("doctor", "azure-batch-ai", env=env))
    assert "学習 over TLS" in good(world.runspec("apply", job, env=env))
    good(world.runspec("fetch", "job", "out", env=env))
    write("echo begun; sleep 300", provider="azure-batch-ai", name="second")
    good(world.runspec("apply", "job.yaml", "--detach", env=env))
    good(world.runspec("cancel", "second", env=env))
    good(world.runspec("destroy", "job", env=env))
    good(world.runspec("destroy", "second", env=env))
    good(world.runspec("destroy", "--site", env=env))
    good(world.runspec("gc", "azure-batch-ai", "--yes", env=env))

    assert [p.read_text() for p in Path("out").rglob("copy")] == ["学習 over TLS\n"]
    hosts = {request.host for request in world.requests()}
    assert hosts == {BATCHAI, FILES, HERE.blob, HERE.login}
    assert {request.scheme for request in world.requests()} == {"https"}


@pytest.mark.matrix
@pytest.mark.parametrize("cloud", ["usgovernment", "china"])
def test_all_hosts_of_another_cloud_are_its_own(
    cloud: Cloud, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hosts = HOSTS[cloud]
    folder = tmp_path_factory.mktemp("world")
    with World(folder, azure.SERVICES, hosts, cloud=cloud) as world:
        login = world.tell("credentials")
        by_identity(hosts.batch, hosts.vault)
        Path("code").mkdir()
        Path("code/words").write_text("hello\n")
        text = 'test -n "$HF"; tee ${outputs.model}/copy < ${mounts.code}/words'

        out = good(world.runspec("apply", write(text, **FOLDER, secrets={"HF": "hf"}), env=login))
        good(world.runspec("fetch", "job", "out", env=login))
        good(world.runspec("destroy", "job", env=login))
        good(world.runspec("destroy", "--site", env=login))

        assert "hello" in out
        assert {r.host for r in world.requests()} == {*hosts, "169.254.169.254"}
        assert [r for r in world.requests() if r.status in (401, 403, 421)] == []


def test_variables_of_a_company_s_authority_are_enough(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("world")
    with World(folder, azure.SERVICES, HERE, "variables", cloud="public") as world:
        login = world.tell("credentials")
        profile()
        Path("code").mkdir()
        Path("code/words").write_text("hello\n")
        job = write("tee ${outputs.model}/copy < ${mounts.code}/words", **FOLDER)

        assert "hello" in good(world.runspec("apply", job, env=login))
        good(world.runspec("fetch", "job", "out", env=login))
        without = [
            world.runspec("doctor", "azure-batch", env={**login, name: SYSTEM_BUNDLE}).out
            for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
        ]

    assert [p.read_text() for p in Path("out").rglob("copy")] == ["hello\n"]
    found = [[line for line in said.splitlines() if "does not trust" in line] for said in without]
    assert "Account_ListSupportedImages" in found[0][0], without
    assert [line.partition("list ")[0] for line in found[1]] == ["BAD azure-batch: "], without
