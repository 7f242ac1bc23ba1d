"""The user's approval of policies that loosen the preset `default` (`sandwright trust`).

It is given once for a policy's file: for its text, and for its grants on this machine. It is kept in a
file of the user's own, below `$XDG_CONFIG_HOME/sandwright/trust` (`~/.config` without that), which no sandbox
can write. `SANDWRIGHT_TRUST` gives it for one environment: a digest that `sandwright trust` shows, or 1 for
every policy.
"""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from sandwright import user_dirs
from sandwright.documents import strictjson
from sandwright.documents.record import decode_record, encode_record
from sandwright.environment import TRUST
from sandwright.errors import UsageError
from sandwright.inputs import LiveHost
from sandwright.policy.secretnames import without_values
from sandwright.visible import one_line

VARIABLE = TRUST.name
_SHOWN = 6
"""The most items in one line."""

_IN_PATHS = "shows in the name of a path "
"""The beginning of a sentence of `policy.loosening` about a variable in a path."""

_FILTER_FILE = "filters system calls as a file says: "
"""The same about a seccomp profile that is a file."""

_LARGEST = 1 << 20


@dataclass(frozen=True)
class Loosened:
    """The grants of a policy's file beyond the preset `default`.

    `policy` is the file in its project's real directory. `said` is the digest of its text, `allows` the
    grants, in words that are the same on other machines.
    """

    policy: str
    said: str
    allows: tuple[str, ...]
    """The grants; empty for a policy that needs no approval."""

    @property
    def digest(self) -> str:
        """The value for `SANDWRIGHT_TRUST`: a digest of the text and of the grants."""
        return f"sha256:{hashlib.sha256(strictjson.dumps([self.said, sorted(self.allows)])).hexdigest()}"

    def line(self) -> str:
        """The grants in one line; empty for a policy that needs no approval."""
        if not self.allows:
            return ""
        allows, more = _varied(self.log_lines()), len(self.allows) - _SHOWN
        rest = f"; and {more} more, which `sandwright trust` lists" if more > 0 else ""
        name = Path(self.policy).name
        return f"{name} allows more than the preset default: {'; '.join(allows[:_SHOWN])}{rest}"

    def secrets(self) -> list[str]:
        """The variables that look like secrets and have their values in paths."""
        return [each.removeprefix(_IN_PATHS) for each in self.allows if each.startswith(_IN_PATHS)]

    def has_filter_file(self) -> bool:
        """Whether the policy takes its filter of system calls from a file."""
        return any(each.startswith(_FILTER_FILE) for each in self.allows)

    def log_lines(self) -> list[str]:
        """The grants for logs, with the names of these variables in place of their values."""
        values = {name: one_line(os.environ.get(name, "")) for name in self.secrets()}
        return [without_values(each, values) for each in self.allows]


def _varied(allows: list[str]) -> list[str]:
    """The first of each kind, then the others: many of one kind must not push another out of the line."""
    kinds = {each.partition(" ")[0]: each for each in reversed(allows)}
    first = [each for each in allows if kinds[each.partition(" ")[0]] == each]
    return [*first, *(each for each in allows if each not in first)]


def require_approval(loosened: Loosened, *, word: bool = False) -> None:
    """Raise UsageError when a policy needs the user's approval and has it neither here nor in a record.

    `word`: it is given for this run.
    """
    approved = word or os.environ.get(VARIABLE) in ("1", loosened.digest)
    if not loosened.allows or approved or _recorded(loosened):
        return

    raise UsageError(
        f"{loosened.line()}\nNothing was started. Review it; then approve it once with `sandwright trust`, "
        f"for this run with --trust-policy, or in CI with {VARIABLE}={loosened.digest}"
    )


def start_line(loosened: Loosened, *, fresh: bool, word: bool) -> str:
    """The line that a run prints before its start; empty if the user has approved exactly this policy.

    `fresh`: the sandbox was rendered for this run. `word`: the approval is for this run only.
    """
    approved = os.environ.get(VARIABLE) == loosened.digest or not loosened.allows or _recorded(loosened)
    return loosened.line() if (fresh or word) and not approved else ""


def is_approved(loosened: Loosened, inputs: LiveHost) -> bool:
    """Whether the policy is approved, other than for this run. `inputs` records the answer's dependencies."""
    inputs.content(_approval_file(loosened))
    word = inputs.variable(VARIABLE)
    return not loosened.allows or word in ("1", loosened.digest) or _recorded(loosened)


def directory() -> str:
    """The directory of the records."""
    return str(Path(user_dirs.config(), "trust"))


def record(loosened: Loosened) -> str:
    """Record the user's approval; give the file. Raise HostError if it can't be written."""
    user_dirs.private(directory())
    user_dirs.write(_approval_file(loosened), encode_record(loosened))
    return _approval_file(loosened)


def forget(loosened: Loosened) -> None:
    """Withdraw the user's approval."""
    Path(_approval_file(loosened)).unlink(missing_ok=True)


def _recorded(loosened: Loosened) -> bool:
    """Whether the user has approved this text with all its current grants."""
    try:
        descriptor = os.open(
            _approval_file(loosened), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                return False
            recorded = decode_record(Loosened, file.read(_LARGEST))
    except (OSError, ValueError):
        return False  # missing, or not our format
    same = (recorded.policy, recorded.said) == (loosened.policy, loosened.said)
    return same and set(loosened.allows) <= set(recorded.allows)


def _approval_file(loosened: Loosened) -> str:
    name = hashlib.sha256(loosened.policy.encode("utf-8", "surrogateescape")).hexdigest()
    return str(Path(directory(), f"{name}.json"))
