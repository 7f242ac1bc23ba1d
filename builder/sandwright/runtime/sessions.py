"""The sessions of one run: each runtime is checked once a platform, opened once, and closed at the end."""

from __future__ import annotations

import contextlib
import itertools
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from sandwright.host import MachineFacts
from sandwright.runtime.contract import SandboxRuntime, Session
from sandwright.runtime.memoised import Memoised
from sandwright.runtime.preflight import MissingRuntime, ReadyRuntime, check_runtime


class Sessions:
    """A context manager for sessions of runtimes. Any thread may use it; one thread closes it at the end."""

    def __init__(self, host: MachineFacts, scratch: Path, stop: threading.Event) -> None:
        """`scratch` is an existing directory that is ours alone; `stop` calls every start off."""
        self._host = host
        self._scratch = scratch
        self._stop = stop
        self._checked: Memoised[ReadyRuntime | MissingRuntime] = Memoised()
        self._sessions: Memoised[Session] = Memoised()
        self._stack = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def check(self, runtime: SandboxRuntime, platform: str) -> ReadyRuntime | MissingRuntime:
        """Whether a runtime starts images of a platform here."""
        return self._checked.get(
            (runtime.name, platform), lambda: check_runtime(runtime, platform, self._host, self._stop)
        )

    def session(self, ready: ReadyRuntime) -> Session:
        """The session of a runtime that is ready."""
        return self._sessions.get((ready.runtime.name, ready.variant), lambda: self._open_session(ready))

    def _open_session(self, ready: ReadyRuntime) -> Session:
        with self._lock:
            directory = self._scratch / f"{ready.runtime.name}-{next(self._numbers)}"
            directory.mkdir()
            session = ready.runtime.session(ready.variant, self._host, directory, self._stop)
            return self._stack.enter_context(session)
