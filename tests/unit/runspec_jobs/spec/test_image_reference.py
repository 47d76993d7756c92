"""Names of images are those that registries take, by the grammar of github.com/distribution/reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspec_jobs.cli.app import run
from runspec_jobs.spec.types import find_mistake

SHA = "sha256:" + "0a" * 32

# The valid and invalid names of `reference_test.go` there, and the notations of Slurm's engines.
TAKEN = [
    "test_com", "test.com:tag", "test.com:5000", "test.com/repo:tag", "test:5000/repo",
    "test:5000/repo:tag", f"test:5000/repo@{SHA}", f"test:5000/repo:tag@{SHA}", "test:5000/repo",
    "lowercase:Uppercase", "a/a/a/a/a/a/b/a/a/a/a:tag", "sub-dom1.foo.com/bar/baz/quux:some-long-tag",
    "sub-dom1.foo.com/bar/baz/quux", "b.gcr.io/test.example.com/my-app:test.example.com",
    "xn--n3h.com/myimage:xn--n3h.com", "xn--7o8h.com/myimage@sha512:" + "0f" * 64,
    "foo_bar.com:8080", "foo/foo_bar.com:8080", "192.168.1.1", "192.168.1.1:tag", "192.168.1.1:5000/repo",
    "[2001:db8::1]/repo", "[2001:db8:1:2:3:4:5:6]:5000/repo:tag", "docker.io/library/python:3.12",
    "localhost/a:1", "localhost:5000/a__b", "a--b/c", "UPPER.example.org/a", "Registry/a",
    "123456789012.dkr.ecr.eu-central-1.amazonaws.com/img:1", "docker://ubuntu:22.04",
    "nvcr.io#nvidia/tensorflow:18.10-py3", "docker://me@registry.example.org#a/b:1", "oras://h.io/a:1",
    "/images/A.sif", "./a.sif", "~/a.sqsh", "https://h.io/a.sif", "a.sif:1", "oci:1", "docker:dind",
]  # fmt: skip
REFUSED = [
    ("Uppercase:tag", "no capital letters"),
    ("test:5000/Uppercase/lowercase:tag", "no capital letters"),
    ("python:", "the tag after ':' is missing"),
    ("repo@sha256:ffff", "no digest"),
    ("repo@sha256:" + "f" * 33, "no digest"),
    ("validname@invaliddigest:" + "f" * 5, "no digest"),
    ("repo@", "no digest"),
    ("a//b", "a part of the name is empty"),
    ("a/", "a part of the name is empty"),
    ("aa/asdf$$^/aa", "cannot be in the name"),
    ("python:3.12:slim", "is no tag"),
    ("python:-3", "is no tag"),
    ("a:" + "b" * 129, "is no tag"),
    ("a___b", "cannot be in the name"),
    ("a..b", "cannot be in the name"),
    ("a-", "cannot be in the name"),
    ("a*", "cannot be in the name"),
    ("-foo.bar/a", "is no registry"),
    ("foo.com:http/a", "is no registry"),
    ("[fe80::1%eth0]:5000/repo", "is no registry"),
    ("a/" * 128 + "a:tag", "257 characters"),
    ("https://index.docker.io/Library/python", "no capital letters"),
    ("0a" * 32, "the id of an image"),
    ("sha256:" + "0a" * 32, "the id of an image"),
    ("docker:///a", "a part of the name is empty"),
    ("oci:./a", "'oci:' is an image on one machine"),
    ("docker-archive:/a.tar", "'docker-archive:' is an image on one machine"),
    ("docker-daemon:a:1", "'docker-daemon:' is an image on one machine"),
    ("containers-storage:localhost/a", "'containers-storage:' is an image on one machine"),
    ("images/a.sif", "has the name of a file"),
    ("a.sqsh", "has the name of a file"),
    ("a.tar.gz", "has the name of a file"),
]


@pytest.mark.parametrize("image", TAKEN)
def test_an_image_of_a_registry_or_a_file_is_taken(image: str) -> None:
    assert find_mistake(image) is None


@pytest.mark.parametrize(("image", "why"), REFUSED)
def test_a_name_that_no_registry_takes_is_refused_with_the_reason(image: str, why: str) -> None:
    wrong = find_mistake(image)

    assert wrong is not None and why in wrong[0]


def test_validate_shows_the_place_and_the_way_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(
        "apiVersion: runspec/v1\nname: a\nprovider: local\nrun: 'true'\ncontainer: {image: Ubuntu:22.04}\n"
    )

    assert run(["validate", "job.yaml"]) == 2

    told = capsys.readouterr().err
    assert "job.yaml:5:20: container.image: 'Ubuntu:22.04' is no image that a registry has" in told
    assert "write the name of the image in lower case" in told and "^" in told
