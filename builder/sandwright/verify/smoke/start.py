"""Starts one subject in one session, and judges it: the core of every smoke run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandwright.host import MachineFacts
from sandwright.runtime.contract import Session, Start, StartableImage
from sandwright.verify.canary import CanaryListener
from sandwright.verify.smoke.attempts import Attempts
from sandwright.verify.smoke.checks import CHECKS, evaluate, judge_program
from sandwright.verify.smoke.evidence import read_evidence
from sandwright.verify.smoke.expected import GuestExpectation, ImageProgram
from sandwright.verify.smoke.target import PreparedImage
from sandwright.verify.verdict import ProbeFinding, Verdict
from sandwright.watchdog import Ended, runtime_environment

_PLANTED = "SANDWRIGHT_SMOKE_PLANTED"
"""A variable in the runtime's own environment, whose value must not be seen inside."""


LIMIT = 60.0
"""Seconds for one start of an image of this machine's own platform."""

EMULATED = 4
"""The factor by which an emulated start may take longer."""


@dataclass(frozen=True)
class Judged:
    """The result for a subject, and the duration of its starts."""

    findings: tuple[ProbeFinding, ...]
    seconds: float


def smoke_test(
    session: Session,
    image: PreparedImage,
    *,
    host: MachineFacts,
    canary: CanaryListener,
    limit: float,
    whole: bool = True,
) -> Judged:
    """Start an image and judge it. `limit` is in seconds, for one start on this machine's own platform.

    Without `whole`, checks that depend only on the image, those of its programs and certificates, are left
    out.
    """
    native = image.target.platform == host.platform
    return judge(
        session,
        image.subject,
        image.expected,
        python=image.python,
        canary=canary,
        limit=limit if native else limit * EMULATED,
        emulated=not native,
        whole=whole,
    )


def judge(
    session: Session,
    subject: StartableImage,
    expected: GuestExpectation,
    *,
    python: str | None,
    canary: CanaryListener,
    limit: float,
    emulated: bool = False,
    whole: bool = True,
) -> Judged:
    """Start a subject under its own Python, or, where it has none, each of its programs by itself.

    `limit` is in seconds, for one start. `emulated`: the platform is not this machine's. Without `whole`,
    checks that depend only on the image are left out; without Python, only its first program is started.
    Raise SandwrightError if it can't be started or can't be removed.
    """
    if python is None:
        return _one_by_one(session, subject, expected.programs if whole else expected.programs[:1], limit)
    programs = [program.argv for program in expected.programs]
    attempts = Attempts(programs, canary.address, limit / 2, whole=whole, emulated=emulated)
    environment = {**runtime_environment(), _PLANTED: attempts.canary}
    ended = session.run(Start(subject, attempts.argv(python), limit, environment))
    evidence = read_evidence(ended, attempts.word)
    heard = canary.heard(attempts.first)
    findings = evaluate(evidence, expected, canary_reached=heard, whole=whole)
    return Judged(tuple(findings), ended.seconds)


def _one_by_one(
    session: Session, subject: StartableImage, programs: Sequence[ImageProgram], limit: float
) -> Judged:
    findings = []
    seconds = 0.0
    for program in programs:
        ended = session.run(Start(subject, program.argv, limit, runtime_environment()))
        findings.append(judge_program(program, _as_result(ended)))
        seconds += ended.seconds
    reason = "the image has no Python to ask"
    skipped = [ProbeFinding(check.name, Verdict.SKIPPED, reason) for check in CHECKS]
    return Judged((*skipped, *findings), seconds)


def _as_result(ended: Ended) -> Mapping[str, Any]:
    if ended.how != "exited":
        return {"error": ended.describe()}
    return {"status": ended.status, "stdout": ended.stdout.decode(errors="replace"), "stderr": ended.stderr}
