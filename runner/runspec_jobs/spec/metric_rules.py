"""What must hold of `metric` and `scaling`, beside the rest of the spec."""

from __future__ import annotations

from collections.abc import Iterator

from runspec_jobs.diagnostics.problem import Problem, did_you_mean
from runspec_jobs.spec.metric import Metric
from runspec_jobs.spec.model import Spec
from runspec_jobs.spec.regex_safety import trouble
from runspec_jobs.spec.types import NAME, compiled


def wrong_metric(spec: Spec) -> Iterator[Problem]:
    """Give what is wrong with the metric of *spec*."""
    if spec.metric is None:
        return
    yield from _found_by(spec.metric)
    yield from _file(spec, spec.metric)
    yield from _stop(spec, spec.metric)


def _found_by(metric: Metric) -> Iterator[Problem]:
    if metric.pattern is not None and (wrong := trouble(metric.pattern)):
        yield Problem(("metric", "pattern"), *wrong)
    if metric.table is not None:
        yield from _table(metric)
        return
    if metric.pattern is None and metric.reader is None:
        hint = "add pattern: 'accuracy=([0-9.]+)', or reader: horovod"
        yield Problem(("metric",), "nothing says how it is found", hint)
    if metric.pattern is not None and metric.reader is not None:
        what = "both 'pattern' and 'reader' are there"
        yield Problem(("metric", "reader"), what, "keep one of them", at="key")
    if metric.column is not None and metric.reader is None:
        what, hint = "a column of no table", "add reader, or a file that ends in .csv"
        yield Problem(("metric", "column"), what, hint, at="key")
    if metric.key is not None:
        what, hint = "a key of no JSON", "add a file that ends in .json"
        yield Problem(("metric", "key"), what, hint, at="key")


def _table(metric: Metric) -> Iterator[Problem]:
    """Of JSON and CSV one key is asked, and nothing else."""
    wanted, other = ("column", "key") if metric.table == ".csv" else ("key", "column")
    if getattr(metric, wanted) is None:
        what = f"nothing says where in {metric.file} it is"
        yield Problem(("metric", "file"), what, f"add {wanted}: NAME")
    for name in ("pattern", "reader", other):
        if getattr(metric, name) is not None:
            what = f"a {metric.table} file is read by its {wanted}"
            yield Problem(("metric", name), what, "take it away", at="key")


def _file(spec: Spec, metric: Metric) -> Iterator[Problem]:
    if metric.file is None:
        return
    output, _, path = metric.file.partition("/")
    known = [one.name for one in spec.outputs]
    where = ("metric", "file")
    if output not in known:
        what = f"there is no '{output}' in outputs"
        yield Problem(where, what, did_you_mean(output, known) or "write OUTPUT/path")
    elif not path or ".." in path.split("/"):
        yield Problem(where, f"'{metric.file}' names no file of an output", "write OUTPUT/path")


def _stop(spec: Spec, metric: Metric) -> Iterator[Problem]:
    if metric.stop is None:
        return
    at = ("metric", "stop")
    if len(metric.stop.model_fields_set) != 1:
        yield Problem(at, "one of below or above belongs here", "write {below: 0.1}")
        return
    (kind,) = metric.stop.model_fields_set
    if (kind == "below") != (metric.goal == "min"):
        fits = "below" if metric.goal == "min" else "above"
        what = f"the goal is {metric.goal}, and {kind} is the other way"
        yield Problem((*at, kind), what, f"write {fits}", at="key")
    if not spec.sweep:
        yield Problem(at, "there is no sweep whose rest could be stopped", "take it away", at="key")
    if metric.file is not None:
        what = "a run is watched by what it prints"
        yield Problem(at, what, "print the number, and take file away", at="key")


def wrong_scaling(spec: Spec) -> Iterator[Problem]:
    """Give what is wrong with the sizes of *spec*."""
    if spec.scaling is None:
        return
    at = ("scaling",)
    if spec.sweep:
        what = "a sweep and several sizes are too much at once"
        yield Problem(at, what, "keep one of them", at="key")
    if spec.cluster.nodes.max > 1:
        what = "the sizes say how many nodes"
        yield Problem(("cluster", "nodes"), what, "take it away", at="key")
    sizes = spec.scaling.nodes
    for i, size in enumerate(sizes):
        if size in sizes[:i]:
            yield Problem(at, f"{size} is there twice")
    if not compiled(NAME).fullmatch(f"{spec.name}-n{max(sizes)}"):
        what = f"'{spec.name}-n{max(sizes)}' is too long for the name of a run"
        yield Problem(at, what, "shorten the name")
    if spec.metric is not None and spec.metric.goal == "min":
        what = "sizes are compared by samples a second: more is better"
        yield Problem(("metric", "goal"), what, "write max")
