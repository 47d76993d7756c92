"""The ENTRYPOINT of a container image, for a job that runs it in place of a program of its own.

runspec replaces the ENTRYPOINT of an image with its own program, which runs the image's later. Only the engine knows
it: an image does not contain its configuration.
"""

import json
import shlex
import subprocess
from typing import Any, List, Mapping, Optional

VARIABLE = "RUNSPEC_ENTRYPOINT"
LONGEST_S = 60.0


def read(engine: str, image: str) -> str:
    """Return shell code that runs the ENTRYPOINT of *image*, which podman or docker has. Raise OSError if it has none.

    https://docs.podman.io/en/latest/markdown/podman-image-inspect.1.html
    """
    argv = [engine, "image", "inspect", "--format", "{{json .Config}}", image]
    try:
        asked = subprocess.run(  # noqa: UP022 - Python 3.6 has no capture_output
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=LONGEST_S,
            check=True,
        )
        config = json.loads(asked.stdout.decode("utf-8"))
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip()
        raise OSError("{} does not show {}: {}".format(engine, image, said)) from error
    except (subprocess.TimeoutExpired, ValueError) as error:
        raise OSError("{} does not show {}: {}".format(engine, image, error)) from error
    code = write(config)
    if code is None:
        raise OSError("the image {} has neither ENTRYPOINT nor CMD".format(image))
    return code


def write(config: Mapping[str, Any]) -> Optional[str]:
    """Return shell code that sets the words of the program, and its folder; None if *config* has no program.

    The parameters of the shell are the arguments of the job, in whose place there is the CMD if there are none.
    https://github.com/opencontainers/image-spec/blob/main/config.md

    The code is one line, because engines read variables from files with a line for each.

    >>> print(write({"Entrypoint": ["/serve", "it's"], "Cmd": ["-v"], "WorkingDir": "/app"}))
    cd /app || exit 126; [ $# -gt 0 ] || set -- -v; set -- /serve 'it'"'"'s' "$@"
    """
    entrypoint, command = config.get("Entrypoint") or [], config.get("Cmd") or []
    if not entrypoint and not command:
        return None
    lines = []
    if config.get("WorkingDir") not in (None, ""):
        lines.append("cd {} || exit 126".format(shlex.quote(config["WorkingDir"])))
    if command:
        lines.append("[ $# -gt 0 ] || set -- {}".format(_quoted(command)))
    if entrypoint:
        lines.append('set -- {} "$@"'.format(_quoted(entrypoint)))
    code = "; ".join(lines)
    if "\n" in code:
        escaped = code.replace("\\", "\\\\").replace("\n", "\\n")
        return 'eval "$(printf %b {})"'.format(shlex.quote(escaped))
    return code


def _quoted(words: List[str]) -> str:
    return " ".join(shlex.quote(word) for word in words)
