"""Reads secrets (tokens) of the host, and masks them in data that goes back to the sandbox.

A policy names a variable of the host, `${SANDBOX_GH_TOKEN}`. The secret is, in this order: the output of the
command in SANDBOX_GH_TOKEN_COMMAND (split into words as by a shell, but run without one), the content of the
file SANDBOX_GH_TOKEN_FILE, or the value of SANDBOX_GH_TOKEN. Commands and files are named by the host's
environment only, never by a policy, which may come with a repository. A file that the sandbox can read, and a
command that it can write, are refused.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.bridge.environment import trusted_search_path
from sandwright.errors import CommandFailed, HostError, UsageError
from sandwright.launcher.restrict import script_interpreter

COMMAND_TIMEOUT = 60.0
"""Seconds; a keyring may ask its owner."""

MIN_LENGTH = 6
"""Bytes: a shorter secret can't be distinguished from other output."""

MASK = b"[secret]"

_NOT_IN_SECRETS = re.compile(r"[\s\x00-\x1f\x7f\ud800-\udfff]")
"""White space, control characters, and surrogates for bytes that are not UTF-8."""


@dataclass(frozen=True)
class Reach:
    """The paths of the host that the sandbox can read, and those that it can write."""

    reads: Callable[[str], bool]
    writes: Callable[[str], bool]


def read_secret(name: str, environment: Mapping[str, str], sandbox: Reach) -> str:
    """The secret that a variable of the host names. It is in no message.

    Raise UsageError if there is none, if it can't be one (empty, short, or with white space inside), or if
    the sandbox can access its source; HostError if its file can't be read or its command fails.
    """
    command, file = environment.get(f"{name}_COMMAND"), environment.get(f"{name}_FILE")
    if command:
        where = f"{name}_COMMAND"
        found, where = command_secret(command, where, environment, sandbox), f"the command in {where}"
    elif file:
        where = f"{name}_FILE"
        found, where = file_secret(file, f"{where}: {file}", sandbox), f"the file in {where}"
    elif name in environment:
        found, where = environment[name], name
    else:
        raise UsageError(f"no secret: none of {name}, {name}_FILE and {name}_COMMAND is set on the host")
    return checked_secret(found, where)


def checked_secret(text: str, where: str) -> str:
    """Text without its line breaks. Raise UsageError if it can't be a secret; `where` names its source."""
    secret = text.strip("\r\n")
    if len(secret) < MIN_LENGTH or _NOT_IN_SECRETS.search(secret):
        raise UsageError(
            f"{where}: no secret: it has to be one word of at least {MIN_LENGTH} characters, without blanks"
        )
    return secret


def command_secret(
    command: str | Sequence[str], where: str, environment: Mapping[str, str], sandbox: Reach
) -> str:
    """The output of a command of the host; the text is split as by a shell, but no shell runs.

    The command runs in `/`, with a PATH that no sandbox can write: many programs read modules, settings or
    other versions of themselves from the directory in which they start, and that would be the project. Raise
    UsageError for an empty command, and for one that the sandbox may write, HostError if it fails.
    """
    try:
        argv = shlex.split(command) if isinstance(command, str) else list(command)
        program = shutil.which(argv[0], path=environment.get("PATH"))
    except (ValueError, IndexError) as error:
        raise UsageError(f"{where}: no command line") from error
    if program is None:
        raise HostError(f"{where}: {argv[0]} is not installed")
    program = os.path.abspath(program)  # noqa: PTH100 - it may be a link
    interpreter = script_interpreter(Path(program).resolve())
    for path in (program, *interpreter, *argv[1:]):
        if os.path.exists(path) and sandbox.writes(os.path.abspath(path)):  # noqa: PTH100, PTH110 - any text
            raise UsageError(f"{where}: {path} may be written by the sandbox")
    try:
        variables = {**os.environ, "PATH": trusted_search_path(environment, sandbox.writes)}
        done = process.run(program, *argv[1:], timeout=COMMAND_TIMEOUT, env=variables, cwd="/")
        return done.stdout.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: no text") from error
    except CommandFailed as error:
        raise HostError(f"{where}: {argv[0]} has failed (status {error.status})") from None


def file_secret(file: str, where: str, sandbox: Reach) -> str:
    """The text of a file of the host.

    Raise UsageError if the sandbox can read it, HostError if it can't be read.
    """
    path = Path(file).expanduser().absolute()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no text"
        raise HostError(f"{where}: {why}") from None
    if sandbox.reads(str(path)):
        raise UsageError(f"{where} can be read by the sandbox; deny it there, or move it")
    return text


class Redactor:
    """Masks exact secrets in a stream, however it is split into blocks.

    Bytes are held back only while they may be the beginning of a secret. It is a second line of defence: an
    encoded secret passes.
    """

    def __init__(self, secrets: Iterable[bytes]) -> None:
        """`secrets` may be none; then everything passes as it is."""
        self._secrets = sorted((each for each in secrets if each), key=len, reverse=True)
        self._held = b""
        self.found = 0

    def feed(self, data: bytes) -> bytes:
        """Give the part of the stream that can be passed on."""
        if not self._secrets:
            return data
        data = self._held + data
        for secret in self._secrets:
            if secret in data:
                self.found += data.count(secret)
                data = data.replace(secret, MASK)
        held_back = max(_beginning(secret, data) for secret in self._secrets)
        self._held = data[len(data) - held_back :]
        return data[: len(data) - held_back]

    def end(self) -> bytes:
        """Give the rest, at the stream's end."""
        rest, self._held = self._held, b""
        return rest


def _beginning(secret: bytes, data: bytes) -> int:
    """The number of bytes at the end of the data that may begin a secret."""
    tail = data[-len(secret) + 1 :] if len(secret) > 1 else b""
    first = tail.find(secret[:1])
    while first >= 0:
        if secret.startswith(tail[first:]):
            return len(tail) - first
        first = tail.find(secret[:1], first + 1)
    return 0
