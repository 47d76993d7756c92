"""Each test is recorded with the lines of the product that it ran, also in its threads."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from reached_lines import Reached, Recorder, list_tests, read_record, write_record

SOURCE = """\
def f(a):
    if a:
        return 1
    return 2
"""


def test_a_test_is_recorded_with_the_lines_it_ran(tmp_path: Path) -> None:
    functions: dict[str, Any] = {}
    for name in ("runner/a.py", "tests/b.py"):
        exec(compile(SOURCE, str(tmp_path / name), "exec"), functions)
        functions[name] = functions["f"]
    recorder = Recorder(tmp_path)

    running = recorder.pytest_runtest_protocol(cast(Any, SimpleNamespace(nodeid="x")))
    next(running)
    functions["tests/b.py"](1)
    functions["runner/a.py"](1)
    thread = threading.Thread(target=functions["runner/a.py"], args=[0])
    thread.start()
    thread.join()
    assert next(running, "ended") == "ended"
    functions["runner/a.py"](1)

    assert recorder.tests["x"].lines == {"runner/a.py": 0b11110}


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    tests = {"x": Reached(0.5, {"runner/a.py": 1 << 200}), "y": Reached(0.25, {})}

    write_record(tmp_path / "a", tests)

    assert read_record(tmp_path / "a") == tests


def test_the_tests_of_a_line_come_quickest_first() -> None:
    tests = {
        "slow": Reached(2.0, {"a": 0b110}),
        "quick": Reached(1.0, {"a": 0b100}),
        "other": Reached(0.5, {"a": 0b10000, "b": 0b100}),
    }

    assert list_tests(tests, "a", [2, 3]) == ["quick", "slow"]
    assert list_tests(tests, "a") == ["other", "quick", "slow"]
