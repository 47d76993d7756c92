"""The settings of Kubernetes: which values its API takes."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from runspec_kubernetes.options import KubernetesOptions


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespace": "a.b"},
        {"service_account": "a..b"},
        {"service_account": "a.-b"},
        {"store": "pvc:a..b"},
        {"shared": {"work": "pvc:-a"}},
        {"queue": "two words"},
        {"queue": "a" * 64},
        {"labels": {"a/b/c": "x"}},
        {"labels": {f"{'a' * 254}/b": "x"}},
        {"labels": {"team": "x" * 64}},
        {"node_selector": {"zone": "-a"}},
        {"gpu_resource": "gpu"},
        {"tolerations": [{"key": "spot", "value": "yes"}]},
        {"tolerations": [{"operator": "Equal", "value": "yes"}]},
        {"store_keys": {"GCS_KEY": "env:KEY"}},
        {"user": 0},
    ],
)
def test_values_that_the_api_would_refuse_are_errors(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        KubernetesOptions.model_validate(wrong)


def test_keys_of_a_store_have_the_names_of_their_variables() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "env:ID", "AWS_SECRET_ACCESS_KEY": "file:~/.secret"}

    assert KubernetesOptions.model_validate({"store_keys": keys}).store_keys == keys


def test_a_toleration_of_a_value_names_its_operator() -> None:
    toleration = {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}

    options = KubernetesOptions.model_validate({"tolerations": [toleration]})

    assert [given.body for given in options.tolerations] == [toleration]
