"""An audit log of runs that no sandbox can write: a hash chain, by the SHA-256 of the line before.

| field | meaning |
|---|---|
| `number` | 1, 2, 3 … in the file |
| `previous` | SHA-256 of the line before, without its line break; zeros in the first one |
| `time` | UTC, RFC 3339 |
| `session` | the run, as `sandwright status` shows it |
| `event` | `start`, `exec`, `refused`, `call`, `repeated`, `omitted`, `exit` |

`start` has the method, the project, the program's name, the policy's digest and the user's id. `refused`,
`repeated` and `call` name the source (`filter`, `launcher`, `proxy`, `bridge`) and the object. `exit` has the
status, null if nothing was started. Text that a sandbox can choose is cut to `MAX_TEXT` characters. Secrets,
variables and arguments of the command are never logged. Arguments of calls are logged as in the bridge's own
log, with secrets masked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sandwright.documents import strictjson
from sandwright.errors import HostError, UsageError
from sandwright.locking import exclusive

NOTHING = "0" * 64
"""The hash before the first line."""

MAX_TEXT = 256
"""The most characters of a text that a sandbox chooses."""

MAX_LINE = 1 << 16
"""Bytes of a line."""

MAX_LINES = 10_000
"""The most lines of one session, besides its end, so that no sandbox fills a disk."""

PATIENCE = 30.0
"""Seconds to wait while another run writes its line."""


class AuditLog:
    """One file, open from before anything is started until the end of a run. Runs write to it in turn."""

    def __init__(self, path: str) -> None:
        """Open or create the file. Raise UsageError if it can't be an audit log, and HostError."""
        self.path = str(Path(path).parent.resolve() / Path(path).name)
        self.session = ""
        self._lines = self._left_out = 0
        self._lock = threading.Lock()
        self.made = not os.path.lexists(self.path)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            self._fd = os.open(self.path, flags, 0o600)
        except OSError as error:
            raise UsageError(f"cannot open the audit log {self.path}: {error.strerror}") from error
        try:
            self._check_log_file()
            with self._hold_lock():
                self._last_line()
        except BaseException:
            self.close()
            raise

    def _check_log_file(self) -> None:
        status = os.fstat(self._fd)
        faults = {
            "is no regular file": not stat.S_ISREG(status.st_mode),
            "belongs to another user": status.st_uid != os.geteuid(),
            "has another name elsewhere (a hard link)": status.st_nlink != 1,
            "may be read or written by others: chmod 600": bool(status.st_mode & 0o077),
        }
        for fault, found in faults.items():
            if found:
                raise UsageError(f"the audit log {self.path} {fault}")

    def write(self, event: str, **fields: object) -> None:
        """Write a line of the session's."""
        with self._lock:
            if event != "exit" and self._lines >= MAX_LINES:
                self._left_out += 1
                return
            self._lines += 1
            with self._hold_lock():
                number, digest = self._last_line()
                head = {
                    "number": number + 1,
                    "previous": digest,
                    "time": _timestamp(),
                    "session": self.session,
                }
                self._append(_encoded({**head, "event": event}, fields))

    def _append(self, line: bytes) -> None:
        """Write the whole line or no part of it."""
        before = os.fstat(self._fd).st_size
        try:
            if os.write(self._fd, line) != len(line):
                raise OSError(0, "there is no room")
            os.fsync(self._fd)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, before)
            raise HostError(f"cannot write the audit log {self.path}: {error.strerror}") from error

    def end(self, status: int | None, seconds: float) -> str:
        """Write the end of the session; give the number of lines and the head, which a person keeps."""
        if self._left_out:
            left_out, self._lines = self._left_out, 0
            self.write("omitted", count=left_out)
        self.write("exit", status=status, seconds=round(seconds, 3))
        with self._hold_lock():
            number, digest = self._last_line()
        return f"audit log {self.path}: {number} lines, head {digest}"

    def in_place(self) -> bool:
        """Whether the path still leads to the file that is written."""
        with contextlib.suppress(OSError):
            return os.path.samestat(os.lstat(self.path), os.fstat(self._fd))
        return False

    def purge(self) -> None:
        """Close the log of a run that was not started; remove it if this run created it and it is empty."""
        if self.made and self.in_place() and os.fstat(self._fd).st_size == 0:
            Path(self.path).unlink()
        self.close()

    def close(self) -> None:
        """Let it go."""
        os.close(self._fd)

    @contextlib.contextmanager
    def _hold_lock(self) -> Iterator[None]:
        """Acquire the file's lock. Raise HostError when another process keeps it."""
        with exclusive(Path(self.path), within=PATIENCE) as held:
            if not held:
                raise HostError(f"another process has locked the audit log {self.path}")
            yield

    def _last_line(self) -> tuple[int, str]:
        """Number and digest of the last line. Raise UsageError for a file that is no audit log."""
        size = os.fstat(self._fd).st_size
        if size == 0:
            return 0, NOTHING
        end = os.pread(self._fd, MAX_LINE, max(0, size - MAX_LINE))
        line = end[:-1].rpartition(b"\n")[2]
        record = parse_line(line) if end.endswith(b"\n") else None
        if record is None:
            raise UsageError(f"the last line of {self.path} does not belong to an audit log, or was cut off")
        return record.number, line_digest(line)


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _encoded(head: Mapping[str, object], fields: Mapping[str, object]) -> bytes:
    """A line: texts are cut to `MAX_TEXT`, and to less where their escapes would make the line too long."""
    line = b""
    for most in (MAX_TEXT, MAX_TEXT // 8, 1):
        fields_cut = {name: shortened(each, most) for name, each in fields.items()}
        line = json.dumps({**head, **fields_cut}).encode() + b"\n"
        if len(line) < MAX_LINE:
            break
    return line


def shortened(value: object, most: int = MAX_TEXT) -> object:
    """A value with no text longer than `most`, and no list longer than 64."""
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}… ({len(value)} characters)"
    if isinstance(value, list):
        return [shortened(each, most) for each in value[:64]]
    return value


def line_digest(line: bytes) -> str:
    """The digest of a line, which the next line contains."""
    return hashlib.sha256(line).hexdigest()


@dataclass(frozen=True)
class AuditLine:
    """The fields of every line."""

    number: int
    previous: str
    time: str
    session: str
    event: str


def parse_line(line: bytes) -> AuditLine | None:
    """A line of an audit log; None if it is not ours."""
    try:
        data = strictjson.loads_record(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    shape = {"number": int, "previous": str, "time": str, "session": str, "event": str}
    if any(type(data.get(name)) is not kind for name, kind in shape.items()):
        return None
    return AuditLine(**{name: data[name] for name in shape})
