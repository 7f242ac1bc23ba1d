"""Sandbox profiles of macOS (SBPL): runs, evaluates and checks them on any machine.

A profile is a Scheme program. `compile_profile` runs it and gives its rules; an `Evaluator` gives the
decision of macOS about an operation and its rule; `lint` looks for likely mistakes. `seatbelt/README.md`
lists the facts about macOS, each with its evidence.

    profile = compile_profile(text, file="agent.sb", params={"ROOT": "/Users/u/project"})
    decision = Evaluator(profile).decide("file-write-create", {"path": "/Users/u/project/.git/hooks/x"})
    decision.allowed, decision.stage, decision.rule
"""

from __future__ import annotations

from sandwright.evaluate.sbpl.command import evaluate_batch, evaluate_command
from sandwright.evaluate.sbpl.decide import Evaluator, SbplDecision, Shadowed
from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.finding import SbplFinding
from sandwright.evaluate.sbpl.imports import FileImporter
from sandwright.evaluate.sbpl.lint import lint
from sandwright.evaluate.sbpl.machine import SbplLimits
from sandwright.evaluate.sbpl.paths import Links
from sandwright.evaluate.sbpl.profile import SbplProfile, compile_profile
from sandwright.evaluate.sbpl.rule import Rule

__all__ = [
    "Evaluator",
    "FileImporter",
    "Links",
    "ProfileError",
    "Rule",
    "SbplDecision",
    "SbplFinding",
    "SbplLimits",
    "SbplProfile",
    "Shadowed",
    "compile_profile",
    "evaluate_batch",
    "evaluate_command",
    "lint",
]
