"""What `sandwright verify --subject` does, without a terminal."""

from __future__ import annotations

import shlex

from sandwright.errors import UsageError
from sandwright.verify.foreign.claims import GENERIC, read_promises
from sandwright.verify.foreign.prove import prove_subject
from sandwright.verify.report import PolicyReport


def verify_subject(command: str, promises: str = "") -> PolicyReport:
    """Prove a command, in words as a shell writes them, by a file of promises or the name of one that ships.

    Absent promises are those of any sandbox, an absent command is the promises'. Raise UsageError for either
    that is not there.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--subject {command!r} is no command line: {error}") from None
    return prove_subject(read_promises(promises or GENERIC), words)
