"""One step of work in a project, outside or with a method, and what came of it."""

from __future__ import annotations

import contextlib
import getpass
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from sandwright.policy import load

SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
OUTSIDE = "outside"
SUBJECT = "Change inside"
COMMIT = f'echo x >>CHANGED && git add CHANGED && git commit -q -m "{SUBJECT}" && git log -1 --format=%s'
REVIEW = " review"
"""At the end of a method's name in the table: its steps change a copy of the project."""
WITHOUT_HOST = ("vm",)
"""Methods that can't have the host's network."""
LIMIT = 1800
"""Seconds for one step, by default."""
SHOWN = 1500
"""Characters of its output that are kept, the last ones."""


@dataclass(frozen=True)
class Cell:
    """What came of a step: `ok`, `failed`, `differs`, `as outside` or `cannot`.

    `differs`: the tests say something else than outside. `date` is the day (ISO 8601).
    """

    project: str
    method: str
    user: str
    step: str
    verdict: str
    seconds: float
    found: str = ""
    output: str = ""
    date: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Which cell of the table it is."""
        return self.project, self.user, self.method, self.step


@dataclass(frozen=True)
class Project:
    """A project, as `projects.yaml` describes it."""

    name: str
    source: Mapping[str, str]
    steps: Mapping[str, str]
    result: str
    cache: Sequence[str] = ()
    needs: Sequence[str] = ()
    downloads: bool = False
    cannot: Mapping[str, Mapping[str, str]] | None = None

    def script(self, step: str) -> str:
        """What is done in a step."""
        return COMMIT if step == "commit" else self.steps[step]

    def reason(self, method: str, step: str) -> str:
        """Why a step can't be done with a method; empty where it can."""
        return (self.cannot or {}).get(method.removesuffix(REVIEW), {}).get(step, "")


def take(
    project: Project, method: str, step: str, place: Path, expected: str = "", *, limit: int = LIMIT
) -> Cell:
    """Do a step in `place`, a copy of the project. `expected` is what the tests said outside.

    `limit` is in seconds.
    """
    argv = ["sh", "-ec", project.script(step)]
    if method != OUTSIDE:
        words = ("run", "--trust-policy", *_network(project, method, step), "--time", f"{limit}s")
        argv = [*SANDWRIGHT, *words, "--", *argv]
    began = time.monotonic()
    status, output = _ended(argv, place, limit + 60)
    seconds = round(time.monotonic() - began, 1)
    found = "\n".join(sorted(re.findall(project.result, output, re.MULTILINE))) if step == "test" else ""
    verdict = _verdict(step, status, found, found if method == OUTSIDE else expected)
    if step == "commit" and not _is_committed(place, reviewed=method.endswith(REVIEW)):
        verdict = "failed"
    if verdict != "ok" and (reason := project.reason(method, step)):
        verdict, output = "cannot", reason
    shown = "" if verdict == "ok" else f"exit {status}\n{output[-SHOWN:]}"
    day = datetime.now(UTC).date().isoformat()
    return Cell(project.name, method, getpass.getuser(), step, verdict, seconds, found, shown, day)


def _verdict(step: str, status: int, found: str, expected: str) -> str:
    """Tests that fail outside, and inside in the same way, are `as outside`: no proof that they work."""
    if step != "test":
        return "ok" if status == 0 else "failed"
    if not found:
        return "failed"
    if found != expected:
        return "differs"
    return "ok" if status == 0 else "as outside"


def _network(project: Project, method: str, step: str) -> list[str]:
    """What the network is in a step: for dependencies as the preset has it, else none.

    Where the registries' names lead into a network that is not public, as in companies with a mirror, the
    proxy refuses them unless the policy lists them as such: so it is with methods that can't have the host's
    network, which is taken otherwise.
    """
    if step != "deps" or not project.downloads:
        return ["--set", "network.mode=none"]
    hosts = _registries()
    if not any(map(_is_private, hosts)):
        return []
    if method.removesuffix(REVIEW) not in WITHOUT_HOST:
        return ["--set", "network.mode=host"]
    return ["--set", f"network.allow={json.dumps([{'host': host, 'private': True} for host in hosts])}"]


def _registries() -> list[str]:
    """The hosts that the preset `build` lets package managers reach."""
    preset = yaml.safe_load((Path(load.__file__).parent / "presets/build.yaml").read_text())
    return [str(host) for host in preset["network"]["allow"]]


def _is_private(host: str) -> bool:
    try:
        return not ipaddress.ip_address(socket.gethostbyname(host)).is_global
    except OSError:
        return False


def _ended(argv: Sequence[str], place: Path, limit: int) -> tuple[int, str]:
    """Run a command to its end, or for its time, then all that is in its session is ended."""
    with tempfile.TemporaryFile() as log:
        started = subprocess.Popen(
            argv,
            cwd=place,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            status = started.wait(limit)
        except subprocess.TimeoutExpired:
            status = 124
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGTERM if started.poll() is None else signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(30)
        log.seek(0)
        return status, log.read().decode(errors="replace")


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "VIRTUAL_ENV"))}


def _is_committed(place: Path, *, reviewed: bool) -> bool:
    """Whether the host has the commit; with a review, since the changes were applied and not before."""
    if reviewed:
        if _last_commit(place) == SUBJECT:
            return False
        subprocess.run([*SANDWRIGHT, "apply"], cwd=place, capture_output=True, timeout=600, check=False)
    return _last_commit(place) == SUBJECT


def discard(place: Path) -> None:
    """Remove the copy of a project in review."""
    subprocess.run([*SANDWRIGHT, "discard", "--yes"], cwd=place, capture_output=True, timeout=600, check=True)


def _last_commit(place: Path) -> str:
    return subprocess.run(
        ["git", "log", "-1", "--format=%s"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    ).stdout.strip()
