"""Starts a real sandbox to see whether a method works here: it must hide one file, and show another.

The file that it must show is the control: a sandbox that shows nothing has not shown that it hides anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from sandwright.errors import SandwrightError
from sandwright.methods.contract import Backend, Code, Preflight
from sandwright.methods.reader import STATUS, reader_program
from sandwright.methods.shared.artifacts import write_artifacts
from sandwright.runtime.launch import Ended, base_environment, launch
from sandwright.runtime.scratch import scratch_directory

HIDDEN = "hidden/word"
SHOWN = "shown"
"""Files of the trial's project, by their path in it."""

HOST_ROOT = "{read: [/], write: [$PROJECT], deny: [$PROJECT/hidden]}"
IMAGE_ROOT = "{read: [$PROJECT], deny: [$PROJECT/hidden]}"
"""The rules for the file system of a trial: over the host's root, and over an image's."""


@dataclass(frozen=True)
class Failed:
    """A trial that did not end as it must: `code`, and what was said."""

    code: Code
    said: str


Explain = Callable[[Failed], tuple[Code, str, str]]
"""Makes a code, a message and a remedy of a failed start."""


def try_out(
    backend: Backend,
    filesystem: str,
    *,
    limit: float,
    environment: Mapping[str, str] | None = None,
    image: str = "debian",
) -> Failed | None:
    """Render a policy with these rules, and start its sandbox; give what went wrong.

    `environment` is for the launcher, beside the little that any program needs. `image` is what an engine
    runs.
    """
    try:
        with scratch_directory() as scratch:
            rules = f"image: '{image}'\nfilesystem: {filesystem}\n"
            return _try(backend, rules, scratch, limit, environment or {})
    except (SandwrightError, OSError) as error:
        return Failed("not-started", str(error).splitlines()[-1])


def _try(
    backend: Backend, rules: str, scratch: Path, limit: float, environment: Mapping[str, str]
) -> Failed | None:
    from sandwright.policy.collect import collect  # noqa: PLC0415 - they cost what only a trial is worth
    from sandwright.policy.load import layer  # noqa: PLC0415
    from sandwright.policy.merged import MergedPolicy  # noqa: PLC0415

    shown, hidden = uuid.uuid4().hex, uuid.uuid4().hex
    project = scratch / "project"
    (project / HIDDEN).parent.mkdir(parents=True)
    (project / HIDDEN).write_text(hidden)
    (project / SHOWN).write_text(shown)
    text = f"schema: 1\nextends: []\nmethod: {backend.name}\n{rules}"
    policy = MergedPolicy.from_layers([layer(text, file="a trial", methods=(backend.name,))])
    facts = collect(policy, project=project, environ={"HOME": str(scratch)})
    reader = project / "reader"
    architecture = facts.platform.rpartition("/")[2]
    paths = (bytes(project / SHOWN), bytes(project / HIDDEN))
    reader.write_bytes(reader_program(architecture, *paths))
    reader.chmod(0o755)
    resolved = policy.resolve(facts)
    write_artifacts(scratch / "out", backend.render(resolved).artifacts)
    ended = launch(
        backend.wrap(scratch / "out", [str(reader)]),
        limit=limit,
        stop=Event(),
        env={**base_environment(), **environment},
    )
    return _judge(ended, shown.encode(), hidden.encode())


def _judge(ended: Ended, shown: bytes, hidden: bytes) -> Failed | None:
    if hidden in ended.stdout:
        return Failed("not-denied", "it started, and read a file that its policy hides")
    if ended.how == "timeout":
        return Failed("hangs", ended.describe())
    if shown not in ended.stdout:
        return Failed("not-started", ended.describe())
    if ended.status != STATUS:
        return Failed("not-started", f"its command ended with {STATUS}, and it with {ended.status}")
    return None


def judged(method: str, failed: Failed | None, explain: Explain) -> Preflight:
    """What a trial says of a method."""
    if failed is None:
        return Preflight(method, "ready")
    if failed.code != "not-started":
        return Preflight(method, failed.code, failed.said)
    return Preflight(method, *explain(failed))
