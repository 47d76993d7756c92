"""`runspec setup azure-batch`: from an empty subscription to a trained model in two commands, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import ContainerClient

from runspec_azure.batch import timing
from runspec_azure.batch.setup.manager import Manager
from runspec_emulators.azure_batch.emulator import AzureBatch
from runspec_emulators.azure_services.blob import Blobs
from runspec_emulators.azure_services.identity import Identity
from runspec_emulators.frame.listening import Certificate
from runspec_jobs.cli.app import run
from tests.support.azure.emulated_account import Capture
from tests.support.azure.login import identity as identity  # a fixture

pytestmark = pytest.mark.slow

PROFILE = Path("runspec-profile.yaml")
CONTAINER = "models"
JOB = """\
apiVersion: runspec/v1
name: line
provider: azure-batch
mounts: [{name: code, source: ./code, target: /job/code}]
outputs: [{name: model, path: /job/model}]
run: python3 "${mounts.code}/train.py" "${outputs.model}/weights.json"
"""
TRAIN = """\
import json, sys

points = [(x, 3 * x + 1) for x in range(10)]
slope = shift = 0.0
for _ in range(2000):
    for x, y in points:
        error = slope * x + shift - y
        slope, shift = slope - 0.01 * error * x, shift - 0.01 * error
json.dump({"slope": slope, "shift": shift}, open(sys.argv[1], "w"))
print("trained")
"""


class Subscription:
    """A subscription in which nobody has made anything, and the words that lead a setup to it."""

    def __init__(self, azure: AzureBatch, blobs: Blobs) -> None:
        self.azure, self.blobs = azure, blobs
        names = ("resource_group", "account", "storage_account")
        told = dict.fromkeys(names, "rehearsal") | {"location": "westeurope"}
        told |= {"container": CONTAINER, "arm_url": azure.url, "blob_url": blobs.url}
        self.told = [word for name, value in told.items() for word in ("--set", f"{name}={value}")]

    def kinds(self) -> list[str]:
        """Return the kinds of what there is, in order."""
        return sorted(key.split("/")[-2] for key in self.azure.world.resources)

    def set_up(self, *words: str) -> int:
        return run(["setup", "azure-batch", "--yes", *self.told, *words])

    def undo(self, *words: str) -> int:
        return run(["setup", "azure-batch", "--undo", "--yes", *words])


@pytest.fixture
def subscription(
    encrypted: Blobs,
    certificate: Certificate,
    identity: Identity,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Subscription]:
    monkeypatch.setattr(timing, "DEFAULT", timing.Timing(poll_s=0.2, fresh_s=0.2, slow_s=0.2))
    trust = str(certificate.authority)
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(name, trust)
    for name, value in identity.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def opened(name: str) -> ContainerClient:
        key = {"account_name": encrypted.account, "account_key": encrypted.key}
        return ContainerClient(encrypted.url, name, key)

    with AzureBatch(
        tmp_path / "account",
        "rehearsal",
        certificate=certificate,
        identity=identity,
        machine_env={"RUNSPEC_BELOW": ".", "SSL_CERT_FILE": trust},
        empty=True,
        storage_key=encrypted.key,
        make_container=lambda name: opened(name).create_container(),
        delete_container=lambda name: opened(name).delete_container(),
    ) as azure:
        found = Subscription(azure, encrypted)
        yield found
        if any(key.endswith(f"/{CONTAINER}") for key in azure.world.resources):
            opened(CONTAINER).delete_container()


ALL = sorted(
    ["resourcegroups", "storageaccounts", "containers", "userassignedidentities", "batchaccounts"]
    + ["roleassignments"] * 4
)


def test_from_an_empty_subscription_two_commands_lead_to_a_trained_model(
    subscription: Subscription,
) -> None:
    Path("code").mkdir()
    Path("code/train.py").write_text(TRAIN)
    Path("job.yaml").write_text(JOB)

    assert subscription.set_up() == 0
    assert run(["apply", "job.yaml"]) == 0

    assert subscription.kinds() == ALL
    assert run(["fetch", "line", "got"]) == 0
    weights = json.loads(Path("got/model/weights.json").read_text())
    assert (round(weights["slope"], 2), round(weights["shift"], 2)) == (3.0, 1.0)
    assert subscription.undo() == 4  # the run needs it
    for words in (["destroy", "line", "--yes"], ["destroy", "--shared", "--yes"]):
        assert run(words) == 0
    assert subscription.undo("--with-data") == 0
    assert (subscription.kinds(), PROFILE.exists()) == ([], False)


def test_a_repeated_setup_of_a_subscription_makes_nothing(
    subscription: Subscription, capsys: Capture
) -> None:
    assert subscription.set_up() == 0
    before, profile = dict(subscription.azure.world.resources), PROFILE.read_bytes()
    capsys.readouterr()

    assert run(["setup", "azure-batch"]) == 0  # asks nothing, as nothing is missing

    assert "make " not in capsys.readouterr().out
    assert (dict(subscription.azure.world.resources), PROFILE.read_bytes()) == (before, profile)


def test_roles_are_the_least_for_machines_and_for_the_login(
    subscription: Subscription, identity: Identity
) -> None:
    assert subscription.set_up() == 0

    rows = subscription.azure.world.resources.items()
    roles = [one["properties"] for key, one in rows if "/roleassignments/" in key]
    to_login = [r for r in roles if r["principalId"] == identity.tokens.person]
    (to_machines,) = [r for r in roles if r not in to_login]
    assert "/runs/*/outputs/*" in to_machines["condition"]
    assert len(to_login) == 3


def test_blobs_keep_everything_until_they_may_be_deleted(
    subscription: Subscription, capsys: Capture
) -> None:
    assert subscription.set_up() == 0
    key = {"account_name": subscription.blobs.account, "account_key": subscription.blobs.key}
    ContainerClient(subscription.blobs.url, CONTAINER, key).upload_blob("a", b"weights")

    assert subscription.undo() == 4

    assert "the container models has blobs, and stays" in capsys.readouterr().err
    assert subscription.kinds() == ALL
    assert subscription.undo("--with-data") == 0
    assert subscription.kinds() == []


def test_resources_of_somebody_else_are_used_if_named_and_stay(
    subscription: Subscription, capsys: Capture
) -> None:
    group = f"/subscriptions/{subscription.azure.settings.subscription}/resourceGroups/rehearsal"
    theirs: dict[str, Any] = {"id": group, "name": "rehearsal", "location": "westeurope"}
    subscription.azure.world.resources[group.lower()] = {**theirs, "properties": {}}

    assert subscription.set_up() == 0
    assert subscription.undo() == 0

    assert subscription.kinds() == ["resourcegroups"]
    unnamed = [w for w in subscription.told if "resource_group" not in w]
    del unnamed[0]
    name = group.replace("rehearsal", "runspec-westeurope")
    subscription.azure.world.resources[name.lower()] = {**theirs, "properties": {}}
    assert run(["setup", "azure-batch", "--yes", *unnamed]) == 4
    assert "runspec-westeurope exists, and no runspec setup has made it" in capsys.readouterr().err


def test_an_identity_that_somebody_made_anew_is_not_deleted(subscription: Subscription) -> None:
    assert subscription.set_up() == 0
    resources = subscription.azure.world.resources
    (key,) = [one for one in resources if one.endswith("/userassignedidentities/runspec-jobs")]
    resources[key] = {**resources[key], "tags": {"runspec-setup": "another"}}

    assert subscription.undo() == 4  # the group would not be empty

    assert subscription.kinds() == ALL


class Killed(BaseException):
    """The process ends here, as after kill -9: nothing but the journal is written."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_setup_and_an_undo_killed_at_each_request_go_on_when_repeated(
    subscription: Subscription, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    send, left = Manager.send, [-1]

    def counted(self: Manager, method: str, *given: Any) -> Any:
        left[0] -= method in ("PUT", "DELETE")
        if left[0] == 0 and when == "before":
            raise Killed
        answer = send(self, method, *given)
        if left[0] == 0 and method in ("PUT", "DELETE"):
            raise Killed
        return answer

    monkeypatch.setattr(Manager, "send", counted)
    for at in range(1, len(ALL) + 1):
        left[0] = at
        with pytest.raises(Killed):
            subscription.set_up()
        left[0] = -1
        assert subscription.set_up() == 0, at
        assert subscription.kinds() == ALL, at
        left[0] = at
        with pytest.raises(Killed):
            subscription.undo()
        left[0] = -1
        assert subscription.undo() in (0, 2), at  # 2: everything was gone, and noted
        assert subscription.kinds() == [], at
        PROFILE.unlink(missing_ok=True)


def test_every_request_of_a_setup_is_in_the_role_of_policy_setup(
    subscription: Subscription, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    words = {"GET": "read", "PUT": "write", "DELETE": "delete"}
    send, needed = Manager.send, set[str]()

    def seen(self: Manager, method: str, path: str, *given: Any) -> Any:
        kind = re.sub(r"^/subscriptions/[^/]+/?", "", path.rpartition("/providers/")[2])
        kind = "/".join([kind.split("/")[0], *kind.split("/")[1::2]])
        if "/providers/" not in path:
            kind = "Microsoft.Resources/subscriptions" + "/resourceGroups" * ("/resource" in path)
            kind += "/resources" * path.endswith("/resources")
        if path.endswith("/quotas"):
            kind = "Microsoft.Batch/locations/quotas"
        action = "listKeys/action" if method == "POST" else words[method]
        needed.add(f"{kind.removesuffix('/listKeys')}/{action}")
        return send(self, method, path, *given)

    monkeypatch.setattr(Manager, "send", seen)
    assert run(["policy", "--setup", "azure-batch", *subscription.told]) == 0
    role = json.loads(capsys.readouterr().out)

    assert subscription.set_up() == 0
    assert subscription.undo() == 0

    assert needed - set(role["Actions"]) == set()
    assert set(role["Actions"]) - needed == {"Microsoft.Resources/subscriptions/read"} - needed


def test_a_template_of_a_subscription_has_each_resource_and_no_name_of_a_setup(
    subscription: Subscription,
) -> None:
    words = ["setup", "azure-batch", *subscription.told, "--export", "setup.json"]

    assert run(words) == 0

    group, nested = json.loads(Path("setup.json").read_text())["resources"]
    inner = nested["properties"]["template"]["resources"]
    assert subscription.kinds() == []
    assert group["tags"] == {"runspec-setup": "template"}
    assert len(inner) == len(ALL) - 1
    names = [one["name"] for one in inner]
    assert f"rehearsal/default/{CONTAINER}" in names
    roles = [one for one in inner if one["type"].endswith("/roleAssignments")]
    (of_machines,) = [one for one in roles if "condition" in one["properties"]]
    assert of_machines["properties"]["principalId"].startswith("[reference('/subscriptions/")
    assert all(one["scope"] in one["dependsOn"] for one in roles)
    assert "$ref" not in Path("setup.json").read_text()


def test_a_setup_needs_a_location(subscription: Subscription, capsys: Capture) -> None:
    words = ["--set", f"arm_url={subscription.azure.url}"]

    assert run(["setup", "azure-batch", "--yes", *words]) == 2

    assert "--set location=westeurope" in capsys.readouterr().err
