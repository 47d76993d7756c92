"""Secrets of this machine: each run has its own in Secrets Manager, from which AWS Batch passes them to containers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runspec_aws import timing
from runspec_aws.naming import tags
from runspec_aws.options import AwsOptions
from runspec_aws.store.layout import store
from runspec_jobs.provider import Request, Scope, Spec, Step

ROOT = "runspec"
LOCAL = ("env:", "file:")  # sources that only the machine of the user can read


def is_local(source: str) -> bool:
    return source.startswith(LOCAL)


def carried(spec: Spec, options: AwsOptions) -> Mapping[str, str]:
    """Return the variables whose values Secrets Manager keeps for a run, with their sources on this machine."""
    sources = {variable: options.secrets.get(key, "") for variable, key in spec.secrets.items()}
    return {variable: source for variable, source in sources.items() if is_local(source)}


def value_from(variable: str, source: str) -> Any:
    """Return where AWS Batch reads a secret: an ARN, which Secrets Manager chooses for one of this machine."""
    if is_local(source):
        return {"$ref": f"secret-{variable}.ARN"}
    return source.partition(":")[2]


def steps(spec: Spec, run: str, options: AwsOptions) -> Iterator[Step]:
    """Yield the steps that make the secrets of *run*, without values.

    A name ends with a variable, because one that ends as an ARN does could be taken for it.
    https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html
    """
    own = tags(options, run=run, job=spec.name, store=store(options))
    settle_s = timing.DEFAULT.settle_s  # operations are eventually consistent, as ListSecrets says
    for variable in carried(spec, options):
        name = f"{ROOT}/{run}/{variable}"
        do = _secrets(
            "create_secret",
            Name=name,
            Description="made by runspec for one run, and deleted with it",
            Tags=[{"Key": key, "Value": value} for key, value in own.items()],
        )
        title = f"make a secret for {variable} in Secrets Manager"
        yield Step(f"secret-{variable}", title, Scope.RUN, do, deletion(name), settle_s)


def values(spec: Spec, run: str, options: AwsOptions) -> Iterator[Step]:
    """Yield the steps that store the values of the secrets of *run*.

    They come right before the job, and are repeated if they were interrupted, so that a job never starts with a value
    that the caller has changed since.
    """
    for variable, source in carried(spec, options).items():
        where = {"SecretId": f"{ROOT}/{run}/{variable}"}
        do = _secrets("put_secret_value", **where, SecretString={"$secret": source})
        yield Step(f"value-{variable}", f"store the value of {variable}", Scope.RUN, do)


def _secrets(operation: str, **params: Any) -> Request:
    return Request("secretsmanager", operation, params)


def deletion(name: str) -> Request:
    """Return the deletion of a secret, at once: one that waits for its deletion could be read until then."""
    return _secrets("delete_secret", SecretId=name, ForceDeleteWithoutRecovery=True)


def names(requests: Iterable[Request]) -> list[str]:
    """Return the names of secrets that *requests* make, with `*` in place of what differs between runs of a job."""
    made = [r.params for r in requests if r.operation == "create_secret"]
    tagged = [({tag["Key"]: tag["Value"] for tag in p["Tags"]}, p["Name"]) for p in made]
    return [f"{ROOT}/{own['runspec:job']}-*" for own, _ in tagged]
