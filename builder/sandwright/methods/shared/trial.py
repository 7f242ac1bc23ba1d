"""The trial sandbox of a preflight: rendered from a policy, it must show one file and hide another."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Protocol

from sandwright.errors import SandwrightError
from sandwright.methods.contract import Code, Preflight
from sandwright.methods.shared import launched
from sandwright.methods.shared.artifacts import write_artifacts
from sandwright.policy.collect import collect_facts
from sandwright.policy.load import layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered
from sandwright.runtime.probe import own_probe
from sandwright.runtime.probe.protocol import ProbeAnswer, attempt
from sandwright.runtime.scratch import hidden_directory, scratch_directory
from sandwright.runtime.trial import Failed, Trial
from sandwright.watchdog import run_bounded, runtime_environment

HIDDEN = "hidden/word"
SHOWN = "shown"
"""Files of the trial's project, by their path in it."""

HOST_ROOT = "{read: [/], write: [$PROJECT], deny: [$PROJECT/hidden]}"
IMAGE_ROOT = "{read: [$PROJECT], deny: [$PROJECT/hidden]}"
"""The rules for the file system of a trial: over the host's root, and over an image's."""


class Triable(Protocol):
    """A backend that can be tried out: it renders policies and starts the launcher."""

    @property
    def name(self) -> str:
        """The method's name in a policy."""
        ...

    def render(self, policy: ResolvedPolicy) -> Rendered:
        """The artifacts for a policy."""
        ...

    def wrap(self, directory: Path, argv: Sequence[str], *, terminal: bool = False) -> tuple[str, ...]:
        """The command line that runs `argv` in the sandbox whose artifacts lie in `directory`."""
        ...


_YAMA = "kernel.yama.ptrace_scope"

Explain = Callable[[Failed], tuple[Code, str, str]]
"""Makes a code, a message and a remedy of a failed start."""


def try_out(
    backend: Triable,
    filesystem: str,
    *,
    limit: float,
    environment: Mapping[str, str] | None = None,
    image: str = "debian",
) -> Failed | None:
    """Render a policy with these rules, and start its sandbox; give the error.

    `environment` is for the launcher, besides the few variables that every program needs. `image` is the
    image for an engine.
    """
    try:
        with scratch_directory() as scratch:
            rules = f"image: '{image}'\nfilesystem: {filesystem}\n"
            return _run_trial(backend, rules, scratch, limit, environment or {})
    except (SandwrightError, OSError) as error:
        return Failed("not-started", str(error).splitlines()[-1])


def _run_trial(
    backend: Triable, rules: str, scratch: Path, limit: float, environment: Mapping[str, str]
) -> Failed | None:
    visible, hidden = os.urandom(16).hex(), os.urandom(16).hex()
    project = scratch / "project"
    (project / HIDDEN).parent.mkdir(parents=True)
    (project / HIDDEN).write_text(hidden)
    (project / SHOWN).write_text(visible)
    text = f"schema: 1\nextends: []\nmethod: {backend.name}\n{rules}"
    policy = MergedPolicy.from_layers([layer(text, file="a trial", methods=(backend.name,))])
    facts = collect_facts(policy, project=project, environ={"HOME": str(scratch)})
    probe = project / "probe"
    probe.write_bytes(own_probe().read_bytes())
    probe.chmod(0o755)
    resolved = policy.resolve(facts)
    out = hidden_directory(scratch) / "out"
    write_artifacts(out, backend.render(resolved).artifacts)
    trial = Trial(
        allowed=attempt("read", project / SHOWN),
        value=visible.encode(),
        denied=attempt("read", project / HIDDEN),
        fault=partial(_hidden_file_leak, hidden.encode()),
    )
    ended = run_bounded(
        backend.wrap(out, [str(probe), *trial.arguments()]),
        limit=limit,
        stop=Event(),
        env={**runtime_environment(), **environment},
    )
    return trial.judge(ended)


def _hidden_file_leak(hidden: bytes, denied: ProbeAnswer) -> str:
    return "and read a file that its policy hides" if hidden in denied.value else ""


def without_ptrace(method: str, lost: str) -> Preflight | None:
    """The fault that ptrace(2) is off, without which a method cannot work; None if it is on.

    `lost` names the feature that needs it.
    """
    try:
        scope = Path(launched.YAMA).read_text().strip()
    except OSError:  # there is no Yama
        return None
    if scope != "3":
        return None
    message = f"{lost}: ptrace(2) is off until the next boot ({_YAMA} is 3)"
    return Preflight(method, "kernel-lacks", message, f"set {_YAMA} to 1 in /etc/sysctl.d, and boot again")


def judged(method: str, failed: Failed | None, explain: Explain) -> Preflight:
    """The preflight result of a failed trial."""
    if failed is None:
        return Preflight(method, "ready")
    if failed.code != "not-started":
        return Preflight(method, failed.code, failed.output)
    if "pidfd_getfd" in failed.output.lower() and (
        off := without_ptrace(method, "connections cannot be supervised")
    ):
        return off
    return Preflight(method, *explain(failed))
