"""The table of facts is what the official descriptions say, and names every operation that our clients call."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

import pytest

from runspec_azure.session.clients import OPERATIONS
from runspec_batchai import session
from tests.drawn import azure_facts
from tests.drawn.azure_facts import TABLE
from tests.drawn.azure_table import operations
from tests.support.root import ROOT

CODE = [ROOT / "providers" / name for name in ("runspec_azure", "runspec_batchai")]
# Groups of operations of the SDKs, and what the table calls what they are of.
GROUPS = {
    "workspaces": "Workspaces",
    "clusters": "Clusters",
    "experiments": "Experiments",
    "file_servers": "FileServers",
    "jobs": "Jobs",
    "usages": "Usages",
    "resource_groups": "ResourceGroups",
    "groups": "ResourceGroups",
    "resources": "Resources",
    "resource_skus": "ResourceSkus",
    "usage": "Usage",
    "pool": "Pool",
}


def described() -> bool:
    return azure_facts.BATCH.exists() and azure_facts.BATCH_AI.exists()


@pytest.mark.skipif(not described(), reason="the official descriptions are not at hand")
def test_the_table_is_what_the_descriptions_say() -> None:
    """Where they are not at hand the table is what there is: it holds their versions and digests."""
    assert TABLE.read_text(encoding="utf-8") == azure_facts.written()


def test_the_table_says_where_it_is_from() -> None:
    sources = json.loads(TABLE.read_text(encoding="utf-8"))["sources"]

    assert {one["name"].partition(":")[0] for one in sources} == {
        "batch",
        "batchai",
        "azure-mgmt-batch",
        "azure-mgmt-compute",
        "azure-mgmt-resource",
    }
    assert all(re.fullmatch("[0-9a-f]{64}", one.get("sha256", "0" * 64)) for one in sources)


def test_every_operation_of_azure_batch_is_in_the_table() -> None:
    heads = {name.replace("_Get", "_GetProperties") for name in OPERATIONS if "File_" in name}

    assert {*OPERATIONS, *heads} == set(azure_facts.BATCH_OPERATIONS)


def test_every_operation_by_an_sdk_is_in_the_table() -> None:
    """By the calls of the SDKs' groups of operations that are in the code, and by the tables of `arm`."""
    called = set(session.SENT) | {f"{kind}_Get" for kind in session.GOT} | set(by_sdks())
    known = {name for name, one in operations().items() if name not in OPERATIONS}

    assert called - known == set()
    assert {name for name in known if not name.startswith("File_")} - called == set()


def by_sdks() -> Iterator[str]:
    """Give the operations that the code calls as methods of groups: `resource_skus.list` is ResourceSkus_List."""
    for path in (path for folder in CODE for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Attribute):
                continue
            inner = node.value
            if isinstance(inner, ast.Name) and node.attr == "get":
                continue  # a mapping's
            name = getattr(inner, "attr", None) or getattr(inner, "id", None)
            if name in GROUPS and re.match(
                "(begin_)?(list|get|create|delete|terminate)", node.attr
            ):
                word = "".join(part.title() for part in node.attr.removeprefix("begin_").split("_"))
                yield f"{GROUPS[name]}_{word}"
