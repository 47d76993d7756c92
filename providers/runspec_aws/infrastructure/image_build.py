"""Build an image from a folder, and push it to a registry, with podman, docker or buildah."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from runspec_aws.infrastructure.image_registry import Login, find_digest, is_loopback, parse_name
from runspec_jobs.provider import Bundle, Facts, Progress, RemoteError, Unavailable, short_hash
from runspec_jobs.provider.job_manifest import CONTEXT, RECIPES
from runspec_jobs.provider.registry_login import docker_auth

ENGINES = ("podman", "docker", "buildah")
ANSWER_S = 60.0
# How a build reaches the network depends on this machine: the image does not keep these settings.
PASSED = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
Tell = Callable[[str], None]


def name_built(repository: str, file: str | None, platform: str, facts: Facts) -> str:
    """Return the name of the image that is built in *repository*, whose tag is a hash of what it is built from."""
    made = {"context": facts.sources[CONTEXT].name, "file": file, "platform": platform}
    return f"{repository}:runspec-{short_hash(made)}"


def find_built(image: str, login: Login | None) -> dict[str, str] | None:
    """Return the name of *image* with its digest, if the registry has it."""
    digest = find_digest(image, login)
    return None if digest is None else {"image": f"{image.rpartition(':')[0]}@{digest}"}


def build_and_push(
    bundle: Bundle,
    image: str,
    file: str | None,
    platform: str,
    login: Login | None,
    tell: Tell,
    progress: Progress,
) -> dict[str, str]:
    """Build *image* from *bundle* and push it; return its name with the digest that the registry says.

    *login* is for this push alone; without it, the engine uses the user's own. Raises Unavailable without an engine,
    and RemoteError with the last line of one that fails.
    """
    engine = find_engine()
    with tempfile.TemporaryDirectory(prefix="runspec-build-") as made:
        context, settings = Path(made, "context"), Path(made, "login")
        _write(bundle, context, progress)
        recipe = file or next(each for each in RECIPES if (context / each).is_file())
        passed = [word for name in PASSED if name in os.environ for word in ("--build-arg", name)]
        line = [engine, "build", "--tag", image, "--platform", platform, *passed]
        _run([*line, "--file", str(context / recipe), str(context)], "build", f"see {recipe}", tell)
        before, after = make_login_words(engine, settings, image, login)
        host = parse_name(image).host
        hint = f"log in with {engine} login {host}, and see that you may push there"
        _run([engine, *before, "push", *after, image], "push", hint, tell)
    found = find_built(image, login)
    if found is None:
        raise RemoteError(f"{engine} has pushed {image}, and the registry does not have it")
    return found


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
        done = subprocess.run(line, capture_output=True, cwd="/", timeout=ANSWER_S, check=False)
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


def make_login_words(
    engine: str, folder: Path, image: str, login: Login | None
) -> tuple[Sequence[str], Sequence[str]]:
    """Return words before and after `push`, by which *engine* reads *login* from a private file."""
    host = parse_name(image).host
    plain = ("--tls-verify=false",) if is_loopback(host) and engine != "docker" else ()
    if login is None:
        return (), plain
    folder.mkdir(mode=0o700)
    file = folder / "config.json"
    content = docker_auth({"registry": host, "user": login.user, "password": login.password})
    if engine == "docker":
        content |= _keep_context(folder)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as text:
        json.dump(content, text)
    if engine == "docker":
        return ("--config", str(folder)), plain
    return (), ("--authfile", str(file), *plain)


def _keep_context(folder: Path) -> dict[str, str]:
    """Give *folder* the contexts of the user's docker, and return which one is in use: it names the service.

    https://docs.docker.com/engine/manage-resources/contexts/
    """
    own = Path(os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker"))
    if (own / "contexts").is_dir():
        (folder / "contexts").symlink_to((own / "contexts").absolute())
    try:
        current = json.loads((own / "config.json").read_text()).get("currentContext")
    except (OSError, ValueError, AttributeError):
        # No such file, or none of docker's: then docker's default context is in use.
        return {}
    return {"currentContext": current} if isinstance(current, str) else {}


def _run(line: Sequence[str], verb: str, hint: str, tell: Tell) -> None:
    last = ""
    with subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd="/",  # the folder of a job file must not act as settings
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None, "BUG: it is a pipe"
        for text in process.stdout:
            if text.strip():
                last = text.strip()
                tell(last)
    if process.returncode:
        raise RemoteError(f"cannot {verb} the image: {last}", hint)
