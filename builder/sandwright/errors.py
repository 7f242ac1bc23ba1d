"""Every error that sandwright raises on purpose, one class for each exit code.

Only the command line turns an error into an exit. A message names the operation, its object and the problem,
and is written for the person who has to act on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sandwright.visible import message, one_line


class SandwrightError(Exception):
    """The base class of all errors of this project; itself never raised."""

    exit_code = 1

    def __str__(self) -> str:
        """The message; several arguments are its lines."""
        return "\n".join(map(str, self.args))

    def shown(self) -> str:
        """The message for a terminal or a log, in which only our own text begins a line."""
        return "\n".join(map(one_line, self.args)) if len(self.args) > 1 else message(str(self))


class Problem(NamedTuple):
    """One fault in a document: position, field, and message.

    `line` and `column` count from 1; both are 0 when the whole document is meant. `field` is written as the
    document nests it: `filesystem.write[1]`; empty for a fault of syntax.
    """

    line: int
    column: int
    field: str
    message: str

    def render(self, file: str) -> str:
        """`file:line:column: field: message`, without unknown parts."""
        where = f"{file}:{self.line}:{self.column}" if self.line else file
        return ": ".join(part for part in (where, self.field, self.message) if part)


class DocumentError(SandwrightError):
    """A policy, image definition, profile or lock is not valid; the message lists every problem."""

    exit_code = 2

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        """`file` is the name to show; `problems` holds at least one."""
        self.file = file
        self.problems = tuple(sorted(problems))
        super().__init__(*(one_line(problem.render(file)) for problem in self.problems))


class RenderError(SandwrightError):
    """The method cannot enforce a feature of the policy, and `accept_gaps` does not list that feature."""

    exit_code = 4


class ArtifactsTooWide(RenderError):
    """The artifacts of a method allow more than the policy and the method's declaration."""


class ToolMissing(SandwrightError):
    """A program is not on PATH.

    `hint` is the command that installs it.
    """

    exit_code = 5

    def __init__(self, program: str, hint: str = "") -> None:
        """`program` is the name that was looked for."""
        self.program = program
        self.hint = hint
        super().__init__(f"{program} is not installed" + (f"; {hint}" if hint else ""))


class CommandFailed(SandwrightError):
    """A program failed: another exit status than 0, a signal, or its time limit."""

    exit_code = 6

    def __init__(
        self, argv: Sequence[str], status: int | None, stderr: str, *, timeout: float | None = None
    ) -> None:
        """`status` is as `subprocess` gives it (negative: a signal), None when `timeout` seconds ran out."""
        self.argv = tuple(argv)
        self.status = status
        self.stderr = stderr
        self.timeout = timeout
        what = f"did not end within {timeout:g} s" if status is None else _status_text(status)
        tail = stderr.strip()[-4000:]
        super().__init__(f"{' '.join(self.argv)[:500]}: {what}" + (f"\n{tail}" if tail else ""))


class FetchError(SandwrightError):
    """A download failed: no route to the mirror or registry, an HTTP status, a broken transfer."""

    exit_code = 7


class IntegrityError(SandwrightError):
    """Bytes differ from the expected ones: a digest, a size, a checksum, a truncated stream."""

    exit_code = 8


class ArchiveRefused(SandwrightError):
    """An archive holds an entry that we refuse to unpack; the message names it."""

    exit_code = 9


class LockError(SandwrightError):
    """A lock is missing, stale or cannot be created, or its packages are gone."""

    exit_code = 10


class BuildError(SandwrightError):
    """An image or bundle cannot be built from its definition and lock."""

    exit_code = 11


class VerdictError(SandwrightError):
    """Checks ran and at least one did not pass, or nothing was checked."""

    exit_code = 12


class HostError(SandwrightError):
    """This machine cannot do it: a full disk, missing privileges, an unknown package manager."""

    exit_code = 13


class PolicyWidened(SandwrightError):
    """A policy lets more through than the one it was compared with."""

    exit_code = 14


class UsageError(SandwrightError):
    """The command line is not valid."""

    exit_code = 64


class RetiredNameWarning(FutureWarning):
    """A policy has a name that the next release does not read."""


def retired_warning(old: str, new: str) -> str:
    """The warning for a name of the last release: of a command, an option, or a key of a policy."""
    return f"`{old}` is now `{new}`; the old name works for one more release"


def _status_text(status: int) -> str:
    return f"ended by signal {-status}" if status < 0 else f"exit status {status}"
