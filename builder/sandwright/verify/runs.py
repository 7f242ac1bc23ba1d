"""The runs of a sandbox as a whole, for probes of how a run begins and ends."""

from __future__ import annotations

from dataclasses import dataclass

from sandwright.verify.sandbox import RenderedSandbox
from sandwright.verify.subject import ProofSubject

START = 120.0
"""Seconds that a start may take, as in `sandbox.LIMIT`."""


@dataclass(frozen=True)
class Runs:
    """A sandbox, and the same with a time limit of one second; None if the policy has no time limit."""

    subject: ProofSubject
    sandbox: RenderedSandbox
    short: RenderedSandbox | None
