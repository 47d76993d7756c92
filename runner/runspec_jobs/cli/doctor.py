"""`runspec doctor`: what would stop one job or any, and tests of assumptions about a service."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from runspec_jobs.api import jobs, machine, probes
from runspec_jobs.api.jobs import Job
from runspec_jobs.api.machine import Finding
from runspec_jobs.api.probes import PAGE, Left, Observed, Probe, Probing, Verdict
from runspec_jobs.api.specs import is_chain
from runspec_jobs.cli import diagnostics, output, plan
from runspec_jobs.cli.live.progress import ProgressPrinter
from runspec_jobs.diagnostics.render import Format, escape_control
from runspec_jobs.errors import OK, Unavailable, UsageError
from runspec_jobs.options.setup_verbs import DoctorOptions

# A finding with its provider, or `profile`, and its job.
_NamedFinding = tuple[str, str | None, Finding]


def doctor(options: DoctorOptions) -> int:
    """Print each finding as soon as it is made, because some checks take long."""
    if options.probe:
        return _probe(options)
    if options.job is not None:
        return _examine_job(options)
    as_json = options.as_json
    findings: list[_NamedFinding] = []
    unused: list[str] = []
    for about, finding, invalid, checked in machine.list_findings(
        options.provider, node=options.node
    ):
        diagnostics.print_all(invalid, Format.TEXT)
        findings.append((about, None, finding))
        if not checked:
            unused.append(about)
        elif not as_json:
            _print_finding(about, finding)
    if unused and not as_json:
        output.out(f"-   not checked, because no profile has settings of them: {', '.join(unused)}")
        output.out("      to check one: runspec doctor NAME")
    if as_json:
        _print_json(findings, None)
    return OK if all(finding.ok for _, _, finding in findings) else Unavailable.exit_code


class _Asked(NamedTuple):
    """What a verdict is about: its *name* in JSON and in the verdict, and the jobs by how their findings name them."""

    name: str
    verdict: str
    jobs: Mapping[str, Job]


def _examine_job(options: DoctorOptions) -> int:
    """Say whether one job will run, or the jobs of a chain."""
    if options.node:
        raise UsageError("--node takes no job", "runspec doctor PROVIDER --node")
    assert options.job is not None, "BUG: there is a job"
    asked = _load_chain(options) if is_chain(options.job) else _load_job(options)
    findings: list[_NamedFinding] = []
    for about, job in asked.jobs.items():
        for finding in probes.list_job_findings(job):
            findings.append((job.spec.provider, job.spec.name, finding))
            if not options.as_json:
                _print_finding(about, finding)
    runs = all(finding.ok for _, _, finding in findings)
    if options.as_json:
        _print_json(findings, asked.name)
    else:
        output.out(_describe(asked.verdict, [found for _, _, found in findings]))
    return OK if runs else Unavailable.exit_code


def _load_job(options: DoctorOptions) -> _Asked:
    assert options.job is not None, "BUG: there is a job"
    overrides = jobs.Overrides(options.of, (), (), ())
    job = plan.load(
        options.job, ProgressPrinter(), overrides, output_format="text", as_json=options.as_json
    )
    name, provider = job.spec.name, job.spec.provider
    return _Asked(name, f"{name} on {provider}", {provider: job})


def _load_chain(options: DoctorOptions) -> _Asked:
    """Return the jobs of a chain, of which only those on the provider that was typed, if it was.

    Raises UsageError if no job is left.
    """
    from runspec_jobs.api import chains  # slow to import, and a single job does not need it

    assert options.job is not None, "BUG: there is a chain"
    with ProgressPrinter() as printer:
        chain = chains.load_chain(options.job, on_event=printer)
    names = sorted({job.spec.provider for job in chain.jobs.values()})
    if options.of is not None and options.of not in names:
        what = f"no job of {chain.name} runs on '{options.of}': its jobs run on {', '.join(names)}"
        hint = f"runspec doctor {options.job} checks each job on its own provider"
        raise UsageError(what, hint)
    found = {
        f"{name} on {job.spec.provider}": job
        for name, job in chain.jobs.items()
        if options.of in (None, job.spec.provider)
    }
    where = "" if options.of is None else f" on {options.of}"
    return _Asked(chain.name, f"{chain.name}{where}", found)


def _describe(job: str, findings: Iterable[Finding]) -> str:
    """Return the answer to the question whether *job* will run."""
    findings = list(findings)
    wrong = sum(not finding.ok for finding in findings)
    unknown = sum(finding.unknown for finding in findings)
    unchecked = f"; {unknown} could not be checked" if unknown else ""
    if wrong:
        problems = "1 check failed" if wrong == 1 else f"{wrong} checks failed"
        return f"{job} will not run: {problems} of {len(findings)}{unchecked}"
    if unknown:
        return f"{job}: no check of {len(findings)} failed{unchecked}, so whether it will run is not known"
    return f"{job} will run: no check of {len(findings)} failed"


def _print_finding(about: str, finding: Finding) -> None:
    mark = "?  " if finding.unknown else "ok " if finding.ok else "BAD"
    output.out(f"{mark} {about}: {escape_control(finding.what)}")
    if finding.hint and (finding.unknown or not finding.ok):
        output.out(f"      hint: {escape_control(finding.hint)}")


def _print_json(findings: Sequence[_NamedFinding], job: str | None) -> None:
    rows = [{"about": about, "job": of, **found._asdict()} for about, of, found in findings]
    is_ok = all(finding.ok for _, _, finding in findings)
    is_known = not is_ok or not any(finding.unknown for _, _, finding in findings)
    will_run = is_ok if job is not None and is_known else None
    output.out_json("runspec.doctor/v1", {"findings": rows, "job": job, "will_run": will_run})


def _probe(options: DoctorOptions) -> int:
    """Run the probes of one provider, or only those of `--only`, and print what each has observed."""
    name, only = options.provider, options.only
    if name is None:
        raise UsageError(
            "--probe needs a provider", "for example: runspec doctor aws-batch --probe"
        )
    if options.node:
        line = f"runspec doctor {name} --node"
        raise UsageError("--node and --probe cannot be combined", f"run {line} by itself")
    ids = None if only is None else [word.strip() for word in only.split(",")]
    probing = probes.choose(name, ids)
    _announce(name, probing.probes)
    if not options.yes:
        if not sys.stdin.isatty():
            what = "cannot ask for confirmation: standard input is not a terminal"
            raise UsageError(what, f"runspec doctor {name} --probe --yes runs them without asking")
        print("run them? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise UsageError("not confirmed: no probe was run")
    return _carried_out(name, probing, as_json=options.as_json)


def _announce(name: str, probes: Sequence[Probe]) -> None:
    for each in probes:
        output.tell(f"{each.id:10} {_time(each.seconds):>7} {_money(each.usd)}  {each.title}")
    seconds, usd = sum(each.seconds for each in probes), sum(each.usd for each in probes)
    one = len(probes) == 1
    output.tell(
        f"{'1 probe creates' if one else f'{len(probes)} probes create'} resources in your account at "
        f"{name} and {'deletes' if one else 'delete'} them again: "
        f"about {_time(seconds)}, at most {_money(usd).strip()}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _money(usd: float) -> str:
    return f"{usd:.2f} USD" if usd >= 0.01 or usd == 0 else "<0.01 USD"


def _carried_out(name: str, probing: Probing, *, as_json: bool) -> int:
    rows: list[Observed] = []
    cut_off = False
    try:
        with (
            output.interruptible() as sleep,
            contextlib.closing(probing.run(on_event=output.tell_event, sleep=sleep)) as observed,
        ):
            for row in observed:
                rows.append(row)
                if not as_json:
                    _print_observed(row)
    except KeyboardInterrupt:
        cut_off = True
    finally:
        _by_hand(name, probing.left)
    if as_json:
        left = [{"what": thing.what, "by_hand": thing.by_hand} for thing in probing.left]
        shown = [row._asdict() for row in rows]
        document = {"provider": name, "probes": shown, "left": left}
        output.out_json("runspec.probe/v1", document)
    if cut_off:
        raise KeyboardInterrupt
    output.tell(f"assumptions without a probe, and how to check them by hand: {PAGE}")
    refuted = any(row.verdict == Verdict.REFUTED for row in rows)
    return Unavailable.exit_code if refuted or probing.left else OK


def _print_observed(row: Observed) -> None:
    output.out(f"{row.verdict:15} {row.id:10} {escape_control(row.title)}")
    output.out(f"{'':26} seen: {escape_control(row.seen)} ({row.seconds:.1f} s)")


def _by_hand(name: str, still: Sequence[Left]) -> None:
    if not still:
        return
    things = "1 resource is" if len(still) == 1 else f"{len(still)} resources are"
    output.tell(f"{things} left; runspec gc {name} --yes tries to delete again, or by hand:")
    for thing in still:
        output.tell(f"  {thing.by_hand}")
