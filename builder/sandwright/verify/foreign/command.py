"""The work of `sandwright verify --subject`, without a terminal."""

from __future__ import annotations

import shlex

from sandwright.errors import UsageError
from sandwright.verify.foreign.claims import GENERIC, read_promises
from sandwright.verify.foreign.prove import prove_subject
from sandwright.verify.report import PolicyReport


def verify_subject(command: str, promises: str = "") -> PolicyReport:
    """Prove a command, a string of shell words, by a file of promises or the name of one that ships.

    The default promises are those of any sandbox, the default command is that of the promises. Raise
    UsageError if either does not exist.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--subject {command!r} is no command line: {error}") from None
    return prove_subject(read_promises(promises or GENERIC), words)
