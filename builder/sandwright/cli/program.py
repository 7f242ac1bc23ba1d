"""The `sandwright` program: from its words to an exit status."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Sequence

import sandwright
from sandwright.cli.arguments import names
from sandwright.cli.commands.command import Command
from sandwright.cli.commands.options import POLICY
from sandwright.cli.functions import function_of
from sandwright.cli.parsing import HELP, Values, check, find, parse
from sandwright.errors import RetiredNameWarning, SandwrightError, retired_warning
from sandwright.visible import one_line

RUNNING = ("run", "shell", "fleet", "learn", "changes", "apply", "discard", "undo")
"""Commands that look for a policy themselves, as none has to be there."""

OWN_SIGNALS = ("run", "exec", "shell", "attach")
"""Commands that handle their errors and signals themselves."""

NOTHING_RUN = 125
"""The exit status of `run` when it did not start the command."""


def main(words: Sequence[str]) -> int:
    """Run the command line behind `sandwright`; give the exit status."""
    if not words or tuple(words) in (("-h",), ("--help",), ("help",), ("-l",), ("--list",)):
        from sandwright.cli.help import summary  # noqa: PLC0415 - only for who asks

        sys.stdout.write(summary())
        return 0
    if words[0] in ("-V", "--version", "version"):
        sys.stdout.write(f"sandwright {sandwright.__version__}\n")
        return 0
    if words[0] == "-C":
        return _in_directory(words[1:])
    expanded = [*words[1:], "--help"] if words[0] in (*HELP, "help") else words
    try:
        command = find(expanded[0])
        parsed = parse(command, expanded[1:])
    except SandwrightError as error:
        return _report_usage_error(error, expanded[0])
    if expanded[0] != command.name:
        parsed.warnings.insert(0, retired_warning(expanded[0], command.name))
    for warning in parsed.warnings:
        _write_error(warning, 0)
    if parsed.help:
        from sandwright.cli.help import page  # noqa: PLC0415 - only for who asks

        sys.stdout.write(page(command))
        return 0
    gc.set_threshold(100_000)  # most imported objects stay: collecting garbage among them costs 10 ms
    return execute(command, parsed.values, parsed.words)


def _in_directory(words: Sequence[str]) -> int:
    """Run a command line in another directory."""
    if not words:
        return _write_error("-C needs a directory: sandwright -C DIR COMMAND", 64)
    try:
        os.chdir(words[0])
    except OSError as error:
        return _write_error(one_line(f"{words[0]}: {error.strerror}"), 64)
    return main(words[1:])


def execute(command: Command, values: Values, words: Sequence[str]) -> int:
    """Carry out a command; give its exit status.

    An error of ours gives its message and exit code, Ctrl-C 130, SIGTERM 143, but for `OWN_SIGNALS`.
    """
    warnings.formatwarning = _format_warning
    values = {**values, **_split_lists(command, values)}
    try:
        check(command, values)
        if POLICY in command.options and "policy" not in values and command.name not in RUNNING:
            from sandwright.user_dirs import find_above  # noqa: PLC0415 - help and versions ask nothing of the host

            values = {**values, "policy": find_above("sandbox.yaml")}
    except SandwrightError as error:
        return _report_usage_error(error, command.name)
    function = function_of(command.name)
    options = {**values, "words": words} if command.takes_command else values
    if command.name in OWN_SIGNALS:
        return _exit_status(command, values, function(**options))
    import signal  # noqa: PLC0415 - costs milliseconds, and `run` needs none of it

    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        try:
            return _exit_status(command, values, function(**options))
        finally:
            signal.signal(signal.SIGTERM, previous)
    except _Terminated:
        return _write_error("terminated", 128 + signal.SIGTERM)
    except KeyboardInterrupt:
        return _write_error("interrupted", 128 + signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the rest has no reader
        return 128 + signal.SIGPIPE
    except SandwrightError as error:
        return _write_error(error.shown(), error.exit_code)


def _split_lists(command: Command, values: Values) -> Values:
    """The values of repeatable `--method` options, each of which may list several by commas."""
    found: Values = {}
    for each in command.options:
        items = values.get(each.keyword)
        if each.offered == "method" and isinstance(items, list):
            found[each.keyword] = [name for item in items for name in names(item, each.flag)]
    return found


def _exit_status(command: Command, values: Values, result: object) -> int:
    """The exit status of a command that ended well. Raise VerdictError for a check of nothing."""
    if not command.checks:
        return result if isinstance(result, int) else 0
    flag = next((each for each in command.options if each.name == command.checks_if), None)
    if (flag is None or values.get(flag.keyword, flag.negatable)) and not values.get("dry_run"):
        from sandwright.checked import require_checked  # noqa: PLC0415 - few commands check anything

        require_checked(result, command.checks, command.name)
    return 0


class _Terminated(KeyboardInterrupt):
    """SIGTERM came; unwinds like Ctrl-C, so that every `with` releases its resources."""


def _terminate(_number: int, _frame: object) -> None:
    raise _Terminated


_plain_format = warnings.formatwarning


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning to a policy's author as a line of ours; other warnings as Python formats them."""
    if issubclass(category, RetiredNameWarning):
        return f"sandwright: {one_line(str(message))}\n"
    return _plain_format(message, category, filename, lineno, line)


def _report_usage_error(error: SandwrightError, command: str) -> int:
    """Show the mistake in a command line; `run` has a separate exit status for it."""
    status = _write_error(error.shown(), error.exit_code)
    return NOTHING_RUN if command == "run" else status


def _write_error(message: str, status: int) -> int:
    sys.stderr.write(f"sandwright: {message}\n")
    return status
