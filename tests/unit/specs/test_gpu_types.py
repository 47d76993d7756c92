"""A list of types of GPUs: each provider plans with the first that it can give."""

from __future__ import annotations

import pytest

from runspec_jobs.load import source

TEXT = """
apiVersion: runspec/v1
name: train
provider: {provider}
cluster: {{gpus: 4, gpu_type: {kinds}}}
container: {{requirements: [six]}}
command: [train]
"""


def choose(provider: str, kinds: str) -> tuple[str | None, list[str]]:
    """Return the type with which *provider* plans, and the notes and errors about it."""
    text = source.read("job.yaml", TEXT.format(provider=provider, kinds=kinds).encode())

    spec, problems = source.validate_text(text)

    assert spec is not None
    about = [p.what for p in problems if p.path == ("cluster", "gpu_type")]
    return spec.cluster.gpu_type, about


@pytest.mark.parametrize(
    ("provider", "kinds", "chosen", "about"),
    [
        ("aws-batch", "[H200, A100]", "H200", []),
        ("local", "[H200, A100]", "H200", []),
        ("azure-batch-ai", "[V100]", "V100", []),
        (
            "azure-batch-ai",
            "[H200, K80]",
            "K80",
            ["'K80' is used: no machine of Batch AI had the GPU 'H200'"],
        ),
        (
            "azure-batch-ai",
            "[H200, A100]",
            "H200",
            ["no machine of Batch AI had the GPU 'H200'"],
        ),
    ],
)
def test_a_provider_plans_with_the_first_type_that_it_has(
    provider: str, kinds: str, chosen: str, about: list[str]
) -> None:
    assert choose(provider, kinds) == (chosen, about)


@pytest.mark.parametrize("kinds", ["[]", "[A100, A100]", "[[A100]]", "{A100: 1}"])
def test_a_list_of_types_without_a_choice_is_refused(kinds: str) -> None:
    text = source.read("job.yaml", TEXT.format(provider="local", kinds=kinds).encode())

    spec, problems = source.validate_text(text)

    assert spec is None
    assert [problem.path[:2] for problem in problems] == [("cluster", "gpu_type")]
