"""Check configurations by the schema of aws-parallelcluster, in the environment of the library.

Standard input is a JSON list of configurations. Standard output is a JSON object with the library's version and, for
each configuration, a list of [path, message]. The schema needs no network, no credentials and no Node.js.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any


def main() -> None:
    # The library reads the region when it is imported; no request is made.
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    from pcluster.schemas.cluster_schema import ClusterSchema
    from pcluster.utils import get_installed_version

    results = [problems(ClusterSchema, configuration) for configuration in json.load(sys.stdin)]
    json.dump({"version": str(get_installed_version()), "problems": results}, sys.stdout)


def problems(schema: Any, configuration: Any) -> list[list[str]]:
    """Return the problems that the schema finds, each as a path and a message."""
    try:
        schema(cluster_name="runspec").load(configuration)
    except Exception as exc:  # noqa: BLE001 - the schema's code may raise anything for a wrong type
        messages = getattr(exc, "messages", None)
        return [list(pair) for pair in flat(messages or {"": [f"{type(exc).__name__}: {exc}"]})]
    return []


def flat(messages: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each message with its path.

    >>> list(flat({"Image": {"Os": ["Must be one of: a."]}, "Queues": {0: {"Name": ["Missing."]}}}))
    [('Image.Os', 'Must be one of: a.'), ('Queues[0].Name', 'Missing.')]
    """
    if isinstance(messages, dict):
        for key, value in messages.items():
            if key == "_schema":
                yield from flat(value, path)
            elif isinstance(key, int):
                yield from flat(value, f"{path}[{key}]")
            else:
                yield from flat(value, f"{path}.{key}" if path else str(key))
    elif isinstance(messages, list):
        for message in messages:
            yield from flat(message, path)
    else:
        yield path, str(messages)


if __name__ == "__main__":
    main()
