"""Answers about seccomp profiles: what one does with a call and why, and what is wrong with one.

`evaluate_command` asks one question of a JSON profile and `lint_profile` looks for its faults. `decide` asks
a resolved profile, `decide_profile` one of ours; `sandwright.evaluate.bpf` runs what was compiled.
"""

from sandwright.evaluate.seccomp.command import Answer, evaluate_command
from sandwright.evaluate.seccomp.decide import Call, Decision, ProfileDecision, Stage, decide, decide_profile
from sandwright.evaluate.seccomp.fault import Fault, Severity
from sandwright.evaluate.seccomp.lint import lint_profile

__all__ = [
    "Answer",
    "Call",
    "Decision",
    "Fault",
    "ProfileDecision",
    "Severity",
    "Stage",
    "decide",
    "decide_profile",
    "evaluate_command",
    "lint_profile",
]
