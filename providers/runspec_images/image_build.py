"""Build an image from a folder, and push it to a registry, with podman, docker or buildah."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runspec_images.engine_login import EngineOptions, write_login
from runspec_images.image_plan import is_loopback, parse_name
from runspec_images.image_registry import find_digest
from runspec_images.registry_logins import Login
from runspec_jobs.provider import Bundle, Progress, RemoteError, Unavailable
from runspec_jobs.provider.job_manifest import RECIPES

ENGINES = ("podman", "docker", "buildah")
ANSWER_S = 60.0
# How a build reaches the network depends on this machine: the image does not keep these settings.
PASSED = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
AWAY = "/"  # engines are not started in the folder of a job file, whose content must not act as settings
# The last line of `docker push`, which has no option for it:
# https://github.com/moby/moby/blob/master/daemon/internal/distribution/push_v2.go
PUSHED = re.compile(r"\S+: digest: (sha256:[0-9a-f]{64}) size: \d+")
Tell = Callable[[str], None]


def find_built(image: str, login: Login | None) -> dict[str, str] | None:
    """Return the name of *image* with its digest, if the registry has it."""
    digest = find_digest(image, login)
    return None if digest is None else _name_pushed(image, digest)


def _name_pushed(image: str, digest: str) -> dict[str, str]:
    return {"image": f"{image.rpartition(':')[0]}@{digest}"}


def build_and_push(
    bundle: Bundle,
    params: Mapping[str, Any],
    login: Login | None,
    tell: Tell,
    progress: Progress,
) -> dict[str, str]:
    """Build the image of a request of `plan_build` from *bundle* and push it; return its name with its digest.

    The digest is what the engine says that it has pushed: the tag may already name what another machine pushed.
    *login* is for this push alone; without it, the engine uses the user's own. Raises Unavailable without an engine,
    and RemoteError with the last line of one that fails.
    """
    engine, image, file = find_engine(), params["image"], params["file"]
    with tempfile.TemporaryDirectory(prefix="runspec-build-") as made:
        context, settings = Path(made, "context"), Path(made, "login")
        _write(bundle, context, progress)
        line = make_build_line(engine, image, context, file, ("--platform", params["platform"]))
        recipe = line[-2].rpartition("/")[2]
        _demand(run_engine(line, tell), "build", f"see {recipe}")
        options, told = make_login_options(engine, settings, image, login), list[str]()
        noted = Path(made, "digest")
        after = (*options.after, *(() if engine == "docker" else ("--digestfile", str(noted))))

        def listen(text: str) -> None:
            told.append(text)
            tell(text)

        host = parse_name(image).host
        hint = f"log in with {engine} login {host}, and see that you may push there"
        line = [engine, *options.before, "push", *after, image]
        _demand(run_engine(line, listen), "push", hint)
        digest = read_digest(told, noted)
    if digest is None:
        raise RemoteError(f"{engine} has pushed {image}, and has told no digest")
    return _name_pushed(image, digest)


def make_build_line(
    engine: str, image: str, context: Path, file: str | None, more: Iterable[str] = ()
) -> list[str]:
    """Return the command that builds *image* from the folder *context*; without *file*, from its first recipe."""
    recipe = file or next(each for each in RECIPES if (context / each).is_file())
    words = [engine, "build", "--tag", image, *more, *pass_proxies()]
    return [*words, "--file", str(context / recipe), str(context)]


def pass_proxies() -> list[str]:
    """Return the options of a build by which it reaches the network as this machine does."""
    return [word for name in PASSED if name in os.environ for word in ("--build-arg", name)]


def read_digest(told: Iterable[str], noted: Path) -> str | None:
    """Return the digest of a push: podman and buildah write it into the file *noted*, docker tells it."""
    if noted.is_file():
        return noted.read_text().strip()
    found = [match[1] for match in map(PUSHED.fullmatch, told) if match]
    return found[-1] if found else None


def find_engine() -> str:
    for name in ENGINES:
        if shutil.which(name) and _answers(name):
            return name
    message = "no container engine works on this machine, which container.build needs"
    raise Unavailable(
        message, "install podman, docker or buildah, or write container: {image: NAME}"
    )


def _answers(engine: str) -> bool:
    """Return whether *engine* works: the service of docker may be away, or hang."""
    line = [engine, "version"]
    try:
        done = subprocess.run(line, capture_output=True, cwd=AWAY, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _write(bundle: Bundle, folder: Path, progress: Progress) -> None:
    done, total = 0, sum(file.bytes for file in bundle.files)
    folder.mkdir()
    for file in bundle.files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with bundle.open(file) as source, path.open("wb") as copy:
            while data := source.read(1 << 20):
                copy.write(data)
                done += len(data)
                progress(done, total)
        path.chmod(file.permissions)


def make_login_options(engine: str, folder: Path, image: str, login: Login | None) -> EngineOptions:
    """Return the options of a push, by which *engine* reads *login* from a file in *folder*, which is made."""
    host = parse_name(image).host
    plain = ("--tls-verify=false",) if is_loopback(host) and engine != "docker" else ()
    if login is None:
        return EngineOptions(after=plain)
    folder.mkdir(mode=0o700)
    words = {"registry": host, "user": login.user, "password": login.password}
    options = write_login(engine, folder, words)
    return options._replace(after=(*options.after, *plain))


def run_engine(line: Sequence[str], tell: Tell) -> str | None:
    """Run *line* and pass what it prints to *tell*; return the last line of it if it fails, else None."""
    last = "no reason"
    with subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=AWAY,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None, "BUG: it is a pipe"
        for text in process.stdout:
            if text.strip():
                last = text.strip()
                tell(last)
    return last if process.returncode else None


def _demand(failed: str | None, verb: str, hint: str) -> None:
    if failed is not None:
        raise RemoteError(f"cannot {verb} the image: {failed}", hint)
