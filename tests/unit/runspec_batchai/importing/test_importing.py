"""What `az batchai` took is a spec now, and the plan of that spec is what `az batchai` took."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from runspec_batchai import PROVIDER
from runspec_jobs.load import profile as profiles, source as jobs_file
from runspec_jobs.plan import model
from runspec_jobs.provider import Facts, Spec, UsageError
from runspec_jobs.provider.types import ForeignFile, Imported
from runspec_jobs.spec import placeholders, validate
from tests.support.azure import batch_ai_bodies
from tests.support.azure.batch_ai_recipes import CLUSTERS, HANDS_ON, KEY, RECIPES, job

FIRST = next(iter(CLUSTERS.values()))


def taken(job: Any, cluster: Any = None) -> Imported:
    foreign = ForeignFile("cluster.json", json.dumps(cluster)) if cluster else None
    return PROVIDER.imports(ForeignFile("job.json", json.dumps(job, indent=1)), foreign)


def valid(found: Imported) -> Spec:
    spec, problems = jobs_file.validate_text(jobs_file.read("job.yaml", found.spec.encode()))
    assert spec is not None, problems
    return spec


def bodies(found: Imported) -> Mapping[str, Any]:
    """Plan what was taken in, as a user would; the accounts that no file names are made up."""
    spec = valid(found)
    settings = jobs_file.read("p.yaml", found.profile.encode())
    assert settings.document is not None, settings.diagnostics
    account, problems = profiles.read(settings.document.value)
    assert account is not None, problems
    own = {
        "subscription": "00000000-0000-0000-0000-000000000000",
        "location": "eastus",
        "storage_account": "acct",
        "ssh_public_key": "ssh-rsa AAAA",
        **account.providers["azure-batch-ai"],
    }
    known = account.model_copy(update={"providers": {"azure-batch-ai": own}})
    options, *wrong = profiles.merge_options(PROVIDER.options_model, "azure-batch-ai", spec, known)
    assert options is not None, wrong
    facts = Facts(options)
    assert [p for p in PROVIDER.check(spec, facts) if p.severity == "error"] == []
    made = model.make_plan(PROVIDER, spec, "abc123", facts)
    return {
        s.id: s.do.params["body"]["properties"] for s in made.steps if s.id in ("job", "cluster")
    }


def normal(value: Mapping[str, Any]) -> dict[str, Any]:
    """Give a body with what says the same thing said in one way, as the service and the tool read it."""
    found: dict[str, Any] = copy.deepcopy(dict(value))
    inputs = {i["id"]: i["path"].rstrip("/") for i in found.get("inputDirectories", ())}
    found = _expanded(found, inputs)
    found["inputDirectories"] = inputs
    kinds = found.get("mountVolumes", {}) | found.pop("nodeSetup", {}).get("mountVolumes", {})
    found["mountVolumes"] = {
        volume["relativeMountPath"]: _volume(volume) for kind in kinds.values() for volume in kind
    }
    for key in [key for key in found if key.endswith("Settings")]:
        if "processCount" in found[key] and found[key]["processCount"] == found["nodeCount"]:
            del found[key]["processCount"]  # it is the default
    if "constraints" in found:
        from runspec_batchai.importing.job_file import length

        found["constraints"] = length(found["constraints"]["maxWallClockTime"])
    found["secrets"] = {
        s["name"]: s.get("valueSecretReference", "value") for s in found.get("secrets", ())
    }
    return found


def _expanded(value: Any, inputs: Mapping[str, str]) -> Any:
    """Fill in input directories, and secrets by nothing at all."""
    if isinstance(value, dict):
        return {
            k: _expanded(v, inputs) for k, v in value.items() if k not in ("accountKey", "password")
        }
    if isinstance(value, list):
        return [_expanded(item, inputs) for item in value]
    if not isinstance(value, str):
        return value
    for name, path in sorted(inputs.items(), key=lambda item: -len(item[0])):
        value = re.sub(rf"\$(\{{?)AZ_BATCHAI_INPUT_{name}(\}}?)(?!\w)", path, value)
    return value.replace("<AZURE_BATCHAI_STORAGE_ACCOUNT>", "acct")


def _volume(volume: Mapping[str, Any]) -> dict[str, Any]:
    found = {**volume, "credentials": {}}
    if "azureFileUrl" in volume:
        found.setdefault("accountName", "acct")
    return found


def assert_holds(made: Mapping[str, Any], original: Mapping[str, Any]) -> None:
    """The plan says what the file said; beside it, only input directories, and where they are mounted."""
    one, other = normal(made), normal(original)
    extra = {
        k: v for k, v in one.pop("inputDirectories").items() if k not in original_ids(original)
    }
    assert set(extra.values()) <= {
        f"$AZ_BATCHAI_JOB_MOUNT_ROOT/{name}" for name in one["mountVolumes"]
    }
    assert {k: v for k, v in other.pop("inputDirectories").items() if k in extra} == {}
    if "cluster" not in original:
        one.pop("cluster", None)
    assert one == other


def original_ids(original: Mapping[str, Any]) -> set[str]:
    return {i["id"] for i in original.get("inputDirectories", ())}


@pytest.mark.parametrize("name", RECIPES)
def test_a_job_that_is_taken_in_is_planned_as_it_was(name: str) -> None:
    body = RECIPES[name]["properties"]

    made = bodies(taken(RECIPES[name]))["job"]

    assert_holds(made, body)
    assert batch_ai_bodies.by_sdk("Jobs_Create", batch_ai_bodies.plain({"properties": made})) == []


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_that_is_taken_in_is_planned_as_it_was(name: str) -> None:
    original = batch_ai_bodies.plain(json.loads(json.dumps(CLUSTERS[name]["properties"])))
    hands_on = copy.deepcopy(HANDS_ON)

    made = bodies(taken(hands_on, CLUSTERS[name]))["cluster"]

    assert normal_cluster(made) == normal_cluster(original)


def normal_cluster(value: Mapping[str, Any]) -> Any:
    text = json.dumps(value, sort_keys=True).replace("<AZURE_BATCHAI_STORAGE_ACCOUNT>", "acct")
    found: dict[str, Any] = json.loads(text)
    for word in ("adminUserPassword",):
        if word in found["userAccountSettings"]:
            found["userAccountSettings"][word] = "hidden"
    for kind in found.get("nodeSetup", {}).get("mountVolumes", {}).values():
        for volume in kind:
            volume.pop("credentials", None)
            if "azureFileUrl" in volume:
                volume["accountName"] = "acct"
    if setup := found.get("nodeSetup"):
        setup["setupTask"]["secrets"] = [s["name"] for s in setup["setupTask"]["secrets"]]
        insights = setup["performanceCountersSettings"]["appInsightsReference"]
        insights["instrumentationKey"] = "hidden"
    return found


def test_the_hands_on_is_a_spec_that_another_provider_can_read_too() -> None:
    spec = valid(taken(HANDS_ON, FIRST))

    assert spec.command == (
        "python",
        "${mounts.scripts}/chainer/train_mnist.py",
        "-g",
        "-o",
        "${outputs.model}",
    )
    assert (spec.launch, spec.cluster.nodes.max, str(spec.cluster.capacity)) == ("mpi", 2, "spot")
    assert spec.container.image == "batchaitraining/chainermn:openMPI"


@pytest.mark.parametrize("name", RECIPES)
def test_no_secret_of_a_file_is_imported(name: str) -> None:
    cluster = CLUSTERS["fixed, with all there is"]
    values = re.findall(r"the-[a-z-]+", json.dumps([RECIPES[name], cluster]))

    found = taken(RECIPES[name], cluster)

    shown = " ".join([found.spec, found.profile, *found.notes])
    assert [value for value in (KEY, KEY.replace("b", "c"), *values) if value in shown] == []


def test_a_secret_in_clear_is_told_with_its_place_and_the_variable_to_set() -> None:
    notes = taken(HANDS_ON).notes

    assert any(
        "azureBlobFileSystems[0].credentials.accountKey" in note
        and "AZURE_BATCHAI_STORAGE_KEY" in note
        for note in notes
    )


@pytest.mark.parametrize(
    "where,text",
    [
        ("customToolkitSettings", f"run --key {KEY}"),
        ("jobPreparation", "mount -t cifs //s/x /mnt -o username=u,password=hunter2abc"),
    ],
)
def test_a_secret_in_the_middle_of_a_command_is_taken_out_and_told(where: str, text: str) -> None:
    file = job({"customToolkitSettings": {"commandLine": "true"}})
    file["properties"][where] = {"commandLine": text}

    found = taken(file)

    shown = " ".join([found.spec, found.profile, *found.notes])
    assert KEY not in shown and "hunter2abc" not in shown
    assert any("would contain a secret" in note for note in found.notes)


def test_a_secret_is_removed_wherever_it_occurs() -> None:
    secrets = [{"name": "HF_TOKEN", "value": "sesame-open"}]
    settings = {"customToolkitSettings": {"commandLine": "login --with sesame-open"}}

    found = taken(job(settings, secrets=secrets))

    assert "sesame-open" not in " ".join([found.spec, found.profile, *found.notes])
    assert valid(found).command == ("login", "--with", "REMOVED")


def test_a_variable_that_is_a_secret_becomes_one() -> None:
    env = [{"name": "AZURE_STORAGE_KEY", "value": "abcdefg"}, {"name": "EPOCHS", "value": "2"}]

    found = taken(job({"customToolkitSettings": {"commandLine": "true"}}, environmentVariables=env))

    spec = valid(found)
    assert (dict(spec.env), list(spec.secrets)) == ({"EPOCHS": "2"}, ["AZURE_STORAGE_KEY"])
    assert "abcdefg" not in found.spec + found.profile


def test_lost_settings_are_named_in_the_spec_and_in_notes() -> None:
    file = job({"chainerSettings": {"pythonScriptFilePath": "a.py", "procesCount": 3}}, nodeCont=2)
    file["tags"] = {"a": "b"}

    found = taken(file)

    wanted = [
        "job.json: properties.chainerSettings.procesCount",
        "job.json: properties.nodeCont",
        "job.json: tags",
    ]
    assert [w for w in wanted if not any(w in note for note in found.notes)] == []
    assert [note for note in found.notes if f"# {note}\n" not in found.spec] == []


def test_a_lost_setting_is_named_with_its_file() -> None:
    lost = {"bogus": 1}
    machines = {"vmSize": "STANDARD_D2", "userAccountSettings": {"adminUserName": "u"}, **lost}

    found = taken(
        job({"customToolkitSettings": {"commandLine": "true"}}, **lost), {"properties": machines}
    )

    assert [note for note in found.notes if "bogus" in note] == [
        f"not imported: {name}: properties.bogus: Batch AI has no such key"
        for name in ("cluster.json", "job.json")
    ]


def test_an_unknown_key_of_a_secret_is_named() -> None:
    secret = {"name": "KEY", "value": "v", "bogus": 1}

    notes = taken(job({"customToolkitSettings": {"commandLine": "true"}}, secrets=[secret])).notes

    assert "not imported: job.json: properties.secrets[0].bogus: Batch AI has no such key" in notes


WHOLE_CLUSTER: dict[str, Any] = {
    "vmSize": "STANDARD_D2",
    "scaleSettings": {"manual": {"targetNodeCount": 1}, "autoScale": {"maximumNodeCount": 1}},
    "virtualMachineConfiguration": {"imageReference": {"publisher": "a"}},
    "nodeSetup": {
        "setupTask": {
            "commandLine": "true",
            "environmentVariables": [{"name": "A", "value": "b"}],
            "secrets": [{"name": "C", "valueSecretReference": {"sourceVault": {"id": "v"}}}],
        },
        "performanceCountersSettings": {
            "appInsightsReference": {
                "component": {"id": "i"},
                "instrumentationKeySecretReference": {"sourceVault": {"id": "v"}},
            }
        },
    },
    "userAccountSettings": {"adminUserName": "u"},
    "subnet": {"id": "s"},
}


def objects(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all objects in *value*, each with its path."""
    if isinstance(value, dict):
        yield path, value
        for key, inner in value.items():
            yield from objects(inner, f"{path}.{key}")
    for number, inner in enumerate(value if isinstance(value, list) else ()):
        yield from objects(inner, f"{path}[{number}]")


@pytest.mark.parametrize("path", [path for path, _ in objects(WHOLE_CLUSTER, "properties")])
def test_an_unknown_key_of_any_object_of_a_cluster_is_named(path: str) -> None:
    cluster = {"properties": copy.deepcopy(WHOLE_CLUSTER)}
    dict(objects(cluster["properties"], "properties"))[path]["bogus"] = 1

    notes = taken(job({"customToolkitSettings": {"commandLine": "true"}}), cluster).notes

    assert f"not imported: cluster.json: {path}.bogus: Batch AI has no such key" in notes


def test_a_value_that_is_not_carried_is_not_shown() -> None:
    found = taken(job({"customToolkitSettings": {"commandLine": "true"}}, acountKey="sesame-open"))

    assert "sesame-open" not in " ".join([found.spec, found.profile, *found.notes])


def test_a_full_width_space_is_told_with_line_and_column_and_read_as_a_space() -> None:
    text = json.dumps(HANDS_ON, indent=2).replace('  "processCount"', ' \u3000"processCount"')

    found = PROVIDER.imports(ForeignFile("job.json", text), None)

    line = next(n for n, row in enumerate(text.split("\n"), 1) if "\u3000" in row)
    column = text.split("\n")[line - 1].index("\u3000") + 1
    assert f"job.json:{line}:{column}: a full-width space (U+3000); read as a space" in found.notes
    assert valid(found).cluster.nodes.max == 2


def test_a_full_width_space_in_a_text_stays() -> None:
    env = [{"name": "GREETING", "value": "a\u3000b"}]
    file = job({"customToolkitSettings": {"commandLine": "true"}}, environmentVariables=env)

    found = PROVIDER.imports(ForeignFile("j.json", json.dumps(file, ensure_ascii=False)), None)

    assert valid(found).env["GREETING"] == "a\u3000b"


@pytest.mark.parametrize(
    "text,where",
    [("{\n  'a': 1}", "job.json:2:3:"), ("[]", "job.json:"), ('{"properties": 1}', "job.json:")],
)
def test_a_file_of_another_format_is_refused_with_its_line(text: str, where: str) -> None:
    with pytest.raises(UsageError) as told:
        PROVIDER.imports(ForeignFile("job.json", text), None)

    assert told.value.message.startswith(where) and told.value.hint


@pytest.mark.parametrize("value", ["x", 1, None, [], {}, [1], {"a": 1}, True])
@pytest.mark.parametrize("key", [*HANDS_ON["properties"], "cluster", "secrets", "constraints"])
def test_values_of_any_kind_are_told_and_never_end_it(key: str, value: Any) -> None:
    file = copy.deepcopy(HANDS_ON)
    file["properties"][key] = value

    assert valid(taken(file)).provider == "azure-batch-ai"


def test_the_official_example_is_planned_as_it_was() -> None:
    if not batch_ai_bodies.EXAMPLES.exists():
        pytest.skip("the official examples are not at hand")
    examples = {
        name: json.loads((batch_ai_bodies.EXAMPLES / f"{name}.json").read_text())["parameters"][
            "parameters"
        ]
        for name in ("PutJob", "PutCluster")
    }

    made = bodies(taken(examples["PutJob"], examples["PutCluster"]))

    original = {k: v for k, v in examples["PutJob"]["properties"].items() if k != "cluster"}
    assert (
        normal({**made["job"], "mountVolumes": {}})["customToolkitSettings"]
        == (original["customToolkitSettings"])
    )
    assert made["job"]["inputDirectories"] == original["inputDirectories"]
    assert made["job"]["outputDirectories"] == original["outputDirectories"]
    assert set(made["cluster"]) == set(examples["PutCluster"]["properties"])


def test_the_checks_of_the_core_find_nothing_in_a_taken_profile() -> None:
    found = taken(RECIPES["secrets"], CLUSTERS["fixed, with all there is"])

    read = jobs_file.read("runspec-profile.yaml", found.profile.encode())
    assert read.document is not None
    value, problems = profiles.read(read.document.value)
    assert value is not None and problems == []
    options, wrong = validate.parse_model(PROVIDER.options_model, value.providers["azure-batch-ai"])
    assert wrong == [] and options is not None


def test_files_that_were_swapped_are_refused() -> None:
    with pytest.raises(UsageError, match=r"job\.json is the file of a cluster") as told:
        taken(FIRST, HANDS_ON)

    assert told.value.hint == "swap the two files"


def test_the_file_of_a_cluster_alone_is_refused() -> None:
    with pytest.raises(UsageError, match=r"job\.json is the file of a cluster") as told:
        taken(FIRST)

    assert told.value.hint and "--cluster" in told.value.hint


def test_a_second_job_is_no_cluster() -> None:
    with pytest.raises(UsageError, match=r"cluster\.json is the file of a job"):
        taken(HANDS_ON, HANDS_ON)


def test_text_that_looks_like_a_placeholder_means_the_same_after_an_import() -> None:
    line = "echo '${a.b}' ${A:-b.c}"
    found = taken(
        job(
            {"customToolkitSettings": {"commandLine": line}},
            environmentVariables=[{"name": "A", "value": "${mounts.x}"}],
        )
    )

    spec = valid(found)

    assert (placeholders.argv(spec)[-1].strip(), spec.env["A"]) == (line, "${mounts.x}")


GAPS: dict[str, Any] = {
    "nodeCount": 2,
    "cluster": {
        "id": "/subscriptions/<subscription id>/resourceGroups/<group>/providers/Microsoft.BatchAI"
        "/workspaces/<workspace>/clusters/nc6"
    },
    "customToolkitSettings": {"commandLine": "echo"},
    "stdOutErrPathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs",
    "mountVolumes": {
        "azureFileShares": [
            {
                "azureFileUrl": "https://<storage account>.file.core.windows.net/logs",
                "relativeMountPath": "logs",
                "fileMode": "",
            }
        ],
        "azureBlobFileSystems": [
            {
                "accountName": "<storage account>",
                "containerName": "<container>",
                "credentials": {"accountKey": "<storage key>"},
                "relativeMountPath": "scripts",
                "mountOptions": "",
            }
        ],
    },
    "outputDirectories": [
        {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_JOB_MOUNT_ROOT/logs", "pathSuffix": ""}
    ],
    "containerSettings": {"imageSourceRegistry": {"image": "a:1", "serverUrl": ""}},
}


def options_of(text: str) -> tuple[Any, list[Any]]:
    read = jobs_file.read("runspec-profile.yaml", text.encode())
    assert read.document is not None
    value, problems = profiles.read(read.document.value)
    assert value is not None, problems
    return validate.parse_model(PROVIDER.options_model, value.providers["azure-batch-ai"])


def test_an_empty_text_counts_as_missing() -> None:
    found = taken({"properties": GAPS})

    options, wrong = options_of(found.profile)

    assert wrong == [] and options is not None
    assert '""' not in found.profile + found.spec


def test_a_placeholder_is_asked_for_and_neither_a_value_nor_a_secret() -> None:
    found = taken({"properties": GAPS})

    options, _ = options_of(found.profile)

    assert options is not None and (options.subscription, options.cluster) == (None, "nc6")
    assert options.shared["scripts"].account is None
    assert not any("in plain text" in note for note in found.notes)
    assert any("profile.shared.scripts.container" in note for note in found.notes)
    (asked,) = [note for note in found.notes if note.startswith("add to the profile")]
    names = ("subscription", "location", "storage_account", "resource_group", "workspace")
    assert all(name in asked for name in names)


def test_the_lines_to_fill_in_make_a_profile_as_soon_as_they_are_no_comments() -> None:
    found = taken({"properties": GAPS})
    head, _, lines = found.profile.partition("    # Add before you apply:\n")

    options, wrong = options_of(head + lines.replace("# ", ""))

    assert wrong == [] and options is not None
    assert (options.location, options.storage_account) == ("eastus", "mystorage")
    assert options.resource_group == "mygroup"
