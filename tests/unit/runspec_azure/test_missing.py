"""What a rehearsal says where Azurite is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_emulators.azure_services import blob
from runspec_emulators.azure_services.blob import VERSION
from runspec_jobs.load import registry
from runspec_jobs.provider import SupportsEmulation, Unavailable


@pytest.mark.process
@pytest.mark.parametrize("name", ["azure-batch", "azure-batch-ai"])
def test_a_rehearsal_without_azurite_says_how_to_get_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPEC_AZURITE", str(tmp_path / "nowhere"))
    provider = registry.load(name)
    assert isinstance(provider, SupportsEmulation)

    with pytest.raises(Unavailable) as caught, provider.rehearse({}, tmp_path, None):
        pass

    hint = str(caught.value.hint)
    assert f"npm install --global azurite@{VERSION}" in hint
    assert "tools/setup --test" in hint


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """What npm leaves below a prefix: the package, and a link to its command."""
    package = tmp_path / "npm" / "lib" / "node_modules" / "azurite"
    main = package / "dist" / "src" / "blob" / "main.js"
    main.parent.mkdir(parents=True)
    main.touch()
    (tmp_path / "npm" / "bin").mkdir()
    (tmp_path / "npm" / "bin" / "azurite-blob").symlink_to(main)
    return package


@pytest.mark.parametrize("said", ["npm/lib/node_modules/azurite", "npm/bin/azurite-blob", "npm"])
def test_azurite_is_found_by_its_package_its_command_or_npms_prefix(
    said: str, installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPEC_AZURITE", str(tmp_path / said))

    assert blob.package() == installed


def test_azurite_is_found_where_npm_was_given_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "node_modules" / "azurite"
    (package / "dist" / "src" / "blob").mkdir(parents=True)
    (package / "dist" / "src" / "blob" / "main.js").touch()
    monkeypatch.setenv("RUNSPEC_AZURITE", str(tmp_path))

    assert blob.package() == package
