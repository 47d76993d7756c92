"""What a rehearsal says where Azurite is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec import registry
from runspec.provider import Rehearses, Unavailable


@pytest.mark.parametrize("name", ["azure-batch", "azure-batch-ai"])
def test_a_rehearsal_without_azurite_says_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPEC_AZURITE", str(tmp_path / "nowhere"))
    provider = registry.load(name)
    assert isinstance(provider, Rehearses)

    with pytest.raises(Unavailable) as caught, provider.rehearse({}, tmp_path, None):
        pass

    assert "npm install --global azurite" in str(caught.value.hint)
