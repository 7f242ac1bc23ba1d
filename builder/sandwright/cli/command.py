"""How a function becomes a task: its errors become exits, and signals end it with its resources released."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from invoke.exceptions import Exit
from invoke.tasks import Task, task

from sandwright.errors import SandwrightError
from sandwright.visible import visible

HELP: dict[str, Mapping[str, str]] = {}
"""By function: the help of its task's options, which Invoke takes out of the task when it first reads it."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM came; unwinds like Ctrl-C, so that every `with` releases what it holds."""


def command(**options: Any) -> Callable[[Callable[..., None]], Task[Any]]:  # noqa: ANN401 - Invoke's own options
    """Make a task of a function. `options` are those of `invoke.task`.

    An error of ours ends the program with its message and exit code; Ctrl-C with 130; SIGTERM with 143. No
    option gets a short name by itself: Invoke's hang on their order, and some would take `-h` from `--help`.
    """

    def decorate(body: Callable[..., None]) -> Task[Any]:
        HELP[body.__name__] = dict(options.get("help", {}))

        @functools.wraps(body)
        def guarded(*args: object, **kwargs: object) -> None:
            try:
                with _unwinding_on_sigterm():
                    body(*args, **kwargs)
            except SandwrightError as error:
                raise Exit(f"sandwright: {visible(str(error))}", error.exit_code) from error
            except _Terminated as end:
                raise Exit("sandwright: terminated", 128 + signal.SIGTERM) from end
            except KeyboardInterrupt as end:
                raise Exit("sandwright: interrupted", 128 + signal.SIGINT) from end
            except BrokenPipeError as end:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads what is left to flush
                raise Exit(code=128 + signal.SIGPIPE) from end

        made: Task[Any] = task(**{"auto_shortflags": False, **options})(guarded)
        return made

    return decorate


def words_after_dashes() -> list[str]:
    """The words behind a lone `--` on the command line. Invoke's own remainder loses where a word ends."""
    words = sys.argv[1:]
    return words[words.index("--") + 1 :] if "--" in words else []


@contextlib.contextmanager
def _unwinding_on_sigterm() -> Iterator[None]:
    def terminate(_number: int, _frame: object) -> None:
        raise _Terminated

    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
