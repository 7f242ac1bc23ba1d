"""The observations of attempts at a change, and the verdict on each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from sandwright.change.compare import CaseChange
from sandwright.change.questions import Case
from sandwright.runtime.probe.protocol import ProbeAnswer

Seen = Literal["seen", "not seen", "contradicted"]
"""`seen`: one attempt was denied under one policy and succeeded under the other, as the change says.
`contradicted`: both were seen, and not so. `not seen`: nothing was tried, or the answers decide nothing."""

FILTERED = ("EPERM", "ENOSYS", "EACCES", "EAFNOSUPPORT", "SIGSYS")
"""The results of a system call that a filter denied."""


@dataclass(frozen=True)
class Witness:
    """The observed effect of a change under a method.

    `attempt` is the attempted access, `before` and `after` are its answers under the old and the new policy.
    If there was no attempt, `reason` says why.
    """

    change: CaseChange
    method: str
    verdict: Seen
    attempt: str = ""
    before: str = ""
    after: str = ""
    reason: str = ""

    def __str__(self) -> str:
        """`seen under bwrap: create /x → EROFS, now ok`."""
        if self.verdict == "not seen" and not self.before:
            return f"not attempted under {self.method}: {self.reason}"
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.verdict} under {self.method}: {self.attempt} → {self.before}, now {self.after}{reason}"

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "method": self.method,
            "verdict": self.verdict,
            "attempt": self.attempt,
            "before": self.before,
            "after": self.after,
            "reason": self.reason,
        }


def is_host(case: Case) -> bool:
    """Whether it is about a host, not about a socket or a port of the loopback's."""
    local = case.subject.startswith(("/", "localhost:"))
    return case.question == "connect" and not local


def judged(made: Witness, case: Case, answers: tuple[ProbeAnswer, ProbeAnswer], word: str) -> Witness:
    """Judge a change by the answers under the old and the new policy."""
    before, after = answers
    made = replace(made, before=_answer_name(case, before), after=_answer_name(case, after))
    if case.question == "syscall":
        return _judged_call(made, before, after)
    allowed = [_allowed(case, each, word) for each in (before, after)]
    if None in allowed:
        return replace(made, verdict="not seen", reason="no answer that decides it")
    if allowed != [not made.change.widened, made.change.widened]:
        return replace(made, verdict="contradicted")
    return made


def _judged_call(made: Witness, before: ProbeAnswer, after: ProbeAnswer) -> Witness:
    """A call that the kernel denies itself looks like one that the filter denies."""
    denied, allowed = (before, after) if made.change.widened else (after, before)
    if denied.name == allowed.name or denied.kind == "none" or allowed.kind == "none":
        return replace(made, verdict="not seen", reason="the kernel's own answer is the filter's")
    if denied.name not in FILTERED:
        return replace(made, verdict="contradicted" if allowed.name in FILTERED else "not seen")
    return made


def _allowed(case: Case, answer: ProbeAnswer, word: str) -> bool | None:
    """Whether an attempt succeeded; None if unknown."""
    if answer.kind not in ("ok", "errno"):
        return None
    if answer.kind == "errno":
        return False
    if case.question == "read":
        return word.encode() in answer.value
    if is_host(case) and answer.value.startswith(b"HTTP/"):
        return b" 403 " not in answer.value.partition(b"\r\n")[0]
    return True


def _answer_name(case: Case, answer: ProbeAnswer) -> str:
    """An answer without its value, which may be private. For a proxy, the answer is its status."""
    if is_host(case) and answer.value.startswith(b"HTTP/"):
        return answer.value.partition(b"\r\n")[0].decode(errors="backslashreplace")
    if case.question == "read" and answer.kind == "ok":
        return "ok" if answer.value else "ok, and empty"
    return answer.name
