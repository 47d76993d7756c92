"""The options of the verbs that prepare this machine, and of runspec itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runspec_jobs.errors import UsageError
from runspec_jobs.options import suggestions
from runspec_jobs.options.declare import Options, argument, argument_or, flag, option
from runspec_jobs.options.shared import AS_JSON, OUTPUT_FORMAT, SPEC_HERE, exclusive


class DoctorOptions(Options):
    """Check this machine and your account for what would stop a job.

    With a job, doctor answers one question: will this job run? It exits with 0 if nothing that it
    could check stops the job. Of a chain, it checks each job; with PROVIDER, those that run there.

    Examples:
      runspec doctor aws-batch job.yaml
      runspec doctor aws-batch --probe

    More: runspec docs doctor
    """

    provider: str | None = argument_or(
        None,
        "PROVIDER",
        "check only this provider (default: local, and those of the profile)",
        complete=suggestions.providers,
    )
    file: Path | None = argument_or(
        None,
        "FILE",
        "the spec of a job, or a chain: check whether it will run (PROVIDER may be left out)",
        read=Path,
        complete=suggestions.specs,
    )
    node: bool = flag(
        "--node", help="also check from a node; this allocates a machine for a short time"
    )
    probe: bool = flag(
        "--probe",
        help="test, in your own account, what runspec assumes about the service "
        "(runspec docs unverified)",
    )
    only: str | None = option("--only", "ID,...", "with --probe: run only these probes")
    yes: bool = flag("--yes", help="with --probe: do not ask for confirmation")
    as_json: bool = AS_JSON

    def check(self) -> None:
        if (self.only or self.yes) and not self.probe:
            raise UsageError("--only and --yes can only be used with --probe")
        if self.probe and self.job is not None:
            raise UsageError("--probe takes no job", "runspec doctor PROVIDER --probe")

    @property
    def job(self) -> Path | None:
        """The spec of the job to check; the name of a file, or a path, may be typed in place of a provider."""
        typed = self.provider or ""
        if self.file is None and (Path(typed).suffix in (".yaml", ".yml", ".json") or "/" in typed):
            return Path(typed)
        return self.file

    @property
    def of(self) -> str | None:
        """The provider that was typed, if it was one."""
        return self.provider if self.job in (None, self.file) else None


class ExplainOptions(Options):
    """Explain an exit code, a state, a term, a field or a message.

    Examples:
      runspec explain 75
      runspec explain retry.spot_attempts

    More: runspec docs troubleshooting
    """

    asked: Sequence[str] = argument(
        "CODE|WORD...",
        "an exit code, a state, a term, a field of a spec, or words of a message",
        complete=suggestions.explained,
        several=True,
    )
    as_json: bool = AS_JSON


class DocsOptions(Options):
    """Show a page of the documentation, or list the pages.

    Examples:
      runspec docs tutorial
      runspec docs profile#trust

    More: runspec docs index
    """

    page: str | None = argument_or(
        None,
        "PAGE[#SECTION]",
        "the page, or one section of it (default: list the pages)",
        complete=suggestions.pages,
    )
    listed: bool = flag("--list", "-l", help="list the pages")
    as_json: bool = AS_JSON

    def check(self) -> None:
        exclusive({"PAGE": self.page is not None, "--list": self.listed})


class ProvidersOptions(Options):
    """List the providers.

    Examples:
      runspec providers
      runspec providers --json

    More: runspec docs provider
    """

    as_json: bool = AS_JSON


class SetupOptions(Options):
    """Make what your account lacks before its first job, and write the profile.

    Shows what it makes, and asks. What is there is used as it is.

    Examples:
      runspec setup aws-batch --set region=eu-central-1
      runspec setup aws-batch --undo

    More: runspec docs setup
    """

    provider: str = argument("PROVIDER", "the provider", complete=suggestions.providers)
    settings: Sequence[str] = option(
        "--set",
        "NAME=VALUE",
        "a setting of the profile, or of the setup (runspec docs setup); may be repeated",
        default=(),
        several=True,
    )
    export: Path | None = option(
        "--export",
        "FILE",
        "make nothing: write a template for somebody who may (CloudFormation, ARM)",
        read=Path,
    )
    undo: bool = flag("--undo", help="delete what setup has made, and nothing else")
    with_data: bool = flag(
        "--with-data", help="with --undo: also delete what jobs have stored there"
    )
    yes: bool = flag("--yes", "-y", help="do not ask")
    as_json: bool = AS_JSON

    def check(self) -> None:
        if self.with_data and not self.undo:
            raise UsageError("--with-data can only be used with --undo")
        exclusive({"--export": self.export is not None, "--undo": self.undo})
        if self.export is not None and self.as_json:
            raise UsageError("--json cannot be used with --export", "the file is JSON")


class PolicyOptions(Options):
    """Print the minimal permissions that a plan needs.

    Examples:
      runspec policy job.yaml
      runspec policy --job job.yaml

    More: runspec docs aws-batch
    """

    file: Path = SPEC_HERE
    of_job: bool = flag(
        "--job", help="print the permissions that the job itself needs, not those of its user"
    )
    of_doctor: bool = flag(
        "--doctor", help="print the permissions that `runspec doctor` needs to check the job"
    )
    of_setup: str | None = option(
        "--setup",
        "PROVIDER",
        "print the permissions that `runspec setup PROVIDER` and --undo need",
        complete=suggestions.providers,
    )
    settings: Sequence[str] = option(
        "--set",
        "NAME=VALUE",
        "with --setup: a setting of the setup; may be repeated",
        default=(),
        several=True,
    )
    output_format: str = OUTPUT_FORMAT
    as_json: bool = AS_JSON

    def check(self) -> None:
        of_setup = self.of_setup is not None
        exclusive({"--job": self.of_job, "--doctor": self.of_doctor, "--setup": of_setup})
        if self.settings and not of_setup:
            raise UsageError("--set can only be used with --setup")


class TrustOptions(Options):
    """Trust a profile in a checkout until it changes.

    Examples:
      runspec trust runspec-profile.yaml
      runspec trust --list

    More: runspec docs profile
    """

    file: Path | None = argument_or(
        None,
        "FILE",
        "the profile (default: the one that applies in this folder)",
        read=Path,
        complete=suggestions.specs,
    )
    listed: bool = flag("--list", "-l", help="list the trusted profiles")
    remove: bool = flag("--remove", help="stop trusting the profile")
    as_json: bool = AS_JSON

    def check(self) -> None:
        exclusive({"--list": self.listed, "--remove": self.remove})


class CompletionOptions(Options):
    """Print a script with completions for bash, zsh, fish or powershell.

    Examples:
      eval "$(runspec completion bash)"
      runspec completion fish > ~/.config/fish/completions/runspec.fish

    More: runspec docs everyday
    """

    shell: str = argument(
        "{bash,zsh,fish,powershell}", "your shell", choices=("bash", "zsh", "fish", "powershell")
    )


class HelpOptions(Options):
    """Show the commands, or the options of one.

    Examples:
      runspec help
      runspec help apply

    More: runspec docs everyday
    """

    verb: str | None = argument_or(None, "COMMAND", "the command")


class VersionOptions(Options):
    """Print the version.

    Examples:
      runspec version
      runspec --version

    More: runspec docs upgrades
    """


class ProgramOptions(Options):
    """runspec apply job.yaml

    One YAML file describes a job; runspec runs it on this machine or on a batch
    service. To see the options of a command: runspec COMMAND --help
    """

    version: bool = flag("--version", help="print the version")
    no_color: bool = flag("--no-color", help="print without colours (as if NO_COLOR were set)")
    install_completion: bool = flag(
        "--install-completion", help="install completion for the shell that this is typed into"
    )
