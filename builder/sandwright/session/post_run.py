"""What is done when a run has ended: its record goes, and what it left that the host may run is named.

The native launcher executes this program (`post_run_argv`) when nothing of the run is left: so no Python is
there while the command runs. It is all that is done then, in as few imports as that takes; runs import this
too, so only an end imports what only an end needs.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enumerations, which costs milliseconds
import os
import sys
import time

from sandwright.documents import strictjson
from sandwright.visible import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

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
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
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
    file, status = sys.argv[2], int(sys.argv[3])
    try:
        with open(file, "rb") as opened:
            record = strictjson.loads_record(opened.read())
        record["after"]["denials"].setdefault("file", f"{file.removesuffix('.json')}.denials")
        os.unlink(file)
        _hear_signals()
        report_run(record, status, say)
    except KeyboardInterrupt:
        pass
    except Exception as fault:  # noqa: BLE001 - the run's status is what counts
        _said([f"what the run left was not looked at: {fault}"], say)
    finally:
        os._exit(status)


def report_run(
    record: Any,  # noqa: ANN401 - JSON
    status: int | None,
    tell: Callable[[str], None],
    denials: dict[str, int] | None = None,
    called: dict[tuple[str, str], int] | None = None,
) -> None:
    """Tell of a run where its record wants that, and say what it left that programs of the host may run.

    The status is None when nothing was started; `denials` are those of a proxy that was beside it, `called`
    those of a bridge: each call, with the reason.
    """
    after = record["after"]
    since = Clock(*record["clock"]).since()
    found = [
        *_unless_faulty(lambda: _report(record, status, denials)),
        *_unless_faulty(lambda: _left(after, since)),
        *_elsewhere(after["elsewhere"]),
        *_refused(after["denials"], denials, called, tell),
        *(after["hint"][:1] if status or (status == 0 and after["hint"][1:] == [True]) else []),
    ]
    _said(found, tell)


def _left(after: Any, since: int) -> list[str]:  # noqa: ANN401 - JSON
    from sandwright.session.scan import scan_changes  # noqa: PLC0415 - runs need none of it

    return scan_changes(after["places"], after["policy"], since)


def _elsewhere(file: str) -> list[str]:
    if not file:
        return []
    from sandwright.session import absent_guard  # noqa: PLC0415 - few runs have it

    return absent_guard.end(file)


def _refused(
    asked: Any,  # noqa: ANN401 - JSON
    proxied: dict[str, int] | None,
    called: dict[tuple[str, str], int] | None,
    tell: Callable[[str], None],
) -> list[str]:
    if not (proxied or called or asked["paths"]) and not os.path.lexists(asked["file"]):
        return []
    from sandwright.session.denials import report_denials  # noqa: PLC0415 - only where something was refused

    return report_denials(asked, proxied, called, tell)


def _said(lines: Iterable[str], say: Callable[[str], None]) -> None:
    """Say them, as long as somebody listens."""
    try:
        for line in lines:
            say(line)
    except OSError:
        pass


def _unless_faulty(work: Callable[[], list[str]]) -> list[str]:
    """What it gives, or the message of its error."""
    try:
        return work()
    except Exception as fault:
        from sandwright.errors import SandwrightError  # noqa: PLC0415 - costs milliseconds

        if not isinstance(fault, SandwrightError):
            raise
        return [str(fault)]


def _report(record: Any, status: int | None, denials: dict[str, int] | None) -> list[str]:  # noqa: ANN401
    if record["after"]["telemetry"] or traced():
        from sandwright.session.telemetry import tell  # noqa: PLC0415 - only where somebody listens

        tell(record, status, denials, span=traced())
    return []


def traced() -> bool:
    """Whether OpenTelemetry listens: its exporters are in the process of the run."""
    return "opentelemetry" in sys.modules or any(name.startswith("OTEL_") for name in os.environ)


def _hear_signals() -> None:
    """Let Ctrl-C end it: the launcher left signals blocked, and those that came were for the command."""
    blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
    while blocked and _signal.sigtimedwait(blocked, 0):
        pass
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, blocked)
