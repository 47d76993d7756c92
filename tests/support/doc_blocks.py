"""The blocks of the pages, and what is done with each block of shell commands: none is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tests.support.root import ROOT

PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md"))
)
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(runspec [^`\n]+)`")


class Block(NamedTuple):
    """A fenced block of a page; its name is the page and the first words of its first command."""

    page: str
    language: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}: {self.lines()[0]}"[:75].strip()

    def lines(self) -> list[str]:
        """Return the commands, each on one line, without comments."""
        whole = self.text.replace("\\\n", " ")
        bare = (re.sub(r"(^|\s)#.*", "", line).strip() for line in whole.splitlines())
        return [re.sub(r"\s{2,}", " ", line) for line in bare if line]


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, without their indent."""
    for indent, language, text in FENCE.findall((ROOT / page).read_text()):
        yield Block(page, language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))


def inline(page: str) -> list[str]:
    """Return the commands of runspec that a page has in its sentences and tables."""
    return INLINE.findall(FENCE.sub("", (ROOT / page).read_text()).replace("\\|", "|"))


SHELL = [block for page in PAGES for block in blocks(page) if block.language == "sh"]
# tests/e2e/test_doc_commands.py runs these, line by line, on this machine or against an emulator.
RUN = {
    "README.md: .venv/bin/runspec status mnist-chainer",
    "README.md: .venv/bin/runspec rehearse specs/mnist-chainer.yaml --provider a",
    "README.md: runspec init train.py",
    "docs/adopt.md: runspec list --remote",
    "docs/aws-batch.md: pip install 'runspec-jobs[aws]'",
    "docs/azure-batch.md: pip install 'runspec-jobs[azure]'",
    "docs/chains.md: runspec apply mnist.yaml --until search",
    "docs/chains.md: runspec validate mnist.yaml",
    "docs/elastic-costs.md: runspec simulate job.yaml --prices docs/traces/dynam",
    "docs/doctor.md: runspec doctor job.yaml",
    "docs/exit-codes.md: runspec explain 75",
    "docs/init.md: runspec init train.py",
    "docs/json.md: runspec status mnist --json | jq -r .state",
    "docs/logs.md: runspec logs job",
    "docs/machines.md: runspec status mnist",
    "docs/networks.md: export AWS_CA_BUNDLE=/etc/ssl/certs/company.pem",
    "docs/params.md: runspec apply job.yaml --param size=13b --param rate=0.01",
    "docs/profile.md: runspec init --provider aws-batch",
    "docs/profile.md: runspec trust",
    "docs/profile.md: runspec trust /home/me/checkout/runspec-profile.yaml",
    "docs/report.md: runspec report search",
    "docs/report.md: runspec report --points specs/scaling/resnet50-imagenet.jso",
    "docs/simulate.md: runspec simulate specs/elastic-digits.yaml --prices docs/",
    "docs/slurm.md: runspec init --provider slurm",
    "docs/troubleshooting.md: runspec explain 75",
    "docs/troubleshooting.md: runspec status job",
}
RECIPE = "tests/unit/runspec_parallelcluster/test_recipe.py"
WALK = f"{RECIPE}::test_a_spec_of_the_walk_through_is_planned"
FIRST_HOUR = "tests/e2e/test_first_hour.py"
PROBES = "test_probes_confirm_true_assumptions_and_leave_nothing"


class Checked(NamedTuple):
    """Why a block is not run as it stands, and a test that does the same, if there is one."""

    why: str
    test: str | None


# The program, options and files of these commands are checked, as in all other blocks.
CHECKED: Mapping[str, Checked] = {
    "docs/kubernetes.md: pip install 'runspec-jobs[kubernetes]'": Checked(
        "it needs a cluster",
        "tests/e2e/test_kubernetes.py::test_mounts_and_outputs_go_through_the_store",
    ),
    "docs/setup.md: pip install 'runspec-jobs[aws]'": Checked(
        "it needs an empty account",
        "tests/e2e/test_aws_setup.py::test_from_an_empty_account_two_commands_lead_to_a_trained_model",
    ),
    "docs/setup.md: runspec policy --setup aws-batch --set region=eu-central-1": Checked(
        "what it prints is compared with what a setup calls",
        "tests/e2e/test_aws_setup.py::test_every_call_of_setup_and_undo_is_in_the_policy_of_setup",
    ),
    "docs/setup.md: runspec setup aws-batch --set region=eu-central-1 --export s": Checked(
        "it needs an account",
        "tests/e2e/test_aws_setup.py::test_setup_finds_what_its_template_made_and_deletes_nothing_of_it",
    ),
    "docs/setup.md: pip install 'runspec-jobs[azure]'": Checked(
        "it needs an empty subscription",
        "tests/e2e/test_azure_setup.py::test_from_an_empty_subscription_two_commands_lead_to_a_trained_model",
    ),
    "docs/setup.md: runspec destroy --all": Checked(
        "it needs an account that was set up",
        "tests/e2e/test_aws_setup.py::test_from_an_empty_account_two_commands_lead_to_a_trained_model",
    ),
    "docs/elastic.md: runspec resize mnist 8": Checked(
        "it needs an elastic run that is alive",
        "tests/e2e/test_elastic_pool.py::test_nodes_that_are_given_back_cost_no_step_and_come_when_they_are_asked_for",
    ),
    "docs/elastic.md: runspec resize training 8": Checked(
        "it needs an elastic run that is alive",
        "tests/e2e/test_slurm_elastic.py::test_nodes_that_are_given_back_are_free_until_they_are_asked_for",
    ),
    "docs/resume.md: runspec apply job.yaml --resume": Checked(
        "it needs a run that was cancelled or has failed",
        "tests/e2e/test_resume.py::test_a_cancelled_job_goes_on_from_its_last_save_and_repeats_no_step",
    ),
    "docs/resume.md: runspec apply job.yaml --from bert-7k2m9p": Checked(
        "it needs a run that was cancelled or has failed",
        "tests/unit/runspec_jobs/engine/test_resume.py::test_a_run_goes_on_from_a_run_that_is_named_once",
    ),
    "docs/resume.md: runspec outputs bert": Checked(
        "it needs a run that was cancelled or has failed",
        "tests/unit/runspec_jobs/cli/test_fetch.py::test_outputs_lists_the_files_of_each_save_without_reading_them",
    ),
    "docs/resume.md: runspec fetch search out --best": Checked(
        "it needs a run that was cancelled or has failed",
        "tests/unit/runspec_jobs/cli/test_fetch.py::test_fetch_copies_the_files_of_the_best_task_that_match_a_pattern",
    ),
    "docs/import.md: runspec import definition.json --with submit.json --to conv": Checked(
        "it needs a definition, and an account to run it on",
        "tests/e2e/test_imports.py::test_an_imported_definition_runs_on_the_service_as_it_did",
    ),
    "docs/import.md: aws batch describe-job-definitions --job-definition-name tr": Checked(
        "it needs an account", None
    ),
    "docs/slurm.md: runspec import train.sbatch --to .": Checked(
        "it needs a batch script, and a Slurm to run it on",
        "tests/e2e/test_slurm_import.py::test_an_import_does_what_its_script_does",
    ),
    "docs/machines.md: runspec prices --update": Checked(
        "it reads the price lists of AWS and Azure",
        "tests/unit/runspec_jobs/cli/test_prices.py::"
        "test_price_lists_are_shown_with_date_and_source",
    ),
    "README.md: tools/setup": Checked(
        "it would make the environment again in which the tests run",
        f"{FIRST_HOUR}::test_the_first_spec_of_the_readme_runs_as_it_stands",
    ),
    "docs/install.md: tools/setup": Checked(
        "it would make the environment again in which the tests run",
        f"{FIRST_HOUR}::test_the_first_spec_of_the_readme_runs_as_it_stands",
    ),
    **{
        f"docs/tutorial.md: {line}": Checked(
            "it is a part of the tutorial", f"{FIRST_HOUR}::test_the_tutorial_runs_as_it_is_written"
        )
        for line in (
            "tools/setup",
            "runspec init train.py",
            "runspec status fit",
            "runspec validate job.yaml",
            "runspec rehearse job.yaml --provider aws-batch",
        )
    },
    "README.md: tools/setup && .venv/bin/runspec apply specs/mnist-chainer.yaml": Checked(
        "it would make the environment again in which the tests run",
        "tests/e2e/test_main_job.py::test_both_nodes_worked_in_folders_of_their_own",
    ),
    'docs/horovod.md: export PATH="$(specs/horovod/environment.sh)/bin:$PATH"': Checked(
        "its first line compiles for minutes",
        "tests/e2e/test_horovod_trains.py::test_shards_a_smoke_test_training_and_evaluation_are_one_chain",
    ),
    "docs/upgrades.md: git pull && tools/setup": Checked(
        "it would change the checkout in which the tests run",
        "tests/e2e/test_upgrades.py::test_a_run_on_slurm_goes_on_with_its_agent",
    ),
    "docs/install.md: pip install '.[local]'": Checked(
        "it installs from the package index",
        "tests/unit/test_house.py::test_the_wheel_holds_the_packages_and_nothing_else",
    ),
    "docs/provider.md: pip install -e 'runspec-tiny[test]'": Checked(
        "it installs from the package index",
        "tests/e2e/test_provider_guide.py::test_a_job_is_planned_and_run",
    ),
    "docs/provider.md: pip install -e runspec-tinydb": Checked(
        "it installs from the package index",
        "tests/e2e/test_store_guide.py::test_a_job_with_a_store_of_its_own_reads_mounts_and_saves_outputs",
    ),
    "docs/azure-batch.md: az role assignment create --assignee-object-id ... --r": Checked(
        "it changes an account", None
    ),
    "docs/azure-batch-ai.md: runspec import job.json --cluster cluster.json --to": Checked(
        "its files are those of a service that has ended",
        "tests/e2e/test_batchai_recipes.py::test_the_shape_of_a_recipe_runs_as_the_service_ran_it",
    ),
    "docs/unverified.md: runspec doctor aws-batch --probe": Checked(
        "it takes minutes", f"tests/e2e/test_aws_probes.py::{PROBES}"
    ),
    "docs/parallelcluster.md: runspec doctor parallelcluster": Checked(
        "a cluster takes minutes to make",
        "tests/e2e/test_parallelcluster.py"
        "::test_a_cluster_is_made_for_a_job_and_goes_when_nothing_needs_it",
    ),
    "docs/interactive.md: runspec shell --new job.yaml": Checked(
        "it needs a terminal",
        "tests/e2e/test_new_shell.py"
        "::test_a_new_shell_is_in_the_jobs_environment_and_the_job_ends_with_it",
    ),
    "docs/interactive.md: runspec apply --detach notebook.yaml": Checked(
        "its programs come from the package index",
        "tests/e2e/test_new_shell.py"
        "::test_the_examples_of_a_notebook_and_of_curves_answer_through_a_tunnel",
    ),
    **{
        f"docs/parallelcluster.md: {line}": Checked("it is a part of the walk-through", WALK)
        for line in (
            "pip install '.[local]'",
            "aws s3 mb s3://my-bucket",
            "cd specs/parallelcluster",
            "runspec apply bert.yaml",
            "runspec shell bert",
            "runspec apply translation.yaml",
            "runspec apply --detach notebook.yaml",
            "runspec fetch bert model",
            "runspec destroy notebook",
        )
    },
    "bench/README.md: .venv/bin/python -m bench": Checked("it measures for an hour", None),
}
