"""Runs a command in the sandbox of a policy, from the request to the exit status.

Where the method's launcher is native, and nothing has to run beside it, this process becomes the launcher,
which becomes `after` at the end. Otherwise `beside` waits.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enumerations, which costs milliseconds
import os
import time
from collections.abc import Callable

from sandwright import places
from sandwright.errors import HostError, UsageError
from sandwright.session import absent_guard, render_cache, stale, state, trust
from sandwright.session.audit import AuditLog
from sandwright.session.post_run import Clock, can_exec_post_run, post_run_argv, report_run, traced
from sandwright.session.recording import Recording
from sandwright.session.render_cache import CachedSandbox
from sandwright.session.request import RunRequest
from sandwright.signalling import liveness

LAUNCHER_FAILED = 125
TIME_IS_UP = 124
_QUICKLY = 0.2
"""Seconds that a file system gets to say whether a killed session's placeholders are there."""

_AFTER = "SANDWRIGHT_AFTER"
_DENIALS = "SANDWRIGHT_DENIALS"
"""Where the launcher writes what was refused."""


def run(request: RunRequest, *, say: Callable[[str], None] = lambda _: None) -> int:
    """Run the request's command; give its exit status, unless this process becomes the launcher.

    128 + n says that signal n ended it, 124 that its time was up, 125 that its launcher could not start it
    as it was rendered, and said so. `say` is told what a person should know before it starts. Raise
    SandwrightError when nothing was started.
    """
    if not request.argv:
        raise UsageError("give a command to run, behind --")
    began = time.time()
    absent_guard.check(request.policy)
    log = _opened(request.audit)
    try:
        prepared = prepare_or_cached(request, say)
        _check(request, prepared, log)
    except BaseException:
        if log is not None:
            log.discard()
        raise
    said = trust.Loosened(*prepared.loosened).line()
    for note in (prepared.instead, *(prepared.notes if prepared.fresh else ()), said):
        if note:
            say(note)
    sweep()
    session = CommandSession(request, prepared, began, log)
    if request.explained:
        paths = os.path.join(state.directory(), f"{session.id}.record")
        request.recording = Recording(paths, looks=False)
    if session.can_exec_launcher():
        return session.exec_launcher(say)
    from sandwright.session.supervise import run_supervised  # noqa: PLC0415 - costs milliseconds

    return run_supervised(session, say)


def _opened(path: str) -> AuditLog | None:
    """The audit log, open before anything of it can be changed from inside. Raise UsageError, HostError."""
    if not path:
        return None
    return AuditLog(path)


def _check(request: RunRequest, prepared: CachedSandbox, log: AuditLog | None) -> None:
    """Raise UsageError for what the request wants and can't have."""
    if log is not None:
        _check_kept_away(prepared, log)
        _check_apart("the audit log", log.path, prepared)
    for what, path in (("--denials", request.denials), ("--telemetry", request.telemetry)):
        if path:
            _check_apart(what, path, prepared)
    if request.explained:
        _check_explained(prepared)
    _check_visible(request.argv[0], prepared.after)


def _check_kept_away(prepared: CachedSandbox, log: AuditLog) -> None:
    """Raise UsageError where nobody is kept away from the log."""
    from sandwright.methods.registry import declaration  # noqa: PLC0415 - only for a log

    if not declaration(prepared.method).enforces:
        raise UsageError(f"{prepared.method} keeps nobody away from the audit log {log.path}")


def _check_apart(what: str, path: str, prepared: CachedSandbox) -> None:
    """Raise UsageError for a file that the sandbox could put something else in the place of."""
    for root in prepared.after["roots"]:
        if f"{path}/".startswith(f"{root.rstrip('/')}/"):
            raise UsageError(f"{what} {path} is in {root}, which the sandbox may write")


def _check_explained(prepared: CachedSandbox) -> None:
    """Raise UsageError where the method can't tell which paths are refused."""
    from sandwright.methods.registry import declaration  # noqa: PLC0415 - few runs ask for it

    if why := declaration(prepared.method).hides("paths"):
        raise UsageError(f"--explain-denials: {prepared.method} can't tell of paths: {why}")


def _check_visible(program: str, places_: dict[str, list[str]]) -> None:
    """Raise UsageError for a program below /tmp, where the sandbox has a directory of its own."""
    path = os.path.normpath(program)
    if not path.startswith("/tmp/") or not os.path.exists(path):  # noqa: S108 - a name, nothing is made
        return
    below = (each for each in (*places_["roots"], *places_["closed"]) if each.startswith("/tmp"))  # noqa: S108
    shown = any(path == each or path.startswith(f"{each}/") for each in below)
    if places_["roots"] and not shown:
        raise UsageError(
            f"{program} is not there inside: the sandbox has an empty /tmp of its own. Put it into the "
            "project, or list it in filesystem.read"
        )


def prepare_or_cached(request: RunRequest, say: Callable[[str], None] = lambda _: None) -> CachedSandbox:
    """The sandbox of a request, rendered now, or before if that still holds. Raise SandwrightError.

    What changes while it is rendered, as sockets of other programs do, has it rendered once more.
    """
    found = render_cache.find(request.identity())
    if found is not None and _as_rendered(found):
        trust.require(trust.Loosened(*found.loosened), word=request.trusted)
        return found
    from sandwright.session.prepare import prepare  # noqa: PLC0415 - a cached sandbox needs none of it

    prepared = prepare(request, say)
    return prepared if render_cache.find(request.identity()) is not None else prepare(request, say)


def _as_rendered(prepared: CachedSandbox) -> bool:
    """Whether the artifacts are still what they were."""
    try:
        return all(render_cache.digest(path) == digest for path, digest in prepared.artifacts())
    except OSError:
        return False


def sweep() -> None:
    """Remove the records of sessions that were killed and left nothing that `sandwright cleanup` removes."""
    for data in state.read_all():
        if liveness(data) == "ended":
            _forget(str(data["session"]))
    for path in state.half_written():
        try:
            os.unlink(path)
        except FileNotFoundError:  # another run sweeps too
            pass


def _forget(session: str) -> None:
    try:
        stale.forget(session, within=_QUICKLY)
    except HostError:  # another process cleans up
        pass


class CommandSession:
    """One run. Of its `record`, `after` is for what is done at the end (`after.end`)."""

    def __init__(
        self, request: RunRequest, prepared: CachedSandbox, began: float, log: AuditLog | None = None
    ) -> None:
        self.log = log
        self.id = state.new_id()
        self.request = request
        self.prepared = prepared
        self.began = began
        self.native = render_cache.PLAN in prepared.digests
        clock = Clock()
        self.after = render_cache.recorded_after(prepared, request.policy) | {
            "elsewhere": absent_guard.begin(self.id, request.policy, prepared.after["absent"]),
            "telemetry": request.telemetry,
            "rendered": "now" if prepared.fresh else "before",
            "hint": _hint(request.argv, prepared.after),
        }
        self.denials: dict[str, object] = self.after["denials"]
        self.denials |= {"to": request.denials, "quiet": request.quiet}
        self.denials["file"] = os.path.join(state.directory(), f"{self.id}.denials")
        self.record: dict[str, object] = {
            "session": self.id,
            "began": began,
            "clock": [clock.began, clock.ticks],
            "command": os.path.basename(request.argv[0]),
            **render_cache.recorded(prepared),
            "after": self.after,
        }

    def environment(self) -> dict[str, str]:
        """The launcher's variables."""
        named = self._name(self.request.cidfile) if self.request.cidfile else {}
        denials = {_DENIALS: str(self.denials["file"])} if self.native else {}
        own = {"SANDWRIGHT_SESSION": self.id, **denials, **named}
        recorded = self.request.recording.environment() if self.request.recording else {}
        return {**os.environ, **self.prepared.environment, **own, **recorded}

    def command(self) -> list[str]:
        """What is started inside: the command, with the words that start it there in place of its name."""
        starts = self.prepared.starts
        return [*starts, *self.request.argv[1:]] if starts else self.request.argv

    def can_exec_launcher(self) -> bool:
        """Whether nobody has to be beside the launcher."""
        prepared = self.prepared
        beside = traced() or self.log is not None or self.request.recording is not None
        return prepared.native and not beside and can_exec_post_run(state.directory())

    def exec_launcher(self, say: Callable[[str], None]) -> int:
        """Be the launcher; comes back only with an error, having cleaned up."""
        words = [*self.prepared.wrap, *self.command()]
        try:
            after = {_AFTER: "\n".join(post_run_argv(state.write(self.id, self.record)))}
            _as_given()
            os.execve(words[0], words, self.environment() | after)  # noqa: S606 - that is what this is for
        except OSError as error:
            raise places.error(f"{words[0]} can't be started: {error.strerror}") from error
        finally:
            state.forget(self.id)
            report_run(self.record, None, say)

    def _name(self, path: str) -> dict[str, str]:
        """Write the session's name to a file; an engine writes there what it knows the container by."""
        from sandwright.methods.registry import properties  # noqa: PLC0415 - only for a file

        if properties(self.prepared.method).engine and not os.path.lexists(path):
            return {"SANDWRIGHT_CIDFILE": path}
        _write_new(path, self.id)
        return {}


_CONFIGURING = {
    "config": ("",),
    "remote": ("add", "remove", "rm", "rename", "set-url", "set-head", "set-branches"),
    "submodule": ("add", "init", "update", "sync", "deinit", "set-url", "set-branch"),
}
"""Commands of Git that write its configuration, with the words that follow; after `config` any may."""

_COMMITTING = ("commit", "tag", "merge", "rebase", "cherry-pick", "revert", "am", "pull", "stash")
"""Commands of Git that make commits or tags, which Git may want to sign."""

_WAY_OUT = (
    "Git's configuration can't be written inside, as it names programs that the host's Git runs: run this "
    "outside, or add filesystem.git: [config]"
)


_IN_WORKTREE = (
    "`git worktree add` in a linked worktree writes what leads to other worktrees, which is closed: run this "
    "outside"
)


def _hint(argv: list[str], places_: dict[str, list[str]]) -> list[object]:
    """What to say of a command of Git's that writes configuration, where that is closed, and whether always.

    Else when it fails: `git branch -u` ends with 0 nevertheless.
    """
    git = places_["git"]
    if os.path.basename(argv[0]) == "git" and argv[1:3] == ["worktree", "add"] and os.path.isfile(".git"):
        return [_IN_WORKTREE, False]
    if os.path.basename(argv[0]) != "git" or not git or f"{git[0]}/config".lstrip("/") in places_["names"]:
        return []
    words = [word for word in argv[1:] if not word.startswith("-")]
    if any(word in _COMMITTING for word in words) and places_.get("unsigned"):
        return [places_["unsigned"][0], False]
    options = [word for word in argv[1:] if word.startswith("-")]
    if words[:1] == ["branch"] and any(each.startswith(("-u", "--set-up", "--unset-up")) for each in options):
        return [_WAY_OUT, True]
    elsewhere_ = any(each.startswith(("--g", "--sy", "--fi", "-f")) for each in options)  # --get, --global
    if words[:1] == ["config"] and (len(words) < 3 or elsewhere_):
        return []
    second = words[1] if len(words) > 1 else ""
    told = words and any(second.startswith(each) for each in _CONFIGURING.get(words[0], ()))
    return [_WAY_OUT, False] if told else []


def _as_given() -> None:
    """Leave the signals as the person's shell would: Python ignores the first two, and waits with Ctrl-C."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def _write_new(path: str, text: str) -> None:
    """Write a file that must not be there yet, as `docker run --cidfile` does."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise places.error(f"{path} can't be written: {error.strerror}") from error
