"""What is done when a run has ended: its record goes, and what it left that the host may run is named.

The native launcher executes this program (`post_run_argv`) when nothing of the run is left: so no Python is
there while the command runs. It runs without site-packages (`-S`), so it imports the standard library and
sandwright only.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright.documents.record import decode_record
from sandwright.errors import SandwrightError
from sandwright.session import absent_guard
from sandwright.session.events import RunEnded, RunRefused, read_events
from sandwright.session.scan import scan_changes
from sandwright.session.session_record import PostRun, SessionRecord
from sandwright.visible import say

if TYPE_CHECKING:
    from sandwright.session.denials import Denial, OmittedDenials

_CODE = "import sys; sys.path.append(sys.argv[1]); from sandwright.session.post_run import main; main()"

_COARSE = 5  # CLOCK_REALTIME_COARSE of linux/time.h, which file systems take their times from

_SET_BACK = 1_000_000_000
"""Nanoseconds by which the clock has to differ, to have been set."""


class Clock:
    """When a run began, in the time that file systems keep, and in one that nobody sets: in nanoseconds."""

    def __init__(self, began: int = 0, ticks: int = 0) -> None:
        """It begins now, or is that of another process."""
        self.began = began or _now()
        self.ticks = ticks or time.monotonic_ns()

    def since(self) -> int:
        """The earliest time of what changed since then, in nanoseconds; the clock may have been set back."""
        began = _now() - (time.monotonic_ns() - self.ticks)
        return began if began < self.began - _SET_BACK else self.began


def _now() -> int:
    try:
        return time.clock_gettime_ns(_COARSE)
    except OSError:
        return time.time_ns()


def post_run_argv(record: str) -> list[str]:
    """The words of this program, but for the last one, the run's exit status. `record` is the session's file.

    Nothing of the environment leads Python elsewhere, and it reads no settings of the site's (`-I -S`).
    """
    root = str(Path(__file__).absolute().parents[2])
    quiet = ["-B"] * sys.dont_write_bytecode
    return [sys.executable, "-I", "-S", *quiet, "-X", "utf8", "-c", _CODE, root, record]


def can_exec_post_run(directory: str) -> bool:
    """Whether a launcher can become this program: records are in `directory`.

    A word is a line, and an interpreter that needs PYTHONHOME can't do without (`-I`).
    """
    words = "".join(post_run_argv(directory))
    return bool(sys.executable) and "\n" not in words and "PYTHONHOME" not in os.environ


def main() -> None:
    """Do it, and exit with the run's status, whatever happens."""
    file, status = Path(sys.argv[2]), int(sys.argv[3])
    try:
        record = decode_record(SessionRecord, file.read_bytes())
        file.unlink()
        _unblock_signals()
        report_run(record, status, say, refusals=file.with_suffix(".denials"))
    except KeyboardInterrupt:
        pass
    except Exception as fault:  # noqa: BLE001 - the run's status is what counts
        _say_all([f"what the run left was not looked at: {fault}"], say)
    finally:
        os._exit(status)


def report_run(
    record: SessionRecord,
    status: int | None,
    tell: Callable[[str], None],
    *,
    refusals: Path,
    hosts: Sequence[RunRefused] | None = None,
    calls: Sequence[RunRefused] = (),
    paths: Sequence[Denial | OmittedDenials] = (),
) -> None:
    """Append the run to telemetry where its record wants that, and say what it left and was refused.

    The status is None when nothing was started. The launcher wrote `refusals`; `hosts` were refused by a
    proxy that ran beside it, None without one, `calls` by a bridge, `paths` are those of `--explain-denials`.
    """
    report, since = record.after, Clock(*record.clock).since()
    ended = RunEnded(status=status, seconds=time.time() - record.began)
    found = [
        *_unless_faulty(lambda: _telemetry(record, ended, hosts)),
        *_unless_faulty(lambda: scan_changes(report.scope, report.policy, since)),
        *(absent_guard.end(report.guard) if report.guard else []),
        *_denials(report, refusals, [*(hosts or ()), *calls], paths, tell),
    ]
    if report.hint and (status or (status == 0 and report.hint.always)):
        found.append(report.hint.text)
    _say_all(found, tell)


def _telemetry(record: SessionRecord, ended: RunEnded, hosts: Sequence[RunRefused] | None) -> None:
    if not record.after.telemetry and not is_traced():
        return
    from sandwright.session.telemetry import report_telemetry  # noqa: PLC0415 - 9 ms, and few runs have it

    report_telemetry(record, ended, hosts, span=is_traced())


def _denials(
    report: PostRun,
    refusals: Path,
    others: Sequence[RunRefused],
    paths: Sequence[Denial | OmittedDenials],
    tell: Callable[[str], None],
) -> list[str]:
    """Report what was refused; give what went wrong."""
    if not (others or paths or os.path.lexists(refusals)):
        return []
    from sandwright.session.denials import (  # noqa: PLC0415 - 14 ms, and few runs are refused anything
        collect_denials,
        report_denials,
    )

    try:
        found = [*collect_denials([*read_events(refusals), *others], report.context), *paths]
        return report_denials(found, to=report.denials, quiet=report.quiet, say=tell) if found else []
    except (OSError, ValueError, LookupError) as fault:
        return [f"what was refused can't be told: {fault}"]
    finally:
        refusals.unlink(missing_ok=True)


def _say_all(lines: Iterable[str], tell: Callable[[str], None]) -> None:
    """Say them, as long as somebody listens."""
    try:
        for line in lines:
            tell(line)
    except OSError:
        pass


def _unless_faulty(work: Callable[[], list[str] | None]) -> list[str]:
    """The lines of some work, or the message of its error."""
    try:
        return work() or []
    except SandwrightError as fault:
        return [str(fault)]


def is_traced() -> bool:
    """Whether OpenTelemetry listens: its exporters are in the process of the run."""
    return "opentelemetry" in sys.modules or any(name.startswith("OTEL_") for name in os.environ)


def _unblock_signals() -> None:
    """Let Ctrl-C end it: the launcher left signals blocked, and those that came were for the command."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    while blocked and signal.sigtimedwait(blocked, 0):
        pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
