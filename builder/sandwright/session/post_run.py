"""The step after a run: removes its record, reports denials, and names new files that the host may run.

The native launcher executes this program (`post_run_argv`) when all processes of the run have ended: no
Python runs beside the command. It runs without site-packages (`-S`), so it imports the standard library and
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
from sandwright.session.events import RunDenials, RunDenied, RunEnded, read_events
from sandwright.session.post_run_start import Clock, is_traced
from sandwright.session.scan import scan_changes
from sandwright.session.session_record import PostRun, SessionRecord
from sandwright.visible import notify

if TYPE_CHECKING:
    from sandwright.session.denials import Denial, OmittedDenials
    from sandwright.session.live_denials import DenialWriter


def main() -> None:
    """Report the run, and exit with its status in any case."""
    file, status = Path(sys.argv[2]), int(sys.argv[3])
    try:
        record = decode_record(SessionRecord, file.read_bytes())
        file.unlink()
        _unblock_signals()
        report_run(record, status, notify, refusals=file.with_suffix(".denials"))
    except KeyboardInterrupt:
        pass
    except Exception as fault:  # noqa: BLE001 - the run's status has priority
        _notify_all([f"the files that the run changed were not examined: {fault}"], notify)
    finally:
        os._exit(status)


def report_run(
    record: SessionRecord,
    status: int | None,
    tell: Callable[[str], None],
    *,
    refusals: Path,
    hosts: RunDenials | None = None,
    calls: Sequence[RunDenied] = (),
    paths: Sequence[Denial | OmittedDenials] = (),
    writer: DenialWriter | None = None,
) -> None:
    """Append the run to telemetry if its record asks for it; report its denials and the files that it left.

    The status is None when nothing was started. The launcher wrote `refusals`; the proxy refused `hosts`
    (None without a proxy), the bridge `calls`; `paths` are those of `--explain-denials`. `writer` wrote
    denials during the run, and writes the rest.
    """
    report, since = record.after, Clock(*record.clock).since()
    ended = RunEnded(status=status, seconds=time.time() - record.began)
    lines = [
        *_unless_faulty(lambda: _telemetry(record, ended, hosts)),
        *_unless_faulty(lambda: scan_changes(report.scope, report.policy, since)),
        *(absent_guard.end_absent_guard(report.guard) if report.guard else []),
        *_report_denials(report, refusals, [*(hosts or ()), *calls], paths, tell, writer=writer),
    ]
    if report.hint and (status or (status == 0 and report.hint.always)):
        lines.append(report.hint.text)
    _notify_all(lines, tell)


def _telemetry(record: SessionRecord, ended: RunEnded, hosts: RunDenials | None) -> None:
    if record.after.telemetry or is_traced():
        from sandwright.session.telemetry import report_telemetry  # noqa: PLC0415 - few runs want it, 15 ms

        report_telemetry(record, ended, hosts, span=is_traced())


def _report_denials(
    report: PostRun,
    refusals: Path,
    others: RunDenials,
    paths: Sequence[Denial | OmittedDenials],
    tell: Callable[[str], None],
    *,
    writer: DenialWriter | None,
) -> list[str]:
    """Report the denials; give errors."""
    if not (others or paths or os.path.lexists(refusals)):
        return []
    from sandwright.session.denials import collect_denials, denial_lines  # noqa: PLC0415 - the same

    try:
        found = [*collect_denials([*read_events(refusals), *others], report.context), *paths]
        wrong = writer.finish(found) if writer else []
        _notify_all(() if report.quiet else denial_lines(found), tell)
        return wrong
    except (OSError, ValueError, LookupError) as fault:
        return [f"cannot report denials: {fault}"]
    finally:
        refusals.unlink(missing_ok=True)


def _notify_all(lines: Iterable[str], tell: Callable[[str], None]) -> None:
    """Print lines, until standard error is closed."""
    try:
        for line in lines:
            tell(line)
    except OSError:
        pass


def _unless_faulty(work: Callable[[], list[str] | None]) -> list[str]:
    """The lines that a function gives, or the message of its error."""
    try:
        return work() or []
    except SandwrightError as fault:
        return [str(fault)]


def _unblock_signals() -> None:
    """Let Ctrl-C end this process.

    The launcher left signals blocked; pending ones were meant for the command.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    while blocked and signal.sigtimedwait(blocked, 0):
        pass
    signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
