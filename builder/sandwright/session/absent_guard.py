"""Protected names outside the project, which mounts can't keep from being made: one stops the next run.

A run records the protected names that don't exist while it goes on. If one exists at its end, the
record stays, and no further run of the policy starts until the file or the record is removed. A killed
run leaves its record, too.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from sandwright import user_dirs
from sandwright.documents.record import decode_record, encode_record
from sandwright.session.scan_scope import PLACEHOLDER, printable
from sandwright.signalling import ProcessIdentity, identity, liveness


@dataclass(frozen=True, kw_only=True)
class GuardRecord:
    """A run, by its process, and the names that do not exist while it goes on."""

    process: ProcessIdentity
    policy: str
    absent: tuple[str, ...]

    def made(self) -> list[str]:
        """The names that exist now."""
        return [path for path in self.absent if _may_exist(path)]


def check_absent_names(policy: str) -> None:
    """Raise HostError when a run of this policy created such a name, and its record still exists."""
    try:
        files = list(Path(_guard_directory()).iterdir())
    except OSError:
        return
    for file in files:
        record = _read_record(file)
        if record is None or record.policy != policy:
            continue
        if made := record.made():
            raise user_dirs.error(*lines(made, str(file)), "nothing was run")
        if liveness(record.process) == "ended":
            file.unlink(missing_ok=True)


def begin_absent_guard(session: str, policy: str, absent: Sequence[str]) -> str:
    """Record a run of this process, and give the file; empty where nothing has to be. Raise HostError."""
    if not absent:
        return ""
    file = str(Path(user_dirs.private(_guard_directory()), f"{session}.json"))
    record = GuardRecord(process=identity(), policy=policy, absent=tuple(absent))
    user_dirs.write(file, encode_record(record))
    return file


def end_absent_guard(file: str) -> list[str]:
    """Messages about the names that were made; if there are none, the record is removed."""
    record = _read_record(Path(file))
    made = record.made() if record else []
    if not made:
        Path(file).unlink(missing_ok=True)
    return lines(made, file) if made else []


def lines(made: Iterable[str], file: str) -> list[str]:
    """A line for each name, and one with the way out."""
    messages = [
        f"{printable(path)} was made while it ran: programs of the host may run what it says" for path in made
    ]
    return [*messages, f"look at it, then remove it; or keep it: rm {quote(printable(file))}"]


def _may_exist(path: str) -> bool:
    """Whether something is there, or may be; a placeholder of a run in another project is not."""
    try:
        return os.lstat(path).st_mode != PLACEHOLDER or any(Path(path).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _guard_directory() -> str:
    return str(Path(user_dirs.cache(), "elsewhere"))


def _read_record(file: Path) -> GuardRecord | None:
    try:
        return decode_record(GuardRecord, file.read_bytes())
    except (OSError, ValueError):
        return None
