"""Runs a command in the sandbox of a policy, from the request to the exit status."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable

from sandwright import foreground, places
from sandwright.session import elsewhere, left_behind, render_cache, state, trust
from sandwright.session.render_cache import CachedSandbox
from sandwright.session.request import RunRequest

LAUNCHER_FAILED = 125
TIME_IS_UP = 124


def run(request: RunRequest, *, say: foreground.Say = lambda _: None) -> int:
    """Run the request's command; give its exit status.

    128 + n says that signal n ended it, 124 that its time was up, 125 that its launcher could not start it
    as it was rendered, and said so. `say` is told what a person should know before it starts. Raise
    SandwrightError when nothing was started.
    """
    if not request.argv:
        from sandwright.errors import UsageError  # noqa: PLC0415 - costs milliseconds, for what rarely happens

        raise UsageError("give a command to run, behind --")
    began = time.time()
    elsewhere.check(request.policy)
    prepared = ready(request)
    said = trust.Loosened(*prepared.loosened).line()
    for note in (*(prepared.notes if prepared.fresh else ()), *([said] if said else [])):
        say(note)
    return _Session(request, prepared, began, say).run()


def ready(request: RunRequest) -> CachedSandbox:
    """The sandbox of a request, rendered now, or before if that still holds. Raise SandwrightError."""
    found = render_cache.find(request.identity())
    if found is not None and _as_rendered(found):
        trust.require(trust.Loosened(*found.loosened), word=request.trusted)
        return found
    from sandwright.session.prepare import prepare  # noqa: PLC0415 - the long way

    return prepare(request)


def _as_rendered(prepared: CachedSandbox) -> bool:
    """Whether the artifacts are still what they were."""
    try:
        files = (
            (os.path.join(prepared.directory, name), digest) for name, digest in prepared.digests.items()
        )
        return all(render_cache.digest(path) == digest for path, digest in files)
    except OSError:
        return False


class _Session:
    """One run."""

    def __init__(
        self, request: RunRequest, prepared: CachedSandbox, began: float, say: foreground.Say
    ) -> None:
        self.id = state.new_id()
        self._request = request
        self._prepared = prepared
        self._began = began
        self._say = say
        self._refused: Callable[[], dict[str, int]] | None = None
        self._passed: tuple[int, ...] = ()
        self._denials: dict[str, int] | None = None

    def run(self) -> int:
        """Start the launcher, and see it through."""
        status: int | None = None
        self._sweep()
        clock = left_behind.Clock()
        made = elsewhere.begin(self.id, self._request.policy, self._prepared.after["absent"])
        try:
            with contextlib.ExitStack() as stack:
                environment = {**os.environ, **self._prepared.environment, "SANDWRIGHT_SESSION": self.id}
                if self._prepared.proxied:
                    environment |= self._proxy(stack)
                if self._prepared.shimmed:
                    environment |= self._bridge(stack)
                if self._request.cidfile:
                    environment |= self._named(self._request.cidfile)
                self._record()
                stack.callback(state.forget, self.id)
                status = self._start(environment)
                self._denials = self._refused() if self._refused else None
        finally:
            self._tell(status)
            self._look(clock.since(), made)
        return status

    def _look(self, since: int, record: str) -> None:
        """Say what the run left that programs of the host may run."""
        try:
            found = left_behind.look(self._prepared.after, self._request.policy, since)
        except Exception as fault:
            from sandwright.errors import SandwrightError  # noqa: PLC0415 - costs milliseconds

            if not isinstance(fault, SandwrightError):
                raise
            found = [str(fault)]
        left_behind.said([*found, *elsewhere.end(record)], self._say)

    def _start(self, environment: dict[str, str]) -> int:
        prepared, request = self._prepared, self._request
        relay = prepared.terminal != "passed" and foreground.on_terminal()
        words = [*(prepared.wrap_terminal if relay else prepared.wrap), *request.argv]
        try:
            return foreground.run(
                words,
                environment,
                deliver=self._deliver,
                relay=relay,
                controlling=prepared.terminal == "controlling",
                passed=self._passed,
            )
        except OSError as error:
            raise places.error(f"{words[0]} can't be started: {error.strerror}") from error

    def _deliver(self, launcher: int, number: int) -> str:
        from sandwright.methods.registry import backend  # noqa: PLC0415 - only where a signal comes

        return backend(self._prepared.method).deliver(launcher, number)

    def _record(self) -> None:
        prepared = self._prepared
        record = {
            "method": prepared.method,
            "began": self._began,
            "project": prepared.project,
            "command": os.path.basename(self._request.argv[0]),
            "policy": prepared.policy,
            "artifacts": prepared.digests,
            "directory": prepared.directory,
            "covers": prepared.covers,
            "enforced": prepared.enforced,
        }
        state.write(self.id, record)

    def _named(self, path: str) -> dict[str, str]:
        """Write the session's name to a file; an engine writes there what it knows the container by."""
        from sandwright.methods.registry import properties  # noqa: PLC0415 - only where a file is asked for

        if properties(self._prepared.method).engine and not os.path.lexists(path):
            return {"SANDWRIGHT_CIDFILE": path}
        _write_new(path, self.id)
        return {}

    def _proxy(self, stack: contextlib.ExitStack) -> dict[str, str]:
        from sandwright.session.prepare import start_proxy  # noqa: PLC0415 - it needs the policy

        environment, self._refused = start_proxy(self._request, stack, self._prepared.policy)
        return environment

    def _bridge(self, stack: contextlib.ExitStack) -> dict[str, str]:
        from sandwright.session.prepare import start_bridge  # noqa: PLC0415 - it needs the policy

        environment, channel = start_bridge(self._request, stack, self._prepared.policy)
        self._passed = (channel,)
        return environment

    def _sweep(self) -> None:
        """Remove the records of sessions whose process was killed: nothing else of them is left."""
        for data in state.read_all():
            if not state.runs(data):
                state.forget(str(data["session"]))

    def _tell(self, status: int | None) -> None:
        where = self._request.telemetry or os.environ.get("SANDWRIGHT_TELEMETRY", "")
        traced = "opentelemetry" in sys.modules or any(name.startswith("OTEL_") for name in os.environ)
        if where or traced:
            from sandwright.session.telemetry import SessionOutcome, tell  # noqa: PLC0415 - only where somebody listens

            command = os.path.basename(self._request.argv[0])
            outcome = SessionOutcome(self.id, command, status, self._began, time.time(), self._denials)
            tell(outcome, self._prepared, where)


def _write_new(path: str, text: str) -> None:
    """Write a file that must not be there yet, as `docker run --cidfile` does."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise places.error(f"{path} can't be written: {error.strerror}") from error
