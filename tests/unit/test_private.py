"""Tests use what is public: a private member that a test needs is public, or is tested through what is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.root import ROOT

# Private names of named tuples and of libraries, which offer no public way.
ALLOWED = set(
    """
_asdict _replace _fields _make _exit
_attribute_map _validation _visibility _rest_name_input _models _pipeline _impl_policies _client
_session _parse_block_device_mapping _jobs
""".split()
)


def test_no_test_reaches_into_a_private_member_of_the_product() -> None:
    paths = [path for path in sorted((ROOT / "tests").rglob("*.py")) if path != Path(__file__)]

    assert len(paths) > 300
    assert [found for path in paths for found in private(path)] == []


def private(path: Path) -> Iterator[str]:
    """Yield the uses of private members that *path* does not define itself."""
    tree = ast.parse(path.read_text())
    own = {name for node in ast.walk(tree) for name in defined(node)}
    for node in ast.walk(tree):
        for name in used(node):
            if name.startswith("_") and not name.startswith("__") and name not in own | ALLOWED:
                yield f"{path.relative_to(ROOT)}:{node.lineno}: {name}"  # type: ignore[attr-defined]


def used(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
            yield node.attr
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
        name = node.args[1] if len(node.args) > 1 else None
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value


def defined(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
        yield node.attr
