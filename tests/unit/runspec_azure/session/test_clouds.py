"""The clouds of Azure: one table of hosts and audiences, held to the SDKs' own, and followed everywhere."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.core import AzureClouds
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import AzureAuthorityHosts
from azure.mgmt.core.tools import get_arm_endpoints

import runspec_agent
import runspec_azure
from runspec_azure.batch import PROVIDER
from runspec_azure.batch.client import AzureClient
from runspec_azure.session import clouds, transport
from runspec_azure.session.clouds import CHINA, CLOUDS, PUBLIC, USGOVERNMENT, Cloud
from runspec_jobs.provider import Facts, RunspecError
from tests.support.azure import batch_ai_specs
from tests.support.azure.specs import options, spec

EACH = pytest.mark.parametrize("cloud", CLOUDS, ids=[cloud.name for cloud in CLOUDS])
KNOWN = {
    PUBLIC: (AzureClouds.AZURE_PUBLIC_CLOUD, AzureAuthorityHosts.AZURE_PUBLIC_CLOUD),
    USGOVERNMENT: (AzureClouds.AZURE_US_GOVERNMENT, AzureAuthorityHosts.AZURE_GOVERNMENT),
    CHINA: (AzureClouds.AZURE_CHINA_CLOUD, "login.partner.microsoftonline.cn"),
}
HOST = re.compile(r"//([^/:\"\\\s?]+)")
# Hosts of one cloud or another, which belong into the table.
OWN = re.compile(
    "|".join(
        re.escape(h) for c in CLOUDS for h in (c.login, c.manager, c.batch, c.storage, c.vault)
    )
)
EXAMPLE = re.compile(r"ACCOUNT|VAULT|myaccount|retired")  # messages that say what to type


@EACH
def test_the_table_says_what_the_sdks_know(cloud: Cloud) -> None:
    setting, authority = KNOWN[cloud]

    known = get_arm_endpoints(setting)

    assert cloud.manager_url == known["resource_manager"].rstrip("/")
    assert [cloud.manager_scope] == known["credential_scopes"]
    assert cloud.login == authority


@EACH
def test_the_cloud_is_the_one_of_the_urls_or_the_one_that_is_named(cloud: Cloud) -> None:
    url = f"https://jobs.somewhere.{cloud.batch}"

    assert clouds.of(options(batch_url=url)) == cloud
    assert clouds.of(options(batch_url="https://batch.example", cloud=cloud.name)) == cloud
    own = {"batch_url": "https://batch.example", "blob_url": cloud.blob_url("mine")}
    assert clouds.of(options(**own)) == cloud


@EACH
def test_a_plan_names_hosts_of_its_cloud_alone(cloud: Cloud) -> None:
    profile = options(
        batch_url=f"https://jobs.somewhere.{cloud.batch}",
        shared={"data": "files:mine/data"},
        secrets={"hf": f"azure-kv:https://v.{cloud.vault}/secrets/hf"},
        identity="/subscriptions/1/resourceGroups/a/providers/Microsoft.ManagedIdentity/"
        "userAssignedIdentities/jobs",
        subscription="1",
        resource_group="a",
        account_keys={"mine": "env:KEY"},
    )
    mount = {"name": "data", "source": "shared://data", "target": "/data"}
    wanted = spec(mounts=[mount], secrets={"HF": "hf"})

    text = json.dumps([s.do.params for s in PROVIDER.plan(wanted, "n-abc123", Facts(profile))])

    assert set(HOST.findall(text)) == {
        f"mine.file.{cloud.storage}",
        f"{profile.storage_account}.blob.{cloud.storage}",
        f"v.{cloud.vault}",
        cloud.vault,
    }


@EACH
def test_a_share_of_batch_ai_is_at_the_host_of_its_cloud(cloud: Cloud) -> None:
    text = json.dumps(batch_ai_specs.properties(batch_ai_specs.spec(), cloud=cloud.name))

    assert {host for host in HOST.findall(text) if "file." in host} == {
        f"acct.file.{cloud.storage}"
    }


@EACH
def test_tokens_are_asked_for_at_the_login_of_the_cloud_and_for_its_services(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(transport.AUTHORITY, raising=False)
    asked: list[str] = []

    class Nobody:
        def __init__(self, authority: str, transport: object) -> None:
            asked.append(authority)

        def get_token(self, *scopes: str, **more: object) -> None:
            asked.extend(scopes)
            raise ClientAuthenticationError("nobody is logged in")

    monkeypatch.setattr("azure.identity.DefaultAzureCredential", Nobody)
    profile = options(
        batch_url=f"https://jobs.somewhere.{cloud.batch}", storage_key=None, subscription="1"
    )
    client = AzureClient(profile)
    for ask in (lambda: client.session.look("Job_List"), lambda: client.blobs.size("a")):
        with pytest.raises(RunspecError, match="nobody is logged in"):
            ask()

    assert asked == [cloud.login, cloud.batch_scope, clouds.STORAGE_SCOPE]


def test_no_host_of_a_cloud_stands_outside_of_the_table() -> None:
    places = [Path(p) for m in (runspec_azure, runspec_agent) for p in m.__path__]
    # A job outside of Azure reads public containers of the public cloud; one in Azure those of its own cloud.
    excepted = ("clouds.py", "other_stores.py")
    files = [f for p in places for f in p.rglob("*.py") if f.name not in excepted]

    found = [(f.name, text) for f in files for text in strings(ast.parse(f.read_text()))]

    assert len(files) > 50
    assert [one for one in found if OWN.search(one[1]) and not EXAMPLE.search(one[1])] == []


def strings(tree: ast.AST) -> Iterator[str]:
    """Give the strings of a program that are no docstrings."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {
        id(n.body[0].value)
        for n in ast.walk(tree)
        if isinstance(n, kinds)
        if n.body
        if isinstance(n.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value
