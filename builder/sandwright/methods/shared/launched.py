"""Code that methods with a launcher share: its start, and signals to its command."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError
from sandwright.host import MachineFacts
from sandwright.inputs import LiveHost
from sandwright.methods.contract import Delivery, Leftover, Notify, Preflight, RemoteCanary, Terminal, quiet
from sandwright.methods.registry import render_for_trial
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.questions import Question
from sandwright.render.rendered import Rendered
from sandwright.signalling import children_of

LAUNCHER = "launch"
"""The artifact that starts a sandbox: `launch COMMAND [ARGUMENT ...]`."""

SETTINGS = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/kernel/random/boot_id",
    "/proc/self/attr/current",
)
"""The settings that decide whether sandboxes start: one boot of the kernel, sysctls, our AppArmor label."""

YAMA = "/proc/sys/kernel/yama/ptrace_scope"
"""Of 3: no process may attach to others, read their memory or copy their descriptors, until the next boot."""

PROFILES = "/sys/kernel/security/apparmor/policy/profiles"
"""The profiles that AppArmor has loaded, a directory each. Loading a profile again changes its name."""


@dataclass(frozen=True)
class Launched:
    """A backend that starts sandboxes with the launcher that the method renders."""

    name: str

    terminal: Terminal = "passed"

    def render(self, policy: ResolvedPolicy) -> Rendered:
        """Render the policy of a trial."""
        return render_for_trial(policy, self.name)

    def wrap(self, directory: Path, argv: Sequence[str], *, terminal: bool = False) -> tuple[str, ...]:  # noqa: ARG002
        """The command line of the launcher."""
        return (f"{directory}/{LAUNCHER}", *argv)

    def environment(
        self,
        policy: ResolvedPolicy,  # noqa: ARG002
        inputs: LiveHost | None = None,  # noqa: ARG002
        *,
        notify: Notify = quiet,  # noqa: ARG002
    ) -> Mapping[str, str]:
        """No variables."""
        return {}

    def programs(self) -> Sequence[str]:
        """The programs that the launcher starts."""
        return ()

    def depends(self, host: MachineFacts) -> Iterator[Question]:
        """Questions about the kernel, its settings, this user, and the programs."""
        yield "machine", ""
        yield "content", "/proc/sys/kernel/osrelease"
        for path in SETTINGS:
            yield "content", path
        if Path(PROFILES).is_dir():
            yield "listing", PROFILES
        if Path(YAMA).is_file():
            yield "content", YAMA
        for name in self.programs():
            yield "program", name
            if name in host.programs:
                yield "stamp", host.programs[name]

    def send_signal(self, launcher: int, number: int) -> Delivery:
        """Signal the launcher, which forwards the signal."""
        return signal_all([launcher], number)

    def leftovers(self, running: Iterable[str]) -> Iterable[Leftover]:  # noqa: ARG002
        """None: the kernel removes everything of a sandbox together with its processes."""
        return ()

    def remove(self, leftover: Leftover) -> None:
        """Nothing is left, so do nothing."""
        raise HostError(f"cannot remove {leftover}")

    def canary(
        self,
        policy: ResolvedPolicy,  # noqa: ARG002
    ) -> contextlib.AbstractContextManager[RemoteCanary | None]:
        """None, because sandboxes run on this machine."""
        return contextlib.nullcontext()

    def purge(self, policy: ResolvedPolicy) -> None:
        """Nothing is kept, so do nothing."""

    def owner(self, policy: ResolvedPolicy) -> int:
        """The user ID of the caller."""
        return policy.facts.uid

    def without_image(self) -> Preflight | None:
        """None: methods that need an image override this."""
        return None

    def runtime_version(self, host: MachineFacts) -> str:  # noqa: ARG002
        """Empty, because there is no runtime."""
        return ""


def children(process: int) -> list[int]:
    """The children of a process that are not in a session of their own, as `watch` is."""
    session = _session_id(process)
    return [child for child in children_of(process) if _session_id(child) == session]


def status_numbers(process: int, field: bytes) -> list[int]:
    """A line of numbers of a process's status (proc(5)): `Uid`; `NSpid`, its ids from our own inwards."""
    try:
        lines = Path(f"/proc/{process}/status").read_bytes().splitlines()
    except OSError:
        return []
    words = next((line.split() for line in lines if line.startswith(field + b":")), [b""])
    return [int(word) for word in words[1:]]


def _session_id(process: int) -> int:
    try:
        return os.getsid(process)
    except OSError:
        return 0


def signal_all(processes: Iterable[int], number: int) -> Delivery:
    """Send a signal to processes; nothing when there is none."""
    there: Delivery = ""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)
            there = "sent"
    return there
