"""Find problems of a cluster and its namespace that would stop a job, before anything is made."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator
from typing import Any

from runspec_jobs.provider import CredentialsError, Finding, RunspecError
from runspec_kubernetes import client, reasons
from runspec_kubernetes.errors import CLUSTER, Refused
from runspec_kubernetes.naming import collection
from runspec_kubernetes.options import KubernetesOptions
from runspec_kubernetes.session import OLD, UPGRADE, Session, version_of
from runspec_kubernetes.timing import CLOCK, DEFAULT

Findings = Generator[Finding, None, Any]
ENFORCED = "pod-security.kubernetes.io/enforce"
QUEUES = "/apis/kueue.x-k8s.io/v1beta1"
MANY = {"ReadWriteMany", "ReadOnlyMany"}
READER = "give the login the rights that `runspec policy JOB.yaml --doctor` prints"


class Examiner:
    """Asks a cluster; an answer that it does not give is a finding."""

    def __init__(self, session: Session) -> None:
        self.session, self.options = session, session.options

    def ask(self, what: str, read: Callable[[], Any]) -> tuple[Any, Finding | None]:
        """Return what *read* returns, and None; or None, and that *what* cannot be checked."""
        try:
            return read(), None
        except RunspecError as exc:
            hint = READER if isinstance(exc, Refused) and exc.code == 403 else exc.hint
            text = f"doctor cannot check {what}: {exc.message}"
            return None, Finding(text, True, hint, unknown=True)

    def find(self, what: str, path: str, hint: str) -> Findings:
        """Yield a finding about whether the object at *path* exists, and return the object."""
        found, unknown = self.ask(what, lambda: self.session.read(path, f"look for {what}"))
        if unknown is not None:
            yield unknown
        elif found is None:
            yield Finding(f"there is no {what}", False, hint)
        return found

    def list(self, what: str, path: str) -> Findings:
        """Yield a finding if *path* cannot be listed, and return its objects, or None."""
        found, unknown = self.ask(what, lambda: [*self.session.listed(path)])
        if unknown is not None:
            yield unknown
        return found

    def path(self, kind: str, name: str) -> str:
        return f"{collection(self.options.namespace, kind)}/{name}"


def examine(options: KubernetesOptions) -> Iterator[Finding]:
    """Yield what exists and what is missing, most important first."""
    yield from examine_cluster(Examiner(Session(options, DEFAULT, CLOCK)), options)


def examine_cluster(asker: Examiner, options: KubernetesOptions, nodes: int = 1) -> Findings:
    """Yield what any job needs; return whether the API server answers. Tasks of the job have *nodes* nodes."""
    try:
        version = asker.session.send("GET", "/version", action="ask for the version")
    except RunspecError as exc:
        yield Finding(exc.message, False, exc.hint or CLUSTER)
        return False
    yield _check_version(version)
    yield from _namespace(asker, options)
    yield from _objects(asker, options)
    yield from _claims(asker, options, nodes)
    if options.queue:
        yield from _queue(asker, options.queue)
    if options.store and not options.store.startswith("pvc:"):
        yield _check_store(options)
    return True


def _check_version(version: dict[str, Any]) -> Finding:
    said, good = version_of(version)
    if good:
        return Finding(f"the API server is Kubernetes {said}", True)
    return Finding(OLD.format(said), False, UPGRADE)


def _namespace(asker: Examiner, options: KubernetesOptions) -> Iterator[Finding]:
    name = options.namespace
    hint = f"make it (kubectl create namespace {name}), or set another one"
    space = yield from asker.find(f"namespace {name}", f"/api/v1/namespaces/{name}", hint)
    if space is None:
        return
    level = (space["metadata"].get("labels") or {}).get(ENFORCED, "privileged")
    text = f"namespace {name} enforces the pod security standard {level}"
    # https://kubernetes.io/docs/concepts/security/pod-security-standards/
    if options.host_network and level != "privileged":
        hint = "set host_network: false, or use another namespace"
        yield Finding(f"{text}, which host_network violates", False, hint)
    elif options.security == "none" and level == "restricted":
        hint = "set security: restricted, or use another namespace"
        yield Finding(f"{text}, which security: none violates", False, hint)
    else:
        yield Finding(text, True)


def _objects(asker: Examiner, options: KubernetesOptions) -> Iterator[Finding]:
    """Check the objects that the profile names."""
    wanted = [("imagePullSecret", "secrets", name) for name in options.pull_secrets]
    if options.service_account:
        wanted.append(("service account", "serviceaccounts", options.service_account))
    paths = [(f"{what} {name}", asker.path(kind, name)) for what, kind, name in wanted]
    if name := options.priority_class:
        path = f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}"
        paths.append((f"priority class {name}", path))
    for what, path in paths:
        hint = "make it, or set another one in the profile"
        if (yield from asker.find(what, path, hint)) is not None:
            yield Finding(what, True)


def _claims(asker: Examiner, options: KubernetesOptions, nodes: int) -> Iterator[Finding]:
    """Check volume claims; one that is not bound may be so when the first pod uses it.

    https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes
    """
    claims = [*options.shared.values(), *filter(None, [options.store])]
    names = {c.removeprefix("pvc:"): c == options.store for c in claims if c.startswith("pvc:")}
    for name, is_store in names.items():
        hint = "make it, or set another one in the profile"
        what = f"volume claim {name}"
        claim = yield from asker.find(what, asker.path("persistentvolumeclaims", name), hint)
        if claim is None:
            continue
        modes = set(claim.get("spec", {}).get("accessModes") or ())
        phase = claim.get("status", {}).get("phase", "Pending")
        text = f"{what} is {phase}, with {', '.join(sorted(modes))}"
        needs_many = nodes > 1 or is_store
        if phase == "Lost":
            yield Finding(text, False, "its volume no longer exists: make it again")
        elif needs_many and not modes & MANY:
            hint = "use a claim with ReadWriteMany, or nodes that are all one machine"
            yield Finding(f"{text}: pods on several machines cannot use it", nodes == 1, hint)
        else:
            yield Finding(text, True)


def _queue(asker: Examiner, name: str) -> Iterator[Finding]:
    """https://kueue.sigs.k8s.io/docs/tasks/troubleshooting/troubleshooting_queues/"""
    path = f"{QUEUES}/namespaces/{asker.options.namespace}/localqueues/{name}"
    hint = "make it, or set another queue; without Kueue, remove queue from the profile"
    queue = yield from asker.find(f"local queue {name} of Kueue", path, hint)
    if queue is None:
        return
    active = reasons.condition(queue, "Active")
    good = active.get("status") != "False"
    said = "" if good else f": {active.get('message', 'it is not active')}"
    yield Finding(f"local queue {name} of Kueue{said}", good, "kubectl describe localqueue")


def _check_store(options: KubernetesOptions) -> Finding:
    """Try conditional writes, with an object that is deleted again."""
    key = f"runs/probe-{secrets.token_hex(3)}/conditions"
    try:
        store = client.StoreClient(options).store
        assert store is not None, "BUG: the profile has a store"
        store.put(key, b"")
        try:
            store.refuse_without_conditions(key, b"")
        finally:
            store.remove([key])
    except CredentialsError as exc:
        return Finding(exc.message, False, exc.hint)
    except RunspecError as exc:
        return Finding(exc.message, False, exc.hint or f"check that {options.store} exists")
    return Finding(f"the store {options.store} can be written, with conditions", True)
