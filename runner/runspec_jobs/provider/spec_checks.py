"""Checks of a spec that several providers make in the same way."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from runspec_jobs.diagnostics.problem import Path, Problem, did_you_mean
from runspec_jobs.provider.registry_login import registry_of
from runspec_jobs.provider.types import Options
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.models.files import FOREIGN
from runspec_jobs.spec.placeholders import count_tasks, variable

SecretCheck = Callable[[Path, str, str], Iterable[Problem]]
"""Gets the path of a secret in the spec, its name, and its source, such as `env:TOKEN`."""


def not_in_profile(what: str, at: Path, key: str, known: Collection[str], entry: str) -> Problem:
    """Return the problem that the profile has no *what* called *key*.

    *known* are the names that the profile has. *entry* is an entry to add, such as `slurm: {shared: {data: /data}}`.
    """
    hint = did_you_mean(key, known) or f"add providers: {{{entry}}} to the profile"
    return Problem(at, f"the profile has no {what} '{key}'", hint)


def lacking(provider: str, key: str, example: str, why: str = "") -> Problem:
    """Return the problem that the profile has no setting *key* of *provider*; *why* says what needs it.

    >>> lacking("aws-batch", "bucket", "NAME").what
    'the profile has no `bucket`'
    """
    hint = f"add providers: {{{provider}: {{{key}: {example}}}}} to the profile"
    message = f"the profile has no `{key}`{', ' + why if why else ''}"
    return Problem(("provider",), message, hint, lacks=f"{key}: {example}")


def refuse_rules(spec: Spec, refused: Mapping[str, tuple[str, str]]) -> Iterator[Problem]:
    """Yield a problem for each entry of `retry.on` that a provider cannot carry out.

    *refused* has, by a reason and an action such as `image retry`, why that is so and what to do.
    """
    for number, rule in enumerate(spec.retry.on):
        if (found := refused.get(f"{rule.reason} {rule.action}")) is not None:
            yield Problem(("retry", "on", number, "reason"), *found)


def refuse_growth(spec: Spec, why: str) -> Iterator[Problem]:
    """Yield a problem for each entry of `retry.on` with more memory, which a provider cannot give; *why* says so."""
    for number, rule in enumerate(spec.retry.on):
        if rule.memory is not None:
            hint = f"remove it and set cluster: {{memory: {rule.memory.most >> 20}MiB}}"
            yield Problem(("retry", "on", number, "memory"), why, hint, at="key")


def check_disk_tier(spec: Spec, known: Collection[str], why: str, hint: str) -> Iterator[Problem]:
    """Yield a problem if the tier of the disk is not one of *known*, and else a note: *why* says what disk there is."""
    tier, at = spec.cluster.disk_tier, ("cluster", "disk", "tier")
    if tier in known:
        yield Problem(at, why, severity="note")
    elif tier:
        yield Problem(at, why, hint)


def note_copies(spec: Spec, why: str) -> Iterator[Problem]:
    """Yield a note for each mount with `mode: lazy` that is copied nevertheless; *why* is the reason."""
    for number, mount in enumerate(spec.mounts):
        if mount.mode == "lazy" and mount.scheme == "store":
            message = f"each node copies {mount.source} before the program starts: {why}"
            yield Problem(("mounts", number, "mode"), message, severity="note")


def too_many_tasks(spec: Spec, most: int, why: str) -> Iterator[Problem]:
    """Yield a problem if the sweep of *spec* has more tasks than a provider supports; *why* says whose limit it is."""
    if (count := count_tasks(spec.sweep)) > most:
        message = f"the sweep has {count:,} tasks; at most {most:,} are allowed: {why}"
        yield Problem(("sweep",), message, "use fewer values, or several specs", at="key")


def secret_problems(
    spec: Spec, options: Options, provider: str, example: str, check: SecretCheck
) -> Iterator[Problem]:
    """Yield a problem for each secret that the profile lacks, and those that *check* finds in the others.

    *example* is a source, in which `{}` stands for the variable.
    """
    for name, key in spec.secrets.items():
        at, source = ("secrets", name), options.secrets.get(key)
        if source is None:
            entry = f"{provider}: {{secrets: {{{key}: {example.format(name)}}}}}"
            yield not_in_profile("secret", at, key, options.secrets, entry)
        else:
            yield from check(at, key, source)


def _list_paths(key: str, words: Iterable[str]) -> list[tuple[Path, str]]:
    return [((key, i), word) for i, word in enumerate(words)]


def literal_paths(spec: Spec, why: str) -> Iterator[Problem]:
    """Yield a note for each text of *spec* that names the path of a mount or an output.

    This is for jobs that have it elsewhere; *why* ends the sentence that says so.
    """
    known_paths = [
        (m.target, f"${{mounts.{m.name}}}", variable("mounts", m.name)) for m in spec.mounts
    ]
    known_paths += [
        (o.path, f"${{outputs.{o.name}}}", variable("outputs", o.name)) for o in spec.outputs
    ]
    texts: list[tuple[Path, str]] = [
        (("run",), spec.run or ""),
        *_list_paths("command", spec.command or ()),
    ]
    texts += [(("env", name), value) for name, value in spec.env.items()]
    for at, text in texts:
        for path, placeholder, name in known_paths:
            # Not inside of a longer path or of a placeholder.
            match = re.search(rf"(?<![\w$}}/.-]){re.escape(path)}(?![\w.-])(/[\w./-]*)?", text)
            if match is not None:
                write = f"write {placeholder}{match[1] or ''}"
                hint = f"read {name} in the program" if at[0] == "env" else write
                is_script = at == ("run",)
                message = f"there is no {path} {why}"
                yield Problem(
                    at, message, hint, at="key" if is_script else "value", severity="note"
                )


def ends_as_a_whole(spec: Spec) -> bool:
    """Return whether all jobs of a run must succeed for the run to have succeeded, as a service counts them.

    Not those of nodes that an elastic job did not need, and of tasks that were stopped early: a service counts them as
    failed.
    """
    stops = spec.metric is not None and spec.metric.stop is not None
    return not spec.cluster.nodes.elastic and not stops


def has_several_tasks(spec: Spec) -> bool:
    """Return whether a run of *spec* has more than one task."""
    return count_tasks(spec.sweep) > 1


def check_entrypoint(spec: Spec, why: str, first: str = "") -> Iterator[Problem]:
    """Yield a problem for the entrypoint of an image that a provider cannot know; *why* says the reason.

    *first* is what else must be done before the words of the entrypoint can be the command.
    """
    if spec.container.entrypoint:
        asked = f"docker image inspect --format '{{{{json .Config}}}}' {spec.container.image}"
        words = f"the Entrypoint and Cmd that this prints: {asked}"
        if spec.container.build:
            words = "the words of its ENTRYPOINT and CMD"
        hint = f"{first}write command: with {words}"
        yield Problem(("container", "entrypoint"), why, hint, at="key")


def foreign_problems(spec: Spec, own: Collection[str], setting: str = "") -> Iterator[Problem]:
    """Yield a problem for each store of another owner that the job has no identity for.

    *own* are the schemes that the identity of every job of the provider is for. *setting* names the setting that gives
    jobs an identity.
    """
    for at, url, is_public in _list_foreign(spec):
        scheme = url.partition("://")[0]
        variable = FOREIGN[scheme].variable
        if is_public or scheme in own or variable in (*spec.env, *spec.secrets):
            continue
        does = "read" if at[0] == "mounts" else "write to"
        message = f"the job has no identity that may {does} '{url}'"
        public = ", or write anonymous: true if it is public" if at[0] == "mounts" else ""
        yield Problem(at, message, f"name {variable} under secrets{setting}{public}")


def refused_foreign(spec: Spec, why: str, hint: str) -> Iterator[Problem]:
    """Yield a problem for each store of another owner, for jobs that can reach none; *why* says so."""
    for at, _, _ in _list_foreign(spec):
        yield Problem(at, why, hint)


def _list_foreign(spec: Spec) -> Iterator[tuple[Path, str, bool]]:
    """Yield each store of another owner: where *spec* has it, its address, and whether it needs no identity."""
    for i, mount in enumerate(spec.mounts):
        if mount.is_foreign:
            yield ("mounts", i, "source"), mount.source, mount.anonymous
    for i, output in enumerate(spec.outputs):
        if output.target:
            yield ("outputs", i, "target"), output.target, False


def check_pulled(image: str) -> Iterator[Problem]:
    """Yield the problem of the name of an *image* that machines of a service pull from a registry."""
    at = ("container", "image")
    if not image[0].isalnum():
        message = f"'{image}' is a file and not an image of a registry"
        yield Problem(at, message, "push it to a registry")
    elif "://" in image or "#" in image:
        message = f"'{image}' is written for another container engine than that of the service"
        yield Problem(at, message, "write it as REGISTRY/NAME:TAG")
    elif (host := registry_of(image)).partition(":")[0] in ("localhost", "127.0.0.1"):
        message = f"{host} is a registry on the machine that runs the job, and not on this one"
        yield Problem(at, message, severity="note")


def check_build(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for an image that is to be built, for a provider that runs images of registries alone."""
    build = spec.container.build
    if build is not None:
        file = f" --file {shlex.quote(build.file)}" if build.file else ""
        made = f"podman build --tag REGISTRY/NAME:1{file} {shlex.quote(build.context)}"
        what = "this provider runs images of registries, and builds none"
        hint = f"run {made}, then podman push REGISTRY/NAME:1, and write image: REGISTRY/NAME:1"
        yield Problem(("container", "build"), what, hint, at="key")
