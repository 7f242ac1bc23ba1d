"""Inspects an image from inside: starts the image's Python with `in_image_checks.py`."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

STATUS = 42
"""The exit status of the attempts, which the runtime must pass on."""

SERVER = "smoke.sandwright.invalid"
"""The name in the server certificate."""

_HERE = Path(__file__).parent
_FILES = {"authority": "authority.pem", "certificate": "server.pem", "key": "server.key"}


@dataclass(frozen=True)
class Attempts:
    """The attempts of one start. `programs` are run in the image; `listener` must never be reached.

    `program_limit` is in seconds, for each program. `whole`: checks that depend only on the image are made,
    too. `emulated`: this is another machine's code. `first` and `second` make the word by which the start's
    own output is known: only a program that ran can have put them together.
    """

    programs: Sequence[Sequence[str]]
    listener: tuple[str, int]
    program_limit: float
    whole: bool = True
    emulated: bool = False
    first: str = field(default_factory=lambda: uuid.uuid4().hex)
    second: str = field(default_factory=lambda: uuid.uuid4().hex)
    canary: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def word(self) -> str:
        """The word with which every line of the output begins."""
        return self.second + self.first

    def argv(self, python: str) -> tuple[str, ...]:
        """The command that makes the attempts with the interpreter `python`, a path in the image."""
        settings = {
            "first": self.first,
            "second": self.second,
            "canary": self.canary,
            "status": STATUS,
            "listener": list(self.listener),
            "whole": self.whole,
            "programs": [list(argv) for argv in self.programs],
            "limit": self.program_limit,
            "emulated": self.emulated,
            "server": SERVER,
            **_read_certificates(),
        }
        return (python, "-c", _checks_source(), repr(settings))


@functools.cache
def _checks_source() -> str:
    return (_HERE / "in_image_checks.py").read_text(encoding="utf-8")


@functools.cache
def _read_certificates() -> dict[str, str]:
    """A server's certificate and key, and the CA that signed it, all made for this check only."""
    return {
        role: (_HERE / "certificates" / name).read_text(encoding="ascii") for role, name in _FILES.items()
    }
