"""Runs the command that is learned from, and returns its record."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright.errors import HostError
from sandwright.methods import registry
from sandwright.session import state
from sandwright.session.access_log import AccessLog, RecordedRequest, RequestedHost, read_access_log
from sandwright.session.recording import Recording
from sandwright.session.request import RunRequest
from sandwright.session.run import run

_SWITCHED = 101
"""The status of an answer after which a WebSocket begins."""


@dataclass(frozen=True)
class RecordedRun:
    """The exit status of a run, and the record of its accesses."""

    status: int
    record: AccessLog


@dataclass(frozen=True)
class RecordedCommand:
    """The repeated run: the command, the policy's file, and the layers beside it."""

    argv: tuple[str, ...]
    policy: str
    named: bool
    presets: tuple[str, ...]
    settings: tuple[str, ...]
    trusted: bool
    time: str = ""

    def request(self, settings: Sequence[str] = (), recording: Recording | None = None) -> RunRequest:
        """A run with more settings: they come in place of the command's own for the same fields."""
        named = {each.partition("=")[0] for each in settings}
        fixed_settings = [each for each in self.settings if each.partition("=")[0] not in named]
        return RunRequest(
            list(self.argv),
            policy=self.policy,
            named=self.named,
            method=recording_method(),
            presets=list(self.presets),
            settings=[*fixed_settings, *settings],
            time=self.time,
            quiet=True,
            trusted=self.trusted,
            recording=recording,
        )


def recording_method() -> str:
    """The method under which commands are recorded, independent of the policy's method."""
    return next(name for name in registry.policy_names() if registry.properties(name).records)


def attempt(
    command: RecordedCommand, settings: Sequence[str], calls: Sequence[int], *, notify: Callable[[str], None]
) -> RecordedRun:
    """Run the command and record its accesses. Its output goes to our standard error. Raise SandwrightError.

    Raise HostError where nothing was recorded.
    """
    file = Path(state.directory(), f"{uuid.uuid4().hex}.record")
    recording = Recording(str(file), tuple(calls))
    try:
        with _output_to_errors():
            status = run(command.request(settings, recording), notify=notify)
        if not file.exists():
            raise HostError("nothing was recorded: the command was not started, or the launcher was killed")
        found = read_access_log(file)
    finally:
        file.unlink(missing_ok=True)
    hosts = frozenset(
        RequestedHost(each.host, each.port, each.reason) for each in recording.decisions if each.host
    )
    requests = frozenset(
        RecordedRequest(
            each.host, "" if each.status == _SWITCHED else each.method, each.path, each.tool, each.reason
        )
        for each in recording.requests
    )
    return RecordedRun(status, replace(found, hosts=hosts, requests=requests))


@contextlib.contextmanager
def _output_to_errors() -> Iterator[None]:
    """Our own output is the proposal alone."""
    saved_stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)
