"""The bridge of a review: its only program is `sandwright-changes`. Its process starts with a call.

Until then a thread of the session holds the socket, and the listener that the sandbox passes: a run that
never asks for its changes starts no further process.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.bridge.directory import (
    Bridge,
    bridge_directory,
    bridges_directory,
    channel,
    listening,
    write_shims,
)
from sandwright.bridge.listeners import NotListening, receive_listener
from sandwright.errors import SandwrightError
from sandwright.launcher.shim_names import CHANGES
from sandwright.lazy import load

CALL_SECONDS = 60.0
OUTPUT_BYTES = 64 << 20
CALLS = 1
"""The limits of calls: programs inside decide how much there is to read, and when."""


@dataclass(frozen=True)
class RunReviewed:
    """A run in a review workspace. `project` is the canonical path; `environment` are the host's variables.

    `platform` is the sandbox's; `program` are the words that start the program on the host, without the form.
    """

    project: str
    platform: str
    program: tuple[str, ...]
    environment: Mapping[str, str]


def changes_program(policy: str, cwd: str, workspace: str, *, named: bool) -> tuple[str, ...]:
    """The words that list the changes (`cli/running_changes.py`).

    `policy` is the run's policy file, and `named` whether an option named it; `cwd` is the run's directory.
    """
    module = ("-P", "-s", "-m", "sandwright.cli.running_changes")
    return sys.executable, *module, policy, "named" if named else "", cwd, workspace


@contextlib.contextmanager
def serve_changes(run: RunReviewed) -> Iterator[Bridge]:
    """Offer `sandwright-changes` for the length of a `with`.

    Raise HostError if its directory can't be made.
    """
    with contextlib.ExitStack() as stack:
        session_dir, lock = stack.enter_context(bridge_directory(bridges_directory(run.environment)))
        public, private = session_dir / "public", session_dir / "private"
        write_shims(public, [CHANGES], platform=run.platform)
        listener = stack.enter_context(listening(public))
        passed, theirs = stack.enter_context(channel())
        bridge = Bridge(session_dir.name, public, private / "calls.jsonl", os.getpid(), passed)
        stack.enter_context(_Waiting(run, bridge, lock, [listener], theirs))
        yield bridge


class _Waiting:
    """Waits for the first call, and starts the bridge's process then. Ends both at the end of a `with`."""

    def __init__(
        self,
        run: RunReviewed,
        bridge: Bridge,
        lock: int,
        listeners: Sequence[socket.socket],
        theirs: socket.socket,
    ) -> None:
        self._run, self._bridge, self._lock = run, bridge, lock
        self._listeners, self._channel = [*listeners], theirs
        self._process = contextlib.ExitStack()
        self._selector = selectors.DefaultSelector()
        self._stop_reader, self._stop_writer = os.pipe()
        self._thread = threading.Thread(target=self._wait_for_call, daemon=True)

    def __enter__(self) -> None:
        self._selector.register(self._stop_reader, selectors.EVENT_READ)
        for each in (self._channel, *self._listeners):
            self._selector.register(each, selectors.EVENT_READ)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        os.write(self._stop_writer, b"x")
        self._thread.join()
        self._process.close()
        for fd in (self._stop_reader, self._stop_writer):
            os.close(fd)

    def _wait_for_call(self) -> None:
        try:
            while self._wait_once():
                pass
        except (SandwrightError, OSError):
            pass  # a call gets no answer, which it reports
        finally:
            self._selector.close()
            for each in (*self._listeners, self._channel):
                each.close()

    def _wait_once(self) -> bool:
        """Handle one event; give False if this was the last one."""
        ready = {key.fileobj for key, _ in self._selector.select()}
        if self._stop_reader in ready:
            return False
        if self._channel in ready:
            self._keep_listener()
            return True
        self._hand_over_sockets()
        return False

    def _keep_listener(self) -> None:
        try:
            listener = receive_listener(self._channel, self._bridge.public)
        except NotListening:
            return
        if listener is None:
            self._selector.unregister(self._channel)
            return
        self._listeners.append(listener)
        self._selector.register(listener, selectors.EVENT_READ)

    def _hand_over_sockets(self) -> None:
        configured = load("sandwright.bridge.configuration")
        public = self._bridge.public
        configuration = configured.Configuration(
            session=self._bridge.session,
            workspace=Path(self._run.project),
            public=public,
            private=public.parent / "private",
            audit=self._bridge.audit,
            programs={},
            uids=(os.geteuid(),),
            environment={"PATH": self._run.environment.get("PATH", os.defpath)},
            access=(configured.AccessRule("", read=True, write=False),),
            limits=configured.CallLimits(call_seconds=CALL_SECONDS, output_bytes=OUTPUT_BYTES, calls=CALLS),
            changes=configured.ChangesProgram(self._run.program, self._program_environment()),
        )
        start = load("sandwright.bridge.spawn:start_process")
        self._process.enter_context(start(configuration, self._lock, self._channel, self._listeners))

    def _program_environment(self) -> Mapping[str, str]:
        return {**self._run.environment, "PYTHONPATH": str(Path(__file__).parents[2])}
