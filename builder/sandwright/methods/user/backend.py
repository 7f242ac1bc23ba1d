"""Whether a project's account on Linux works here (preflight), and how a run is started under it."""

from __future__ import annotations

import pwd
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.host import MachineFacts
from sandwright.inputs import LiveHost
from sandwright.methods.contract import LIMIT, Code, NoAccount, Notify, Preflight, Terminal, quiet
from sandwright.methods.shared.launched import Launched
from sandwright.methods.shared.trial import HOST_ROOT, judged, try_out, without_ptrace
from sandwright.methods.user.render import DedicatedAccount, account_of, render_for
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered
from sandwright.runtime.trial import Failed

SET_UP = "sandwright account-setup"
"""The command that shows the steps to make an account, and with `--yes` makes it."""

_ASKING = 10.0


def account_uid(policy: ResolvedPolicy) -> int:
    """The number of the account of a policy's project. Raise NoAccount."""
    try:
        return pwd.getpwnam(account_of(policy).name).pw_uid
    except KeyError:
        project = policy.facts.project
        raise NoAccount(f"{project} has no account here; `{SET_UP}` shows how to make one") from None


@dataclass(frozen=True)
class User(Launched):
    """The method user: a dedicated account on Linux."""

    name: str = "user"
    terminal: Terminal = "controlling"  # the account must not type into ours (CVE-2017-5226)

    def owner(self, policy: ResolvedPolicy) -> int:
        """The user ID of the project's account. Raise NoAccount."""
        return account_uid(policy)

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start the trial as `nobody`, an account of every system. The project's account is not needed."""
        if host.os != "linux":
            return Preflight(self.name, "wrong-system", f"it is Linux'; this is {host.os}")
        if reason := without_root(host):
            return Preflight(
                self.name, "no-root", reason, "allow this user `sudo` without a password, or run it as root"
            )
        if off := without_ptrace(self.name, "programs inside could create no symbolic link"):
            return off
        found = judged(self.name, try_out(_Trial(), HOST_ROOT, limit=limit), explain_failure)
        each = "each project needs an account, set up once"
        return Preflight(self.name, "ready", each, SET_UP) if found.ready else found

    def environment(
        self,
        policy: ResolvedPolicy,
        inputs: LiveHost | None = None,
        *,
        notify: Notify = quiet,  # noqa: ARG002
    ) -> Mapping[str, str]:
        """No variables; but the account must exist. Raise NoAccount."""
        if inputs is not None:
            inputs.kind_behind(account_of(policy).place)
        account_uid(policy)
        return {}


@dataclass(frozen=True)
class _Trial(User):
    """The same as `nobody`, for a project in a directory that is made for it."""

    def render(self, policy: ResolvedPolicy) -> Rendered:
        directory = Path(policy.facts.project).with_name("place")
        return Rendered(self.name, render_for(policy, DedicatedAccount("nobody", "", str(directory))), ())

    def wrap(self, directory: Path, argv: Sequence[str], *, terminal: bool = False) -> tuple[str, ...]:
        """And lets it into the project of the program, with any mode of new files here."""
        project = Path(argv[0]).parent
        project.with_name("place").mkdir(exist_ok=True)
        for path in (project.parent, *_walk_tree(project)):
            path.chmod(0o755)
        return super().wrap(directory, argv, terminal=terminal)


def without_root(host: MachineFacts) -> str:
    """The reason why nothing can be done as root here; empty if it can."""
    if host.is_root:
        return ""
    if process.find("sudo") is None:
        return "it needs root, and there is no sudo"
    if not process.run("sudo", "-n", "true", timeout=_ASKING, check=False):
        return "it needs root, and sudo asks for a password"
    return ""


def _walk_tree(directory: Path) -> Iterator[Path]:
    yield directory
    yield from directory.rglob("*")


def explain_failure(failed: Failed) -> tuple[Code, str, str]:
    """The cause of a failed start on this machine, and the remedy."""
    message = failed.output
    if "cannot create namespaces" in message:
        return (
            "container-filter",
            message,
            "run the container around it with CAP_SYS_ADMIN and a filter that allows unshare",
        )
    if "cannot mount" in message:
        return "container-filter", message, "give the container around it the right to mount"
    return "not-started", message, ""
