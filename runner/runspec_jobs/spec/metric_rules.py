"""The rules for the fields `metric` and `scaling`, and between them and the rest of the spec."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.diagnostics.problem import Problem, did_you_mean
from runspec_jobs.spec.metric import Metric, Scaling
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.regex_safety import find_trouble
from runspec_jobs.spec.scaling import make_name
from runspec_jobs.spec.types import NAME, compiled


def check_metric(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for each rule that the metric of *spec* breaks."""
    if spec.metric is None:
        return
    yield from _check_source(spec.metric)
    yield from _check_file(spec, spec.metric)
    yield from _stop(spec, spec.metric)


def _check_source(metric: Metric) -> Iterator[Problem]:
    if metric.pattern is not None and (wrong := find_trouble(metric.pattern)):
        yield Problem(("metric", "pattern"), *wrong)
    if metric.table is not None:
        yield from _check_table(metric)
        return
    if metric.pattern is None and metric.reader is None:
        hint = "add pattern: 'accuracy=([0-9.]+)', or reader: horovod"
        yield Problem(("metric",), "no source for the value is given", hint)
    if metric.pattern is not None and metric.reader is not None:
        message = "'pattern' and 'reader' cannot be used together"
        yield Problem(("metric", "reader"), message, "keep one of them", at="key")
    if metric.column is not None and metric.reader is None:
        message, hint = "'column' needs a table", "add reader, or a file that ends in .csv"
        yield Problem(("metric", "column"), message, hint, at="key")
    if metric.key is not None:
        message, hint = "'key' needs a JSON file", "add a file that ends in .json"
        yield Problem(("metric", "key"), message, hint, at="key")


def _check_table(metric: Metric) -> Iterator[Problem]:
    """Yield the problems of a metric in a JSON or CSV file, which is read by `key` or `column` alone."""
    wanted, other = ("column", "key") if metric.table == ".csv" else ("key", "column")
    if getattr(metric, wanted) is None:
        message = f"the position of the value in '{metric.file}' is not given"
        yield Problem(("metric", "file"), message, f"add {wanted}: NAME")
    for name in ("pattern", "reader", other):
        if getattr(metric, name) is not None:
            message = f"a {metric.table} file is read by '{wanted}', not by '{name}'"
            yield Problem(("metric", name), message, "remove it", at="key")


def _check_file(spec: Spec, metric: Metric) -> Iterator[Problem]:
    if metric.file is None:
        return
    output, _, path = metric.file.partition("/")
    known = [output.name for output in spec.outputs]
    where = ("metric", "file")
    if output not in known:
        message = f"there is no '{output}' in outputs"
        yield Problem(where, message, did_you_mean(output, known) or "write OUTPUT/path")
    elif not path or ".." in path.split("/"):
        yield Problem(where, f"'{metric.file}' is not a file in an output", "write OUTPUT/path")


def _stop(spec: Spec, metric: Metric) -> Iterator[Problem]:
    if metric.stop is None:
        return
    at = ("metric", "stop")
    if len(metric.stop.model_fields_set) != 1:
        yield Problem(at, "either 'below' or 'above' is expected here", "write {below: 0.1}")
        return
    (kind,) = metric.stop.model_fields_set
    if (kind == "below") != (metric.goal == "min"):
        fits = "below" if metric.goal == "min" else "above"
        message = f"'{kind}' contradicts goal: {metric.goal}"
        yield Problem((*at, kind), message, f"write {fits}", at="key")
    if not spec.sweep:
        yield Problem(at, "'stop' needs a sweep, whose other tasks it stops", "remove it", at="key")
    if metric.file is not None:
        message = "'stop' can only watch the log, not a file"
        yield Problem(at, message, "print the number, and remove 'file'", at="key")


def check_scaling(spec: Spec) -> Iterator[Problem]:
    """Yield a problem for each rule that the numbers of nodes in `scaling` of *spec* break."""
    if spec.scaling is None:
        return
    at = ("scaling",)
    if spec.sweep:
        message = "'sweep' and 'scaling' cannot be used together"
        yield Problem(at, message, "keep one of them", at="key")
    yield from _check_unit(spec, spec.scaling)
    sizes = spec.scaling.sizes
    for i, size in enumerate(sizes):
        if size in sizes[:i]:
            yield Problem(at, f"{size} is listed twice")
    longest = make_name(spec, max(sizes))
    if not compiled(NAME).fullmatch(longest):
        yield Problem(at, f"'{longest}' is too long for the name of a run", "shorten the name")
    if spec.metric is not None and spec.metric.goal == "min":
        message = "'scaling' compares samples per second, so the largest is the best"
        yield Problem(("metric", "goal"), message, "write max")


def _check_unit(spec: Spec, scaling: Scaling) -> Iterator[Problem]:
    """Yield a problem for each other field that already says what the sizes of *scaling* say."""
    if spec.cluster.nodes.max > 1:
        by_nodes = scaling.unit == "nodes"
        reason = (
            "already gives the numbers of nodes" if by_nodes else "compares processes of one node"
        )
        yield Problem(("cluster", "nodes"), f"'scaling' {reason}", "remove it", at="key")
    if scaling.unit == "nodes":
        return
    if spec.processes_chosen:
        message = "'scaling' already gives the numbers of processes"
        yield Problem(("processes_per_node",), message, "remove it", at="key")
    if spec.launch == "none":
        message = "launch: none starts one process per node"
        yield Problem(("scaling",), message, "set launch: mpi, horovod, torchrun or srun", at="key")
