"""Starts the probe in a sandbox to see whether the sandbox works: it must allow one thing, and deny another.

The allowed access is the control: a sandbox that allows nothing does not prove a denial. Asking a
program for its version proves nothing, and some programs hang, so every preflight is such a start.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sandwright.runtime.probe.protocol import Attempt, ProbeAnswer, parse_answers, request_line
from sandwright.watchdog import Ended

STATUS = 42
"""The exit status of the probe; it must come through."""

Fault = Literal["hangs", "not-started", "not-denied"]


@dataclass(frozen=True)
class Failed:
    """A trial that failed: `code`, and a sentence for a person."""

    code: Fault
    output: str


@dataclass(frozen=True)
class Trial:
    """The attempts of a trial: `allowed` must return `value`, and the answer of `denied` must have no fault.

    `fault` describes the fault of that answer, empty for none.
    """

    allowed: Attempt
    value: bytes
    denied: Attempt
    fault: Callable[[ProbeAnswer], str]
    word: str = field(default_factory=lambda: os.urandom(16).hex())

    def arguments(self) -> tuple[str, ...]:
        """The probe's command line, without the probe."""
        attempts = (self.allowed, self.denied)
        lines = (request_line(each, index, word=self.word) for index, each in enumerate(attempts))
        return ("--lines", str(STATUS), *lines)

    def judge(self, ended: Ended) -> Failed | None:
        """The fault of the trial; None if the sandbox works."""
        allowed, denied = parse_answers(ended.stdout, 2, word=self.word)
        fault = self.fault(denied) if denied.kind != "none" else ""
        if fault:
            return Failed("not-denied", f"it started, {fault}")
        if ended.how == "timeout":
            return Failed("hangs", ended.describe())
        if allowed.value != self.value or denied.kind == "none":
            return Failed("not-started", ended.describe())
        if ended.status != STATUS:
            message = f"the probe ended with {STATUS}, and the sandbox with {ended.status}"
            return Failed("not-started", message)
        return None
