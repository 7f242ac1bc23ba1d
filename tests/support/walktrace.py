"""Traces a cold `run` under bwrap: the modules that hand the request on, and those that only receive it.

python walktrace.py

in a project, with a HOME of its own. Writes JSON. The launcher is not started.
"""

from __future__ import annotations

import json
import os
import sys
from types import FrameType
from typing import NoReturn

FORMS = {"RunRequest", "MergedPolicy", "ResolvedPolicy", "Rendered", "CachedSandbox"}
"""The forms of the whole request in their order."""

SLOW = {"jinja2", "logging", "uuid"}
"""Modules that a first run of bwrap does not need."""

_NOT_FUNCTIONS = {"<module>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"}


class _Started(BaseException):
    """The launcher would start now."""


class Walk:
    """Modules by their use of the request."""

    def __init__(self) -> None:
        """No function has been called yet."""
        self.given: set[str] = set()
        self.hands_on: dict[str, set[str]] = {}
        self.forms: set[str] = set()

    def trace(self, frame: FrameType, event: str, _argument: object) -> None:
        """Record a call with a form among its arguments; a method's own object does not count."""
        module = _module(frame)
        if event != "call" or not module or frame.f_code.co_name in _NOT_FUNCTIONS:
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        arguments = [frame.f_locals[name] for name in names if name != "self" and name in frame.f_locals]
        forms = FORMS & {type(each).__name__ for each in arguments}
        if not forms:
            return
        self.forms |= forms
        self.given.add(module)
        caller = _caller(frame)
        if caller and caller != module:
            self.hands_on.setdefault(caller, set()).add(module)


def _module(frame: FrameType) -> str:
    name = str(frame.f_globals.get("__name__", ""))
    return name.removeprefix("sandwright.") if name.startswith("sandwright.") else ""


def _caller(frame: FrameType) -> str:
    """The module of ours that made the call, past foreign ones."""
    above = frame.f_back
    while above is not None and not _module(above):
        above = above.f_back
    return _module(above) if above is not None else ""


def _stop(*_: object) -> NoReturn:
    raise _Started


def main() -> None:
    """Trace `sandwright run --method bwrap -- true`."""
    from sandwright import cli  # noqa: PLC0415 - traced from here on

    walk = Walk()
    os.execv = os.execve = _stop  # type: ignore[assignment]
    sys.argv = ["sandwright", "run", "--method", "bwrap", "--", "true"]
    sys.setprofile(walk.trace)
    try:
        cli.main()
    except _Started:
        sys.setprofile(None)
        found = {name: sorted(others) for name, others in sorted(walk.hands_on.items())}
        data = {"hands_on": found, "given": sorted(walk.given), "forms": sorted(walk.forms)}
        data["slow"] = sorted(sys.modules.keys() & SLOW)
        print(json.dumps(data))  # noqa: T201 - for the test


if __name__ == "__main__":
    main()
