"""What is done when a run has ended: its record goes, and what it left that the host may run is named.

The native launcher becomes this program (`ending` says how), when nothing of the run is left: so no Python is
there while the command runs. It is all that is done then, in as few imports as that takes.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enumerations, which costs milliseconds
import os
import sys

from sandwright import smalljson
from sandwright.session import denials as told_denials
from sandwright.session import elsewhere, left_behind
from sandwright.visible import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CODE = "import sys; sys.path.append(sys.argv[1]); from sandwright.session.after import main; main()"


def ending(record: str) -> list[str]:
    """The words of this program, but for the last one, the run's exit status. `record` is the session's file.

    Nothing of the environment leads Python elsewhere, and it reads no settings of the site's (`-I -S`).
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    quiet = ["-B"] * sys.dont_write_bytecode
    return [sys.executable, "-I", "-S", *quiet, "-X", "utf8", "-c", _CODE, root, record]


def can_follow(directory: str) -> bool:
    """Whether a launcher can become this program: records are in `directory`.

    A word is a line, and an interpreter that needs PYTHONHOME can't do without (`-I`).
    """
    words = "".join(ending(directory))
    return bool(sys.executable) and "\n" not in words and "PYTHONHOME" not in os.environ


def main() -> None:
    """Do it, and exit with the run's status, whatever happens."""
    file, status = sys.argv[2], int(sys.argv[3])
    try:
        with open(file, "rb") as opened:
            record = smalljson.loads(opened.read())
        os.unlink(file)
        _hear_signals()
        end(record, status, say)
    except KeyboardInterrupt:
        pass
    except Exception as fault:  # noqa: BLE001 - the run's status is what counts
        left_behind.said([f"what the run left was not looked at: {fault}"], say)
    finally:
        os._exit(status)


def end(
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
    since = left_behind.Clock(*after["clock"]).since()
    found = [
        *_unless_faulty(lambda: _report(record, status, denials)),
        *_unless_faulty(lambda: left_behind.look(after["places"], after["policy"], since)),
        *elsewhere.end(after["elsewhere"]),
        *told_denials.end(after["denials"], denials, called, tell),
        *(after["hint"][:1] if status or (status == 0 and after["hint"][1:] == [True]) else []),
    ]
    left_behind.said(found, tell)


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
