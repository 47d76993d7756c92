"""Files of other tools are read with lines, and what no rule has read is listed without its value."""

from __future__ import annotations

import pytest

from runspec_jobs.document import reader
from runspec_jobs.provider import UsageError
from runspec_jobs.provider.importing.documents import read_documents
from runspec_jobs.provider.importing.draft import Draft, write_imported
from runspec_jobs.provider.importing.mapping import ForeignMap, Notes
from runspec_jobs.provider.types import ForeignFile
from tests.support.imports import list_losses, read_all
from tests.support.yaml_corpus import hostile

TEXT = """\
name: a
count: 3
list: [x, {y: z}]
inner:
  known: yes
  new: s3cret
empty:
truth: perhaps
"""


def open_map(text: str = TEXT) -> tuple[ForeignMap, Notes]:
    notes = Notes("folder/a.yaml")
    return ForeignMap(read_documents(ForeignFile("folder/a.yaml", text))[0], "", notes), notes


def test_every_key_that_no_rule_has_read_is_listed_with_its_line_and_without_its_value() -> None:
    mapping, notes = open_map()
    assert (mapping.text("name"), mapping.number("count")) == ("a", 3)
    assert mapping.map("inner").truth("known") is True

    assert notes.finish() == (
        "a.yaml:3: not imported: list: runspec has no such setting",
        "a.yaml:6: not imported: inner.new: runspec has no such setting",
        "a.yaml:8: not imported: truth: runspec has no such setting",
    )


@pytest.mark.parametrize(
    ("method", "key", "line"),
    [
        ("text", "list", 3),
        ("number", "name", 1),
        ("truth", "truth", 8),
        ("map", "name", 1),
        ("maps", "list", 3),
        ("texts", "inner", 4),
        ("pairs", "list", 3),
    ],
)
def test_a_value_of_another_kind_is_listed(method: str, key: str, line: int) -> None:
    mapping, notes = open_map()

    getattr(mapping, method)(key)

    assert any(
        note.startswith(f"a.yaml:{line}: not imported: {key}") and "expected here" in note
        for note in notes.finish()
    )


def test_tags_that_an_importer_knows_become_mappings_in_each_of_several_documents() -> None:
    text = "a: !Ref b\n---\n---\na: !Join ['', [!Ref c]]\n"

    found = read_documents(ForeignFile("a", text), {"!Ref": "Ref", "!Join": "Join"}.get)

    assert found == [{"a": {"Ref": "b"}}, {"a": {"Join": ["", [{"Ref": "c"}]]}}]


def test_a_tag_that_no_importer_knows_is_refused_with_its_place() -> None:
    with pytest.raises(UsageError, match=r"a\.yaml:1:4: the tag '!!python/name:os"):
        read_documents(ForeignFile("a.yaml", "a: !!python/name:os.system x\n"))


def test_a_template_that_is_not_rendered_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError) as raised:
        read_documents(ForeignFile("a.yaml", "name: {{ .Values.name }}\n"))

    assert raised.value.hint == "render the template first"


def test_hostile_files_are_read_or_refused_as_specs_are() -> None:
    for data in hostile():
        try:
            reader.read_all(data, {"!Ref": "Ref"}.get)
        except reader.YamlError:
            continue


def test_several_jobs_become_a_chain_whose_names_differ() -> None:
    notes = Notes("a.yaml")
    drafts = [Draft("job", "local", notes) for _ in range(2)]
    for draft in drafts:
        draft.spec["command"] = ["a"]

    specs = read_all(write_imported(drafts, notes))

    assert [spec.name for spec in specs] == ["job-2", "job-3"]


def test_a_secret_of_a_script_is_named_and_its_value_is_gone() -> None:
    notes = Notes("a.yaml")
    draft = Draft("a", "local", notes)
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"
    script = (
        f"export API_KEY=abcdef123\ncurl https://me:hidden@example.org --token=t0ps3cret\n{key}\n"
    )
    draft.spec["run"] = draft.take_script(script)

    imported = write_imported([draft], notes)

    assert dict(read_all(imported)[0].secrets) == {"API_KEY": "env:API_KEY"}
    for value in ("abcdef123", "hidden", "t0ps3cret", "MIIabc"):
        assert value not in str(imported)
    assert list_losses(imported) == []


def test_invalid_values_of_an_import_are_left_out_and_listed() -> None:
    notes = Notes("a.yaml")
    draft = Draft("a", "local", notes)
    draft.container["image"] = "a b"
    draft.cluster |= {"cpus": 10**30, "memory": "1GiB"}
    draft.add_mount("data", "./data", "relative")
    draft.spec["run"] = "echo a\n"

    imported = write_imported([draft], notes)

    (spec,) = read_all(imported)
    assert (spec.container.image, spec.mounts, spec.cluster.memory) == (None, (), 1 << 30)
    assert [loss.split(": ")[1] for loss in list_losses(imported)] == [
        "mounts.0.target",
        "container.image",
        "cluster.cpus",
    ]
