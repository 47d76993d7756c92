"""The hands of the Azure Batch AI provider."""

from __future__ import annotations

from runspec.provider import Client, Facts, Unavailable


def connect(facts: Facts) -> Client:
    if facts.options.arm_url is None:
        raise Unavailable(
            "Azure Batch AI was retired on 31 March 2019 and answers no more",
            "set provider: azure-batch, which runs the same spec",
        )
    raise NotImplementedError
