"""`runspec trust`: adds profiles in checkouts to the trusted ones, removes and lists them."""

from __future__ import annotations

from runspec_jobs.api import profiles
from runspec_jobs.api.profiles import Trusted
from runspec_jobs.cli import output
from runspec_jobs.diagnostics.render import escape_control
from runspec_jobs.errors import OK
from runspec_jobs.options.setup_verbs import TrustOptions


def trust(options: TrustOptions) -> int:
    """Trust a file, or the profile that applies in this folder, until it changes; or stop that, or list all such."""
    as_json = options.as_json
    if options.listed:
        return _list_trusted(as_json=as_json)
    if options.remove:
        trusted = profiles.distrust_profile(options.file)
        return _print_result(trusted, f"{trusted.file} is no longer trusted", as_json=as_json)
    trusted = profiles.trust_profile(options.file)
    lets = "; ".join(f"{name}: {', '.join(names)}" for name, names in trusted.sets.items())
    effect = f"it may set {lets}" if lets else "it has no settings that require trust"
    return _print_result(
        trusted, f"{trusted.file} is trusted until it changes; {effect}", as_json=as_json
    )


def _list_trusted(*, as_json: bool) -> int:
    rows = profiles.list_trusted_profiles()
    if as_json:
        files = [{"file": row.file, "trusted": row.trusted} for row in rows]
        output.out_json("runspec.trusted/v1", {"files": files})
        return OK
    for row in rows:
        output.out(f"{escape_control(row.file)}{'' if row.trusted else '  (changed: not trusted)'}")
    return OK


def _print_result(trusted: Trusted, text: str, *, as_json: bool) -> int:
    if as_json:
        output.out_json("runspec.trust/v1", {"file": trusted.file, "trusted": trusted.trusted})
    else:
        output.tell(text)
    return OK
