"""Starts a rendered sandbox with the probe program in it, through the rendered launcher."""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandwright import process
from sandwright.errors import CommandFailed
from sandwright.launcher.plan import NAME
from sandwright.launcher.run_document import with_document
from sandwright.methods import registry
from sandwright.render.artifact import Artifact
from sandwright.runtime.probe.protocol import Attempt, ProbeAnswer, parse_answers, requests

LIMIT = 120.0
"""Seconds that one start may take with all its attempts; gVisor's ptrace platform is slow."""

_SAID = 5
"""Lines."""

_ENDING = 5.0
"""Seconds."""


@dataclass(frozen=True)
class Batch:
    """The result of one start: an answer to each attempt, and the launcher's status (None: out of time)."""

    answers: tuple[ProbeAnswer, ...]
    status: int | None
    stderr: str


@dataclass(frozen=True)
class RenderedSandbox:
    """A rendered method that can be started.

    `launcher` is its launcher, `program` the path of the probe program inside. `environment` is the
    launcher's: the host's variables and those that a method needs; `descriptors` are the inherited
    descriptors, `cwd` is the working directory (None: the current one), `document` the descriptor of its run
    document, None without. `copies_project`: it starts elsewhere, by the method's own program.
    """

    method: str
    launcher: Path
    program: Path
    environment: Mapping[str, str] = field(repr=False)
    descriptors: tuple[int, ...] = ()
    cwd: Path | None = None
    copies_project: bool = False
    document: int | None = None

    def attempt(self, attempts: Sequence[Attempt], *, limit: float = LIMIT) -> Batch:
        """Start it once and make all attempts in it."""
        word = uuid.uuid4().hex
        try:
            result = self.run((), stdin=requests(attempts, word=word), limit=limit)
        except CommandFailed as failed:
            why = why_unanswered(failed.status, failed.stderr, limit)
            return Batch(tuple(parse_answers(b"", len(attempts), word=word, why=why)), None, failed.stderr)
        why = why_unanswered(result.status, result.stderr)
        found = parse_answers(result.stdout, len(attempts), word=word, why=why)
        return Batch(tuple(found), result.status, result.stderr.strip())

    def argv(self, words: Sequence[str]) -> list[str]:
        """The command line that starts the probe program with some words."""
        command = [str(self.program), *words]
        if self.copies_project:
            return list(registry.backend(self.method).wrap(self.launcher.parent, command))
        words = [str(self.launcher), *command]
        return words if self.document is None else with_document(words, self.document)

    def inherited(self) -> tuple[int, ...]:
        """The descriptors that its launcher inherits."""
        return (*self.descriptors, *([] if self.document is None else [self.document]))

    def run(self, words: Sequence[str], *, stdin: bytes = b"", limit: float = LIMIT) -> process.Result:
        """Start the probe program with words of its command line. Raise CommandFailed when time runs out."""
        argv = self.argv(words)
        with inherited_descriptors() as planted:
            passed = (*self.inherited(), *planted)
            return process.run(
                *argv,
                stdin=stdin,
                check=False,
                timeout=limit,
                env=self.environment,
                cwd=self.cwd,
                pass_fds=passed,
            )


def why_unanswered(status: int | None, stderr: str, limit: float = LIMIT) -> str:
    """The reason for a start without an answer: the exit status (None: timeout), and the last message."""
    if status is None:
        ended = f"not within {limit:g} s"
    else:
        ended = f"the launcher {f'ended with {status}' if status >= 0 else f'was ended by signal {-status}'}"
    message = "; ".join(stderr.strip().splitlines()[-_SAID:])
    return f"{ended}: {message}" if message else ended


def await_end(poll: Callable[[], int | None]) -> None:
    """Give a launcher that has closed its output a moment to end, so that its status is known."""
    process.ended_within(poll, _ENDING)


@contextlib.contextmanager
def inherited_descriptors() -> Iterator[tuple[int, int]]:
    """The root directory, open under a number of two digits and one of three: shells close them unlike."""
    with contextlib.ExitStack() as stack:
        root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        stack.callback(os.close, root)
        planted = fcntl.fcntl(root, fcntl.F_DUPFD_CLOEXEC, 90), fcntl.fcntl(root, fcntl.F_DUPFD_CLOEXEC, 300)
        for descriptor in planted:
            stack.callback(os.close, descriptor)
        yield planted


def materialize(artifacts: Sequence[Artifact], directory: Path) -> Path:
    """Write a method's artifacts, and give its launcher's path."""
    for artifact in artifacts:
        target = directory / artifact.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(artifact.content)
        target.chmod(artifact.mode)
    return directory / "launch"


def is_native(launcher: Path) -> bool:
    """Whether a rendered launcher is the program that reads a plan."""
    return (launcher.parent / NAME).exists()


def probe_environment(state: Path) -> dict[str, str]:
    """This process's environment, with the directory of launchers' files for a run."""
    return {**os.environ, "XDG_RUNTIME_DIR": str(state)}
