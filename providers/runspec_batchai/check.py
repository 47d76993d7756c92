"""Problems of a spec that Azure Batch AI cannot run, each with a hint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runspec_azure.resources import vm_sizes
from runspec_batchai import infrastructure as clusters, resources, store_volumes
from runspec_batchai.decision import Decision
from runspec_batchai.job import command_line, toolkits
from runspec_batchai.naming import made_up_place
from runspec_batchai.options import BatchAiOptions, Registry
from runspec_jobs.provider import (
    Capacity,
    Facts,
    Launch,
    Path,
    Problem,
    Spec,
    did_you_mean,
)
from runspec_jobs.provider.commands import interpreter
from runspec_jobs.provider.machines import machine_shortfall
from runspec_jobs.provider.spec_checks import (
    check_build,
    check_disk_tier,
    check_entrypoint,
    lacking,
    literal_paths,
    not_in_profile,
    refuse_growth,
    refuse_rules,
    refused_foreign,
)

# https://github.com/MicrosoftDocs/azure-docs/tree/main/articles/batch-ai, the notice of retirement
ENDED = "Azure Batch AI ended on 31 March 2019: runspec can only plan, rehearse and export this job"
MOST_TASKS = 1000
AWAY = "use provider: azure-batch"
RESERVED = "AZ_BATCHAI"
OTHERS = re.compile(rf"\$\{{?(?!{RESERVED}_)[A-Za-z_]\w*")
READABLE = ("env:", "file:")
AT = ("provider",)
NOT_OOM = (
    "no agent of runspec sees why a program was killed",
    f"write exit_codes: [137], or {AWAY}",
)
REFUSED = {
    "oom retry": NOT_OOM,
    "oom stop": NOT_OOM,
    "image retry": ("Batch AI pulls the image once", f"remove the entry, or {AWAY}"),
    "timeout retry": ("the limit applies to all attempts together", f"remove the entry, or {AWAY}"),
    "lost stop": (
        "Batch AI itself starts a job anew of which a machine was lost",
        f"remove the entry, or {AWAY}",
    ),
}


def problems(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    options = decision.options
    if options.arm_url is None:
        yield Problem(AT, f"{ENDED}; to run it, use provider: azure-batch", severity="note")
    yield from _cluster(decision, spec)
    yield from _container(decision, spec, facts)
    yield from _program(decision, spec)
    yield from _limits(decision, spec)
    yield from refuse_rules(spec, REFUSED)
    yield from refuse_growth(spec, "a job keeps its machines in all attempts")
    yield from check_disk_tier(
        spec, vm_sizes.LOCAL_TIERS, vm_sizes.LOCAL_DISK, "remove tier, or set tier: best"
    )
    yield from _places(spec, options)
    yield from _kept(decision, spec)
    yield from literal_paths(spec, "in a job of Batch AI, which has mounts and outputs elsewhere")
    # `validate` has no facts of this machine: what needs them is checked by `plan` and `apply`.
    if facts.complete:
        yield from _profile(decision, spec)
        yield from _mounts(spec, options)
        yield from _secrets(decision, spec)
        yield from _quotas(decision, facts)
        yield from _mpirun(decision, spec, facts)


def _quotas(decision: Decision, facts: Facts) -> Iterator[Problem]:
    """Yield quotas that a new cluster would exceed; they are facts only if the cluster does not exist: see `survey`."""
    usages = facts.survey.get("quotas")
    if usages is not None and decision.options.cluster is None:
        for what in resources.lacking_quota(clusters.properties(decision), usages):
            yield Problem(("cluster", "nodes"), what, resources.QUOTA_HINT)


def _mpirun(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    """Yield a note if a rehearsal without images has no mpirun, which images of Batch AI contain."""
    is_brought = decision.options.preparation or decision.installs
    is_started = spec.launch is Launch.MPI or decision.toolkit in toolkits.BY_MPIRUN
    if is_started and not is_brought and not facts.survey.get("mpirun", True):
        what = (
            "PATH has no mpirun, and this rehearsal uses no images, so the job exits with code 127: add the folder "
            "of an mpirun to PATH, such as RUNSPEC_HOME/local/envs/*/bin, which provider: local makes"
        )
        yield Problem(("launch",), what, severity="note")


def _cluster(decision: Decision, spec: Spec) -> Iterator[Problem]:
    cluster, options = spec.cluster, decision.options
    if cluster.nodes.elastic:
        what = "Batch AI has no elastic jobs"
        yield Problem(("cluster", "nodes"), what, f"set nodes: {decision.nodes}")
    if decision.capacity is Capacity.SPOT_THEN_ON_DEMAND:
        what = "a cluster of Batch AI has one kind of machine: low priority is used, without a change to on-demand"
        yield Problem(("cluster", "capacity"), what, severity="note")
    if spec.smoke is not None and decision.nodes > 1:
        what = (
            "jobs of Batch AI have no agent, so no node tests its connections before the smoke test"
        )
        yield Problem(("smoke",), what, at="key", severity="note")
    if spec.setup is not None:
        what = "jobs of Batch AI have no agent, which would run it in each attempt"
        hint = "set providers: {azure-batch-ai: {preparation: LINE}}, which runs once on each node"
        yield Problem(("setup",), what, hint, at="key")
    if spec.signal is not None:
        what = "jobs of Batch AI have no agent, which would send it"
        hint = "remove signal, and let the program save by its own clock"
        yield Problem(("signal",), what, hint, at="key")
    if cluster.placement:
        what = "ignored: the nodes of a cluster are one scale set, and Batch AI has no other option"
        yield Problem(("cluster", "placement"), what, severity="note")
    if options.cluster:
        for key in ("cpus", "memory", "gpus", "gpu_type", "gpu_memory", "disk"):
            if getattr(cluster, key) is not None:
                what = "ignored: the profile's cluster decides this"
                yield Problem(("cluster", key), what, severity="note")
        # The limit is the number of nodes of a cluster that runspec makes, and this one was made by others.
        if spec.max_parallel:
            what = "the profile's cluster limits how many tasks run at once"
            hint = "remove max_parallel, or remove cluster from the profile"
            yield Problem(("max_parallel",), what, hint, at="key")
    else:
        yield from _machine(decision)


def _machine(decision: Decision) -> Iterator[Problem]:
    request, vm_size = decision.request, decision.options.vm_size
    size = resources.known(vm_size)
    if vm_size:
        key = resources.lacking(request, size) if size else ""
        # A size that is in no table may be large enough; without a request for GPUs, it needs none.
        if size and key and not (key == "gpus" and not request.gpus):
            what = f"vm_size: {vm_size} in the profile has less than this"
            yield Problem(
                ("cluster", key), what, "remove vm_size from the profile, or ask for less"
            )
        return
    kind, kinds = request.gpu_type, resources.gpu_types()
    if kind and kind.upper() not in kinds:
        hint = did_you_mean(kind, kinds) or f"choose one of: {', '.join(kinds)}"
        yield Problem(("cluster", "gpu_type"), f"no machine of Batch AI had the GPU '{kind}'", hint)
    # No size of the retired service is large enough: the hint names the one that comes nearest.
    elif decision.machine is None:
        short = machine_shortfall(request, resources.sizes(), kind="machine of Batch AI")
        named = f": {short.machine.name}" if short.machine else ""
        hint = f"{short.hint}, set vm_size{named}, or {AWAY}"
        yield Problem(("cluster", short.key) if short.key else ("cluster",), short.what, hint)


def _container(decision: Decision, spec: Spec, facts: Facts) -> Iterator[Problem]:
    wanted, named = spec.container, decision.image
    if named and facts.complete and (named.startswith("localhost/") or not named[0].isalnum()):
        hint = (
            "push it to a registry, or set another image instead: "
            f"providers: {{azure-batch-ai: {{images: {{'{wanted.image}': NAME}}}}}}"
        )
        yield Problem(("container", "image"), f"'{named}' cannot be pulled from a registry", hint)
    elif named and ("://" in named or "#" in named):
        what = f"'{named}' is written for container engines of Slurm"
        yield Problem(("container", "image"), what, "write it as REGISTRY/NAME:TAG")
    elif wanted.image and named is None:
        what = "the image exists on this machine only: the machines install container.requirements without it"
        hint = f"for an image, set images: {{'{wanted.image}': NAME}} in the profile"
        yield Problem(("container", "image"), what, hint, severity="note")
    elif named != wanted.image:
        yield Problem(
            ("container", "image"), f"the profile replaces this image by {named}", severity="note"
        )
    if named:
        what = (
            "jobs of Batch AI have no agent: the job has succeeded when the service says so, also if the image's "
            "ENTRYPOINT did not start the program"
        )
        yield Problem(("container",), what, at="key", severity="note")
    if decision.shm_bytes and not named:
        what = "only containers have a /dev/shm of their own"
        yield Problem(("container", "shm"), what, "set an image, or remove shm", at="key")
    if wanted.python:
        what = "the image or the machine has its own Python: make sure that it is one of these versions"
        yield Problem(("container", "python"), what, severity="note")
    if wanted.requirements is not None:
        what = (
            "each node installs the packages with pip before the job"
            if decision.installs
            else "not installed: the image that replaces the spec's must contain the packages"
        )
        yield Problem(("container", "requirements"), what, severity="note")


def _program(decision: Decision, spec: Spec) -> Iterator[Problem]:
    options, name = decision.options, decision.toolkit
    kind = toolkits.KINDS[name]
    where: Path = ("command",) if spec.command is not None else ("run",)
    if kind.scripted and not toolkits.configured(options):
        if spec.run is not None and ("\n" in spec.run.strip("\n") or interpreter(spec.run)):
            what = f"the toolkit {name} starts one Python script, and this is a shell script"
            hint = "write command: [python, script.py], or set toolkit: custom-mpi or custom"
            yield Problem(where, what, hint)
        else:
            yield from _script(spec, name, where, options)
    # The default of 1 is no request: only a number that the user wrote can be wrong here.
    given = "processes_per_node" in spec.model_fields_set
    if given and not kind.counted and spec.processes_per_node > 1:
        what = f"the toolkit {name} decides the number of processes itself"
        yield Problem(("processes_per_node",), what, f"remove it, or {AWAY}", at="key")
    # The toolkit was derived from several nodes, not chosen by the user, who may not want mpirun.
    if spec.launch is Launch.NONE and options.toolkit is None and name == "custom-mpi":
        what = "Batch AI starts a command on every node only with mpirun"
        hint = "set launch: mpi, or toolkit: custom-mpi (once on each node), or toolkit: custom (first node only)"
        yield Problem(("cluster", "nodes"), what, hint)
    if spec.launch is Launch.TORCHRUN and name == "pytorch":
        what = (
            "Batch AI starts the processes without torchrun: they have AZ_BATCHAI_TASK_INDEX and "
            "AZ_BATCHAI_PYTORCH_INIT_METHOD, but not RANK, WORLD_SIZE or MASTER_ADDR"
        )
        yield Problem(("launch",), what, severity="note")
    if spec.launch is Launch.SRUN:
        what = (
            "Batch AI starts processes with its toolkits alone, and none has the variables of srun"
        )
        hint = (
            "set launch: mpi: its mpirun numbers processes without MPI too, as OMPI_COMM_WORLD_RANK"
        )
        yield Problem(("launch",), what, hint)
    if spec.launch is Launch.MPI and name == "custom":
        what = "the toolkit custom starts one process, on the first node"
        yield Problem(("launch",), what, "remove toolkit from the settings, or remove launch")
    yield from check_build(spec)
    yield from check_entrypoint(spec, "Batch AI does not tell a job the ENTRYPOINT of its image")
    if spec.ulimits.given:
        what = "Batch AI sets no limits of processes"
        hint = "remove it, or call ulimit in run, which can set less than the machine allows"
        yield Problem(("ulimits",), what, hint, at="key")
    yield from _toolkit_settings(name, options.toolkit_settings)


def _toolkit_settings(name: str, settings: Mapping[str, str]) -> Iterator[Problem]:
    at: Path = ("providers", "azure-batch-ai", "toolkit_settings")
    known = toolkits.fields(name)
    for key, value in settings.items():
        if key not in known:
            hint = did_you_mean(key, known) or f"there are: {', '.join(known) or 'none'}"
            yield Problem(at, f"the toolkit {name} has no setting '{key}'", hint)
        elif key in toolkits.NUMBERS and not value.isdecimal():
            yield Problem(at, f"{key}: '{value}' is not a whole number", "write a whole number")


def _script(spec: Spec, name: str, where: Path, options: BatchAiOptions) -> Iterator[Problem]:
    program, *rest = command_line.program(spec, {}, options)
    script = rest[0] if rest else ""
    if not script or script[0] in "-'\"" or "python" not in program.rpartition("/")[2]:
        what = f"the toolkit {name} starts a Python script, and this command is not one"
        hint = "write [python, script.py, argument], or set toolkit: custom-mpi or custom"
        yield Problem(where, what, hint)


def _limits(decision: Decision, spec: Spec) -> Iterator[Problem]:
    count = decision.tasks
    if count > MOST_TASKS:
        what = f"the sweep has {count:,} tasks, and runspec submits at most {MOST_TASKS:,} to Batch AI, one job each"
        yield Problem(("sweep",), what, f"make the sweep smaller, or {AWAY}", at="key")
    elif spec.sweep:
        what = f"each of the {count} tasks is a separate job of Batch AI"
        yield Problem(("sweep",), what, at="key", severity="note")
    if spec.max_failed is not None:
        what = "each task is a job of Batch AI, and none sees how many others have failed"
        yield Problem(("max_failed",), what, f"remove it, or {AWAY}", at="key")
    if spec.retry.attempts > 1 and not decision.is_retried:
        yield _not_retried(decision)
    elif decision.is_retried and spec.timeout:
        what = "the limit applies to all attempts together"
        yield Problem(("timeout",), what, severity="note")
    for name in (*spec.env, *spec.secrets):
        if name.upper().startswith(RESERVED):
            path = ("env", name) if name in spec.env else ("secrets", name)
            yield Problem(
                path,
                f"names that begin with {RESERVED} are reserved for Batch AI",
                "rename it",
                at="key",
            )
    yield from _references(spec)


def _references(spec: Spec) -> Iterator[Problem]:
    """Yield notes about values with references that the service does not document.

    https://github.com/Azure/BatchAI/blob/master/documentation/using-batchai-environment-variables.md
    """
    for name, value in spec.env.items():
        if match := OTHERS.search(value):
            what = f"Batch AI replaces {RESERVED}_* in values; whether it replaces '{match[0]}' is undocumented"
            yield Problem(
                ("env", name), what, "let the program read that variable", severity="note"
            )


def _not_retried(decision: Decision) -> Problem:
    """Return the note that a job is not retried: the service requeued jobs only if a node was lost."""
    name = decision.toolkit
    what = f"ignored: Batch AI itself starts the toolkit {name}, once"
    hint = f"{AWAY}, which retries jobs"
    if not decision.options.contract:
        what = "ignored: with contract: false, runspec adds nothing to the job that could retry it"
        hint = "remove contract: false"
    elif name in toolkits.BY_MPIRUN:
        hint = "remove toolkit: with launch: mpi, runspec starts mpirun and retries it"
    return Problem(("retry", "attempts"), what, hint, severity="note")


def _places(spec: Spec, options: BatchAiOptions) -> Iterator[Problem]:
    """Yield notes about paths: Batch AI chooses them, and passes them in variables.

    There is no note about a path that `import` made up and that no text of the job contains, for a job without
    the contract.
    """
    kinds = [("mounts", i, "target", m.name, m.target) for i, m in enumerate(spec.mounts)]
    kinds += [("outputs", i, "path", o.name, o.path) for i, o in enumerate(spec.outputs)]
    text = "\n".join((*(spec.command or ()), spec.run or "", *spec.env.values()))
    for kind, i, key, name, where in kinds:
        made_up = not options.contract and where == made_up_place(kind, name)
        if made_up and where not in text:
            continue
        what = f"ignored: Batch AI chooses the path; use ${{{kind}.{name}}}"
        yield Problem((kind, i, key), what, severity="note")


def _kept(decision: Decision, spec: Spec) -> Iterator[Problem]:
    """Yield problems of outputs: each is one path on a volume that all nodes mount (`outputDirectories`)."""
    for i, output in enumerate(spec.outputs):
        for key in ("include", "exclude"):
            if getattr(output, key):
                what = "jobs of Batch AI write to mounted storage directly, with all their files"
                yield Problem(("outputs", i, key), what, f"remove {key}", at="key")
        if output.keep > 1:
            what = (
                "jobs of Batch AI write to mounted storage directly, so there are no saves to keep"
            )
            yield Problem(("outputs", i, "keep"), what, "remove keep", at="key")
        elif output.sync is not None:
            what = (
                "ignored: jobs of Batch AI write to mounted storage directly; when a node is lost, files remain as the "
                "program has written them, not as one complete save"
            )
            yield Problem(("outputs", i, "sync"), what, severity="note", at="key")
    if decision.nodes == 1:
        return
    for i, output in enumerate(spec.outputs):
        if output.origin == "first":
            what = "all nodes of Batch AI write to one folder, so files of other nodes are kept as well"
            hint = f"remove from: first, and write to the output on rank 0 only, or {AWAY}"
            yield Problem(("outputs", i, "from"), what, hint)
        elif decision.options.contract or output.origin:
            what = "all nodes of Batch AI write to one folder: use different file names on different nodes"
            where: Path = ("outputs", i, "from") if output.origin else ("outputs", i)
            yield Problem(where, what, severity="note")


def _profile(decision: Decision, spec: Spec) -> Iterator[Problem]:
    options, needed = decision.options, decision.volumes.values()
    wanted = {"subscription": "ID", "location": "eastus"}
    if options.logs is None:
        wanted["file_share"] = "NAME"
    stored = any(m.scheme != "shared" for m in spec.mounts)
    if stored or decision.keeps_in_store:
        wanted["container"] = "NAME"
    if any((v.share or v.container) and not v.account for v in needed):
        wanted["storage_account"] = "NAME"
    for key, example in wanted.items():
        if not getattr(options, key):
            yield lacking("azure-batch-ai", key, example)
    if not (options.cluster or options.ssh_public_key or options.admin_password):
        yield lacking("azure-batch-ai", "ssh_public_key", "'ssh-ed25519 AAAA...'")


def _mounts(spec: Spec, options: BatchAiOptions) -> Iterator[Problem]:
    why = "Batch AI has no agent of runspec, which would read it"
    hint = (
        "mount a volume: shared: {NAME: {container: NAME, account: NAME, key: NAME}} in the profile"
    )
    yield from refused_foreign(spec, why, hint)
    for i, mount in enumerate(spec.mounts):
        at: Path = ("mounts", i, "source")
        if mount.is_foreign:
            continue
        if mount.scheme == "store" and mount.place.startswith("/"):
            yield Problem(
                at, f"'{mount.source}' leads out of the container's prefix", "remove the third /"
            )
        if mount.scheme != "shared" and not mount.read_only:
            hint = "make it an output, or mode: ro"
            yield Problem(
                ("mounts", i, "mode"), "files that the job writes there would be lost", hint
            )
        key = mount.place.partition("/")[0]
        known = options.inputs.get(mount.name)
        if mount.scheme == "shared" and known is not None and known.path:
            continue
        if mount.scheme == "shared" and key not in options.shared:
            entry = f"azure-batch-ai: {{shared: {{{key}: {{share: NAME}}}}}}"
            yield not_in_profile("volume", at, key, options.shared, entry)
        elif mount.scheme == "shared" and mount.mode == "ro":
            what = "ignored: the options of the volume decide this"
            yield Problem(("mounts", i, "mode"), what, severity="note")


def _secrets(decision: Decision, spec: Spec) -> Iterator[Problem]:
    options = decision.options
    for variable, key in spec.secrets.items():
        yield from _secret(key, ("secrets", variable), options)
    shared = () if options.cluster else store_volumes.cluster_volumes(options).values()
    needed = store_volumes.keys([*decision.volumes.values(), *shared], options)
    if options.registry and decision.image:
        yield from _login(options.registry)
        needed += [key for key in (options.registry.password,) if key]
    if not options.cluster:
        needed += options.setup.secrets.values() if options.setup else ()
        needed += [key for key in (options.admin_password,) if key]
        needed += [options.insights.key] if options.insights and options.insights.key else []
    for key in dict.fromkeys(needed):
        yield from _secret(key, AT, options)


def _login(registry: Registry) -> Iterator[Problem]:
    if bool(registry.username) != bool(registry.password):
        key, other = "password", "username"
        key, other = (key, other) if registry.username else (other, key)
        what = f"registry in the profile has no `{key}`, which the login needs"
        yield Problem(AT, what, f"add {key}, or remove {other}")


def _secret(key: str, at: Path, options: BatchAiOptions) -> Iterator[Problem]:
    source = options.secrets.get(key)
    if source is None:
        hint = did_you_mean(key, options.secrets) or (
            f"add providers: {{azure-batch-ai: {{secrets: {{{key}: env:NAME}}}}}} to the profile"
        )
        yield Problem(at, f"the profile has no secret '{key}'", hint)
    elif source.startswith("azure-kv:"):
        if "#" not in source:
            hint = "write azure-kv:RESOURCE_ID_OF_THE_VAULT#URL_OF_THE_SECRET"
            yield Problem(at, f"the source of '{key}' in the profile does not name its vault", hint)
    elif not source.startswith(READABLE):
        hint = "keep it in a variable (env:NAME), a file (file:/path) or a key vault (azure-kv:...)"
        yield Problem(at, f"cannot read secrets from '{source.partition(':')[0]}:'", hint)
