"""The contract of `Provider` as tests; `ProviderContract` also contains the tests of its client."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import ValidationError

from runspec_jobs.load import registry
from runspec_jobs.plan import diff, model
from runspec_jobs.provider import (
    Facts,
    Options,
    Problem,
    Provider,
    Spec,
    Step,
    SupportsDiscovery,
    SupportsDoctor,
    payload,
)
from runspec_jobs.spec.field_marks import find_unmarked
from runspec_jobs.spec.types import NAME
from runspec_jobs.testing import promises
from runspec_jobs.testing.contracts.read_requests import ReadingContract
from runspec_jobs.testing.other_process import plan_elsewhere
from runspec_jobs.testing.sealed import seal
from runspec_jobs.testing.strategies import specs
from runspec_jobs.testing.world import EXAMPLES, SECRET, World

# Packages that talk to a service; they may be imported only in `connect`.
SDKS = frozenset(
    "aiohttp azure boto3 botocore docker google grpc httpx kubernetes moto msal msrest obstore "
    "oss2 paramiko requests s3fs urllib3".split()
)
NETWORK = frozenset(
    "asyncio ftplib http.client smtplib socket socketserver ssl telnetlib urllib.request "
    "xmlrpc.client".split()
)
EXAMPLES_DRAWN = 25
LOAD_EXTENSIONS = """\
import sys
sys.path.insert(0, sys.argv[1])
from runspec_agent import extensions
for table in (extensions.PREEMPTION, extensions.SECRETS, extensions.STORES):
    for name in table:
        extensions.load(table, name, "extension")
"""

# Fields of a spec that a provider must either carry out or refuse, by name.
ASKS: dict[str, dict[str, Any]] = {
    "cpus": {"cluster": {"cpus": 4096}},
    "memory": {"cluster": {"memory": "900000GiB"}},
    "disk": {"cluster": {"disk": "900000GiB"}},
    "gpus": {"cluster": {"gpus": 64}},
    "many nodes": {"cluster": {"nodes": 3}},
    "elastic nodes": {"cluster": {"nodes": {"min": 1, "max": 3}}},
    "spot": {"cluster": {"capacity": "spot"}},
    "image": {"container": {"image": "localhost/runspec-testing:1"}},
    "requirements": {"container": {"requirements": ["numpy==2.0.0"]}},
    "store": {"mounts": [{"name": "data", "source": "store://sets/data", "target": "/job/data"}]},
    "shared": {"mounts": [{"name": "all", "source": "shared://all", "target": "/job/all"}]},
    "output": {"outputs": [{"name": "made", "path": "/job/made"}]},
    "env": {"env": {"GREETING": "hello"}},
    "secret": {"secrets": {"TOKEN": "token"}},
    "mpi": {"launch": "mpi"},
    "horovod": {"launch": "horovod"},
    "torchrun": {"launch": "torchrun"},
    "srun": {"launch": "srun"},
    "sweep": {"sweep": {"lr": [0.1, 0.2]}},
    "attempts": {"retry": {"attempts": 7}},
    "limits": {"ulimits": {"nofile": 1024}},
    "timeout": {"timeout": "47m"},
}

drawn = settings(
    max_examples=EXAMPLES_DRAWN,
    derandomize=True,  # the same examples are drawn in every run
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=(Phase.generate, Phase.shrink),
)


class ProviderContract(ReadingContract):
    """All tests of the contract: subclass it in a test module, and define the fixture `world`."""

    @pytest.fixture
    def world(self) -> World:
        raise NotImplementedError(
            "define a fixture `world` that returns a runspec_jobs.testing.World"
        )

    @pytest.fixture(autouse=True)
    def canary(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """Return the value of every secret in these tests, which must never be shown."""
        value = "canary-5f1d0c-in-a-coal-mine"
        monkeypatch.setenv(SECRET, value)
        return value

    @pytest.fixture(params=EXAMPLES)
    def spec(self, request: pytest.FixtureRequest, world: World) -> Spec:
        """Return each example that the provider does not refuse."""
        if request.param in world.refuses:
            pytest.skip(f"{world.provider.name} says that it cannot run '{request.param}'")
        return world.example(request.param)

    # Its name and its settings.

    def test_the_name_of_the_provider_is_valid_and_that_of_its_entry_point(
        self, world: World
    ) -> None:
        name = world.provider.name

        assert re.fullmatch(NAME, name)
        assert name in registry.list_installed(), "is its package installed, with its entry point?"
        assert type(registry.load(name)) is type(world.provider)

    def test_extensions_of_the_agent_need_the_standard_library_alone(
        self, world: World, tmp_path: Path
    ) -> None:
        point = registry.list_installed()[world.provider.name]
        if point.dist is None or not payload.list_extensions(point.dist.name):
            pytest.skip("it adds nothing to the agent")
        agent = tmp_path / "agent.pyz"
        agent.write_bytes(payload.pack_agent(point.dist.name))

        loaded = subprocess.run(
            [sys.executable, "-IS", "-c", LOAD_EXTENSIONS, str(agent)],
            check=False,
            stderr=subprocess.PIPE,
            text=True,
        )

        assert loaded.stderr == ""

    def test_its_settings_all_have_defaults(self, world: World) -> None:
        assert issubclass(world.provider.options_model, Options)
        world.provider.options_model.model_validate({})

    def test_its_settings_are_frozen(self, world: World) -> None:
        options = world.provider.options_model()

        with pytest.raises(ValidationError, match="frozen"):
            options.secrets = {}

    def test_its_settings_know_every_key(self, world: World) -> None:
        with pytest.raises(ValidationError, match="extra"):
            world.provider.options_model.model_validate({"no_such_setting": "1"})

    def test_its_settings_come_back_equal_from_the_record_of_a_run(
        self, world: World, spec: Spec
    ) -> None:
        options = world.facts(spec).options

        text = json.dumps(options.model_dump(mode="json"))

        assert world.provider.options_model.model_validate(json.loads(text)) == options

    def test_its_settings_can_be_shown_to_editors(self, world: World) -> None:
        schema = world.provider.options_model.model_json_schema()

        assert [k for k, v in schema["properties"].items() if not v.get("description")] == []

    def test_its_settings_say_who_may_set_them(self, world: World) -> None:
        """Each field is `User[...]` or `Anyone[...]`, those of models within it too."""
        assert find_unmarked(world.provider.options_model) == []

    def test_discovery_returns_json_and_needs_no_credentials(
        self, world: World, spec: Spec, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not isinstance(world.provider, SupportsDiscovery):
            pytest.skip("it has no discovery")
        for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_", "GOOGLE_"))]:
            monkeypatch.delenv(name)

        survey = world.facts(spec).survey

        assert json.loads(json.dumps(survey, allow_nan=False)) == survey

    def test_failed_checks_of_doctor_have_a_hint(self, world: World) -> None:
        if not isinstance(world.provider, SupportsDoctor):
            pytest.skip("it has no doctor")

        findings = list(world.provider.examine(world.facts(world.example("single")).options))

        assert [f for f in findings if not f.what or not (f.ok or f.hint)] == []

    # How it checks a spec.

    @pytest.mark.parametrize("complete", [True, False], ids=["all facts", "the spec alone"])
    def test_a_supported_spec_has_no_error(self, world: World, spec: Spec, complete: bool) -> None:
        problems = list_problems(world.provider, spec, make_facts(world, spec, complete))

        assert [p for p in problems if p.severity == "error"] == []

    def test_an_unsupported_spec_is_an_error_with_a_hint(self, world: World) -> None:
        for name in world.refuses:
            spec = world.example(name)

            problems = list_problems(world.provider, spec, world.facts(spec))

            assert any(p.severity == "error" for p in problems), f"it runs '{name}' after all"
            promises.assert_problems_are_complete(problems, spec, world.provider.options_model)

    @pytest.mark.parametrize("name", ASKS)
    def test_no_field_is_ignored_silently(self, world: World, name: str) -> None:
        plain, asking = world.spec(command=["true"]), world.spec(command=["true"], **ASKS[name])

        heard = check_and_plan(world, plain) != check_and_plan(world, asking)

        assert heard or name in world.overlooks, f"the provider ignores {ASKS[name]}"
        assert not (heard and name in world.overlooks), (
            "the plan depends on it: remove it from overlooks"
        )

    @pytest.mark.parametrize("nodes", [2, {"min": 1, "max": 2}], ids=["fixed", "elastic"])
    @pytest.mark.parametrize("launch", ["none", "mpi"])
    def test_the_field_from_of_an_output_changes_the_plan_or_is_refused(
        self, world: World, launch: str, nodes: Any
    ) -> None:
        """The default is one of the two values; the other value gives another plan, or is refused."""

        def plan_of(**how: str) -> Any:
            output = {"name": "made", "path": "/job/made", **how}
            fields = {"cluster": {"nodes": nodes}, "launch": launch, "outputs": [output]}
            return check_and_plan(world, world.spec(command=["train"], **fields))[1]

        usual = plan_of()
        if usual is None:
            pytest.skip("it says that it cannot run such a job")

        same = {which: plan_of(**{"from": which}) == usual for which in ("first", "all")}

        elastic = nodes != 2
        assert same == {"first": elastic, "all": not elastic}

    @pytest.mark.parametrize("complete", [True, False], ids=["all facts", "the spec alone"])
    def test_check_accepts_any_valid_spec(self, world: World, complete: bool) -> None:
        @drawn
        @given(specs(world.provider.name))
        def holds(spec: Spec) -> None:
            problems = list_problems(world.provider, spec, make_facts(world, spec, complete))

            promises.assert_problems_are_complete(problems, spec, world.provider.options_model)

        holds()

    def test_whatever_spec_it_accepts_has_a_plan_that_keeps_every_promise(
        self, world: World
    ) -> None:
        @drawn
        @given(specs(world.provider.name))
        def holds(spec: Spec) -> None:
            facts = world.facts(spec)
            if not any(p.severity == "error" for p in list_problems(world.provider, spec, facts)):
                plan = make_plan(world.provider, spec, facts)

                promises.assert_all_of_plan(plan.steps, plan.run, spec, facts)
                assert make_plan(world.provider, spec, facts) == plan

        holds()

    # What it plans.

    def test_equal_arguments_give_equal_plans(self, world: World, spec: Spec) -> None:
        first = format_plan(make_plan(world.provider, spec, world.facts(spec)))

        # Copied, so that a cache by identity does not hide a difference.
        again = format_plan(make_plan(world.provider, copy.deepcopy(spec), world.facts(spec)))

        assert first == again

    def test_another_process_makes_the_same_plans(self, world: World, tmp_path: Path) -> None:
        """It has another hash seed, home folder, working directory and environment, and plans later."""
        jobs = [(spec, world.facts(spec)) for spec in list_accepted(world)]

        elsewhere = plan_elsewhere(world, tmp_path, *jobs)

        expected = [format_plan(make_plan(world.provider, *job)) for job in jobs]
        assert elsewhere["plans"] == expected

    def test_validating_and_planning_import_no_sdk_and_no_network(
        self, world: World, tmp_path: Path
    ) -> None:
        spec = list_accepted(world)[0]

        modules = set(plan_elsewhere(world, tmp_path, (spec, world.facts(spec)))["modules"])

        assert {name.partition(".")[0] for name in modules} & SDKS == set()
        assert modules & NETWORK == set()

    def test_checking_and_planning_reach_for_nothing_outside(
        self, world: World, spec: Spec
    ) -> None:
        """They use no clock, random numbers, disk, environment, network or other programs."""
        provider, facts = world.provider, world.facts(spec)
        list(provider.check(spec, facts))
        provider.plan(spec, "job-000001", facts)

        # After a first round, which may import modules and so read files.
        with seal(type(provider).__module__.partition(".")[0]) as touched:
            list(provider.check(spec, facts))
            provider.plan(spec, "job-000001", facts)

        assert touched == []

    def test_checking_and_planning_change_no_argument(self, world: World, spec: Spec) -> None:
        facts = world.facts(spec)
        before = copy.deepcopy((spec, facts))

        list(world.provider.check(spec, facts))
        world.provider.plan(spec, "job-000001", facts)

        assert (spec, facts) == before

    def test_params_are_json_values(self, world: World, spec: Spec) -> None:
        promises.assert_values_are_json(make_steps(world, spec))

    def test_steps_have_ids_and_titles_of_their_own(self, world: World, spec: Spec) -> None:
        promises.assert_ids_are_unique(make_steps(world, spec))
        promises.assert_titles_exist(make_steps(world, spec))

    def test_refs_point_to_earlier_steps(self, world: World, spec: Spec) -> None:
        promises.assert_refs_point_back(make_steps(world, spec))

    def test_folders_come_from_the_mounts(self, world: World, spec: Spec) -> None:
        promises.assert_folders_of_spec(make_steps(world, spec), spec)

    def test_steps_of_a_run_contain_its_id(self, world: World, spec: Spec) -> None:
        promises.run_steps_hold_the_run(make_steps(world, spec, "job-abc234"), "job-abc234")

    def test_shared_steps_do_not_depend_on_the_run(self, world: World, spec: Spec) -> None:
        steps, other = (
            make_steps(world, spec, "job-abc234"),
            make_steps(world, spec, "other-zzzzzz"),
        )

        promises.assert_site_steps_are_shared(steps, other)

    def test_two_runs_of_a_spec_differ_in_the_run_id_alone(self, world: World, spec: Spec) -> None:
        facts = world.facts(spec)
        plan = model.make_plan(world.provider, spec, "abc234", facts)

        other = model.make_plan(world.provider, spec, "zzzzzz", facts)

        assert plan.digest == other.digest
        assert diff.find_differences(plan, other) == []

    def test_a_secret_is_only_ever_named(self, world: World, spec: Spec, canary: str) -> None:
        facts = world.facts(spec)
        plan = make_plan(world.provider, spec, facts)

        promises.assert_secrets_are_marks(plan.steps, spec, facts)
        assert canary not in format_plan(plan)
        assert canary not in str(list(world.provider.check(spec, facts)))

    def test_a_plan_comes_back_equal_from_the_record_of_a_run(
        self, world: World, spec: Spec
    ) -> None:
        plan = make_plan(world.provider, spec, world.facts(spec))

        there = model.read_plan(json.loads(json.dumps(model.write_plan(plan))))

        assert there == plan


def make_facts(world: World, spec: Spec, complete: bool) -> Facts:
    """Return the facts for apply and plan if *complete*, or those for `runspec validate`."""
    if complete:
        return world.facts(spec)
    return Facts(world.provider.options_model(), complete=False)


def list_problems(provider: Provider, spec: Spec, facts: Facts) -> list[Problem]:
    return list(provider.check(spec, facts))


def make_plan(provider: Provider, spec: Spec, facts: Facts) -> model.Plan:
    return model.make_plan(provider, spec, "000001", facts)


def make_steps(world: World, spec: Spec, run: str = "job-000001") -> tuple[Step, ...]:
    return tuple(world.provider.plan(spec, run, world.facts(spec)))


def format_plan(plan: model.Plan) -> str:
    return model.format_canonical(model.write_plan(plan))


def list_accepted(world: World) -> list[Spec]:
    return [world.example(name) for name in EXAMPLES if name not in world.refuses]


def check_and_plan(world: World, spec: Spec) -> tuple[Any, ...]:
    """Return the problems of *spec*, and its plan, or None if a problem is an error."""
    facts = world.facts(spec)
    problems = list_problems(world.provider, spec, facts)
    if any(problem.severity == "error" for problem in problems):
        return problems, None
    return problems, list(world.provider.plan(spec, "job-000001", facts))
