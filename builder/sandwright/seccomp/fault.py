"""One thing that is wrong with a seccomp profile."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sandwright.seccomp.model import SeccompRule


class Severity(Enum):
    """The severity: fails or allows too much, surprises, good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class SeccompFault:
    """A fault and its position: line and column from 1, or 0 for the whole profile. `code` names the kind."""

    line: int
    column: int
    severity: Severity
    code: str
    message: str

    def render(self, file: str) -> str:
        """`file:line:column: severity: message [code]`."""
        where = f"{file}:{self.line}:{self.column}" if self.line else file
        return f"{where}: {self.severity.value}: {self.message} [{self.code}]"


def fault_at(rule: SeccompRule, severity: Severity, code: str, message: str) -> SeccompFault:
    """A fault of one rule."""
    line, column = rule.position
    return SeccompFault(line, column, severity, code, message)
