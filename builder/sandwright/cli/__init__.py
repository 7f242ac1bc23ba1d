"""The command line: `sandwright`, and the same commands as Invoke tasks for a `tasks.py`.

The only room that prints and exits. Parsing, help, completion and tasks are derived from `commands.table`.
The other modules hold the commands of one subject each: a function calls the library and shows its result.
Nothing heavy is imported before a command that needs it runs.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from sandwright.cli.program import main as run_command_line
from sandwright.lazy import load

if TYPE_CHECKING:
    from sandwright.cli.tasks import namespace

__all__ = ["main", "namespace"]


def main() -> None:
    """Run the command line; exits.

    When the reader of the output has gone, it ends without a message, with 141 like SIGPIPE; output that
    can't be written is reported, with 1. A command that has failed keeps its exit code.
    """
    _open_closed()
    code: object = None
    try:
        try:
            code = run_command_line(sys.argv[1:]) or None
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _UNWRITTEN:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for data that Python flushes at its exit
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"sandwright: cannot write the output: {error.strerror}\n")
        code = code or (_SIGPIPE if error.errno == errno.EPIPE else 1)
    if code is not None:
        sys.exit(code)  # type: ignore[arg-type]  # anything may have been passed to it


_SIGPIPE = 128 + 13
_UNWRITTEN = frozenset((errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO))


def _open_closed() -> None:
    """Put nothing where standard input, output or errors are closed, or a file of ours would be there."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(descriptor, "r" if descriptor == 0 else "w", encoding="utf-8"))


def __getattr__(name: str) -> object:
    """Import a task at its first use: importing all of them would slow down every run."""
    if name != "namespace":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(".tasks:namespace", __name__)
