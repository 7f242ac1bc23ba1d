"""What has to work in an outer container: the workload by which a candidate is judged, run for real."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright.errors import CommandFailed, SandwrightError
from sandwright.methods.gvisor.outer.container import OuterContainer, outer_container
from sandwright.methods.gvisor.outer.render import Grant
from sandwright.policy.collect import collect_facts
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.names import GvisorEngine
from sandwright.policy.resolved import ResolvedPolicy

LIMIT = 45.0
"""Seconds for each step: some candidates don't fail, but hang."""

UID = 1000
"""Who a container's process is, for runsc without root."""

_STATUS = 42

_SCRIPT = (
    "set -e; cat in; echo out >made; echo t >/tmp/t; mkdir d; mv made d/made; ln -s d l; "
    "(sleep 0 & wait); seq 3 | wc -l; cat /proc/self/status >/tmp/s; test ! -e /host; "
    f"cat word; exit {_STATUS}"
)
"""Files of the host and of the sandbox's own, processes, pipes, /proc, and an end of its own."""


@dataclass(frozen=True)
class WorkloadPlace:
    """What a workload runs over: an engine, a root with busybox, whether runsc is root."""

    engine: GvisorEngine
    rootfs: Path
    rootless: bool


def fault(place: WorkloadPlace, given: Grant, *, network: str = "none") -> str:
    """Why the workload does not run to its end with this; empty when it does."""
    with tempfile.TemporaryDirectory(prefix="sandwright-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        word = uuid.uuid4().hex
        (project / "in").write_text("in\n")
        (project / "word").write_text(word)
        policy = _policy(place, project, network)
        try:
            with outer_container(policy, place.rootfs, granted=given) as container:
                return next(_faults(container, project, word), "")
        except CommandFailed as error:
            hung = error.status is None
            return f"it hung for {LIMIT:g} s" if hung else _short(str(error))
        except SandwrightError as error:
            return _short(str(error))


def _policy(place: WorkloadPlace, project: Path, network: str) -> ResolvedPolicy:
    text = (
        f"schema: 1\nextends: []\nmethod: gvisor\ngvisor: {{engine: {place.engine}}}\n"
        f"network: {{mode: {network}}}\nfilesystem: {{read: [], write: [$PROJECT]}}\n"
    )
    policy = MergedPolicy.from_text(text)
    facts = collect_facts(policy, project=project, environ={"HOME": str(project.parent)})
    if place.rootless:
        _give(project)
        facts = replace(facts, uid=UID, gid=UID, user="caller")
    else:
        facts = replace(facts, uid=0, gid=0, user="root")
    return policy.resolve(facts)


def _give(project: Path) -> None:
    project.parent.chmod(0o755)
    for path in (project, *project.iterdir()):
        os.chown(path, UID, UID)


def _faults(container: OuterContainer, project: Path, word: str) -> Iterator[str]:
    result = container.run("/bin/sh", "-c", f"cd {project}; {_SCRIPT}", limit=LIMIT)
    if result.status != _STATUS or not result.stdout.endswith(word.encode()):
        yield _short(result.stderr) or f"its command ended with {result.status}"
    if not (project / "d/made").exists():
        yield "what its command made is not on the host"
    yield from _kept(container)


def _kept(container: OuterContainer) -> Iterator[str]:
    """A sandbox that is made, started, entered, signalled and removed."""
    container.create("one", "/bin/sh", "-c", "echo began; exec sleep 100")
    container.start("one")
    entered = container.exec("one", "/bin/sh", "-c", f"exit {_STATUS}", limit=LIMIT)
    if entered.status != _STATUS:
        yield f"exec: {_short(entered.stderr)}"
    container.kill("one", "KILL")
    ended = container.wait("one", limit=LIMIT)
    if ended != 128 + 9:
        yield f"a killed command ended with {ended}"
    container.delete("one")
    if container.sandboxes():
        yield "a deleted sandbox is still there"


def _short(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return " | ".join(lines[-2:])[:300]
