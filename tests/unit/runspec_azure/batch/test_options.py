"""What the settings of Azure Batch take, and what they refuse before anything is asked of Azure."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from runspec_azure.batch.options import BatchOptions
from runspec_batchai.options import BatchAiOptions

TAKEN = {
    "batch_url": ["https://jobs.westeurope.batch.azure.com", "http://127.0.0.1:10100"],
    "blob_url": ["https://mine.blob.core.windows.net", "http://localhost:10000/mine"],
    "container": ["abc", "a-b", "a1-2-3", "a" * 63],
    "prefix": ["runspec", "a/b.c/d", ".hidden", "a..b"],
}
# Where a name is wrong, the store takes it for something else, or refuses it much later.
REFUSED = {
    "batch_url": [
        "http://jobs.westeurope.batch.azure.com",
        "http://127.0.0.1.example.org",
        "ftp://a",
    ],
    "blob_url": ["http://mine.blob.core.windows.net", "http://localhost.example.org"],
    "container": ["ab", "-ab", "ab-", "a--b", "a" * 64, "Abc"],
    "prefix": ["..", "../x", "a/../b", "a/.", "./a", "/a", "a/"],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in TAKEN.items() for v in vs])
def test_a_setting_that_azure_takes_is_taken(name: str, value: str) -> None:
    assert getattr(BatchOptions.model_validate({name: value}), name) == value


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in REFUSED.items() for v in vs])
def test_a_setting_that_azure_would_not_take_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValidationError):
        BatchOptions.model_validate({name: value})


@pytest.mark.parametrize("prefix", ["..", "a/../b"])
def test_batch_ai_refuses_a_prefix_that_means_another_place(prefix: str) -> None:
    with pytest.raises(ValidationError):
        BatchAiOptions.model_validate({"prefix": prefix})


@pytest.mark.parametrize("name", ["batch_key", "storage_key"])
def test_a_key_is_said_to_live_somewhere_and_not_by_a_name_of_batch_ais(name: str) -> None:
    with pytest.raises(ValidationError, match="is not where a secret lives") as told:
        BatchOptions.model_validate({name: "storage-key"})

    assert told.value.errors()[0]["ctx"]["hint"] == "write env:NAME or file:/path"


@pytest.mark.parametrize("model", [BatchOptions, BatchAiOptions])
@pytest.mark.parametrize(
    ("name", "value", "way"),
    [("container", "NAME", "3 to 63 of a-z"), ("storage_account", "My-Storage", "3 to 24 of a-z")],
)
def test_a_name_in_capitals_is_told_of_the_letters_it_may_have(
    model: type[BatchOptions], name: str, value: str, way: str
) -> None:
    with pytest.raises(ValidationError) as told:
        model.model_validate({name: value})

    (error,) = told.value.errors()
    assert way in error["ctx"]["hint"]
