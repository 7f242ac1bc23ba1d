"""Handles one call of a shim, from its first byte to its last: peer, request, decision, result."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from sandwright import process
from sandwright.bridge import frames
from sandwright.bridge.audit import Audit, Full
from sandwright.bridge.changes import Misused, changes_call
from sandwright.bridge.children import Children
from sandwright.bridge.configuration import Configuration
from sandwright.bridge.directory import SESSION_MARK
from sandwright.bridge.environment import gh_environment, program_environment
from sandwright.bridge.frames import Frame, FrameKind, ProtocolError
from sandwright.bridge.gh import check_repositories
from sandwright.bridge.git import Git, Job
from sandwright.bridge.grammar import AllowedCall, Grammar, Refused
from sandwright.bridge.pump import CHUNK, Pipes, Pump, output_pipe
from sandwright.bridge.remotes import github_repository
from sandwright.bridge.repository import bare_environment
from sandwright.bridge.signing import CommitSigner
from sandwright.bridge.workspace import OpenWorkspace, descriptor_path
from sandwright.errors import CommandFailed, ToolMissing
from sandwright.launcher.shim_names import CHANGES

REFUSED, NO_PROGRAM, NO_BRIDGE, OUT_OF_TIME = 126, 127, 125, 124
"""The exit status of a shim if the program did not run to its end, as of the shell and timeout(1)."""

_WHY = {
    "time": (OUT_OF_TIME, "the time limit of a call was reached, and the program was ended"),
    "output": (NO_BRIDGE, "the program wrote more than a call may, and was ended"),
    "input": (NO_BRIDGE, "more input than a call may have; the program was ended"),
    "protocol": (NO_BRIDGE, "the shim and the bridge don't speak the same protocol"),
    "stopped": (NO_BRIDGE, "the bridge exited, and the program with it"),
}


@dataclass(frozen=True)
class Context:
    """The data that all calls of a bridge share."""

    configuration: Configuration
    workspace: OpenWorkspace
    grammars: Mapping[str, Grammar]
    git: Git
    signer: CommitSigner
    children: Children
    audit: Audit
    stop: int
    """A descriptor that becomes readable when the bridge ends."""
    slots: threading.BoundedSemaphore
    """Acquired while a program runs; further calls wait."""

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """The secrets of all programs."""
        programs = self.configuration.programs.values()
        return tuple(secret.encode() for each in programs for secret in each.secrets.values())


@dataclass
class _DecidedCall:
    """A call that was parsed, on its connection. `parts`: its directory below the workspace."""

    connection: socket.socket
    reader: frames.FrameReader
    call: AllowedCall
    parts: tuple[str, ...]
    deadline: float
    event: dict[str, object]


@dataclass
class _Prepared:
    """The program to start. Its only text from the sandbox is text that a grammar accepted."""

    argv: list[str]
    environment: dict[str, str]
    directory: str
    descriptors: list[int] = field(default_factory=list)
    finish: Callable[[], None] = lambda: None
    """Called when the program has succeeded."""


def serve_call(connection: socket.socket, number: int, context: Context) -> None:
    """Answer one connection, even if its data is invalid. The caller closes it."""
    limits = context.configuration.limits
    started = time.monotonic()
    event: dict[str, object] = {"call": number}
    try:
        if fault := _peer_fault(connection, context.configuration.uids):
            context.audit.write("peer", why=fault, **event)
            return
        with contextlib.suppress(OSError):  # so that a chunk of output goes at once
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * CHUNK)
        reader = frames.FrameReader()
        request = _read_call(connection, reader, started + limits.greeting_seconds)
        program = request.program.decode(errors="replace")
        event |= {"program": context.audit.masked(program)}
        words = [word.decode(errors="backslashreplace") for word in request.arguments]
        event |= {"arguments": context.audit.words(words)}
        event |= {"directory": context.audit.masked(request.directory.decode(errors="backslashreplace"))}
        context.audit.check()
        if program in context.signer.programs:
            with context.slots:
                answer = context.signer.answer(connection, reader, request)
            context.audit.write("call", signed=answer.signed, key=answer.key, status=0, **event)
            _send_final_frame(connection, answer.frames)
            return
        call, parts = _decided_call(request, context)
        with context.slots:
            _run_call(
                _DecidedCall(connection, reader, call, parts, started + limits.call_seconds, event), context
            )
    except Misused as misuse:
        context.audit.write("call", status=REFUSED, **event)
        _send_final_frame(connection, frames.encode_refusal(REFUSED, str(misuse)))
    except Refused as refusal:
        context.audit.write("refused", why=context.audit.masked(str(refusal)), **event)
        _send_final_frame(connection, frames.encode_refusal(REFUSED, str(refusal)))
    except ProtocolError as error:
        context.audit.write("protocol", why=str(error), **event)
        _send_final_frame(connection, frames.encode_refusal(NO_BRIDGE, f"not the bridge's protocol: {error}"))
    except Full:
        why = "the log of this session is full, and no call runs without an entry; start another session"
        _send_final_frame(connection, frames.encode_refusal(NO_BRIDGE, why))
    except (ToolMissing, CommandFailed, OSError) as error:
        context.audit.write("failed", why=context.audit.masked(str(error)), **event)
        _send_final_frame(
            connection, frames.encode_refusal(NO_BRIDGE, "the bridge could not run this; see its log")
        )


def _read_call(connection: socket.socket, reader: frames.FrameReader, deadline: float) -> frames.CallRequest:
    """The CALL, which must come whole before the deadline. Raise ProtocolError otherwise."""
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise ProtocolError("no call came in time")
        connection.settimeout(remaining)
        try:
            data = connection.recv(1 << 16)
        except TimeoutError:
            continue
        except ConnectionError:
            data = b""
        if not data:
            raise ProtocolError("the connection ended before a call had come" if reader.midway else "no call")
        for frame in reader.feed(data):
            return _decode_request(frame, reader)


def _decode_request(frame: Frame, reader: frames.FrameReader) -> frames.CallRequest:
    if frame.kind != FrameKind.CALL:
        raise ProtocolError("something else before the call")
    if reader.midway:
        raise ProtocolError("input before any was granted")
    return frames.decode_request(frame.payload)


def _peer_fault(connection: socket.socket, uids: tuple[int, ...]) -> str:
    """The reason why a connection is not from the sandbox; over the sandbox's loopback there is none."""
    if connection.family != socket.AF_UNIX:
        return ""
    if hasattr(socket, "SO_PEERCRED"):
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = struct.unpack("3i", raw)[1]
    else:  # macOS: struct xucred of LOCAL_PEERCRED (sys/ucred.h); SOL_LOCAL is 0
        raw = connection.getsockopt(0, 1, 76)
        uid = struct.unpack_from("Ii", raw)[1]
    return "" if uid in uids else f"uid {uid}"


def _decided_call(request: frames.CallRequest, context: Context) -> tuple[AllowedCall, tuple[str, ...]]:
    """Parse a call; give it with its directory below the workspace. Raise Refused if it is not allowed."""
    try:
        program = request.program.decode("ascii")
        arguments = [word.decode() for word in request.arguments]
        directory = request.directory.decode("utf-8", "surrogateescape")
    except UnicodeDecodeError:
        raise Refused("arguments that are no UTF-8 are not passed on") from None
    if program == CHANGES and context.configuration.changes:
        return changes_call(arguments), ()
    grammar = context.grammars.get(program)
    if grammar is None:
        raise Refused("the policy names no such shim")
    return grammar.parse(arguments), context.workspace.relative(directory)


def _run_call(requested: _DecidedCall, context: Context) -> None:
    """Run the program and answer with its end; the answer does not wait for the cleanup."""
    began = time.monotonic()
    with (
        TemporaryDirectory(prefix="call-", dir=context.configuration.private) as scratch,
        context.workspace.directory(requested.parts),
        contextlib.ExitStack() as opened,
    ):
        prepared = _prepared(requested, Path(scratch), opened, context)
        with _start_program(requested, prepared, context) as (pump, status):
            if status == 0 and pump.why == "exit":
                prepared.finish()
            requested.event |= {
                "end": pump.why, "status": status, "seconds": round(time.monotonic() - began, 4),
                **pump.counts, "redacted": pump.redacted or None,
            }  # fmt: skip
            context.audit.write("call", **requested.event)
            if pump.why == "exit":
                _send_final_frame(requested.connection, frames.encode_exit(status))
            elif pump.why != "gone":
                _send_final_frame(requested.connection, frames.encode_refusal(*_WHY[pump.why]))


def _prepared(
    requested: _DecidedCall, scratch: Path, files: contextlib.ExitStack, context: Context
) -> _Prepared:
    """The command line, environment and directory of a call. Files that it names are opened here.

    Nothing runs in the workspace, because files in its directory can control a program.
    """
    call, parts = requested.call, requested.parts
    if call.program == CHANGES and (changes := context.configuration.changes):
        environment = {**changes.environment, SESSION_MARK: context.configuration.session}
        return _Prepared([*changes.words, *call.plain], environment, str(scratch))
    program = context.configuration.programs[call.program]
    home = scratch / "home"
    home.mkdir()
    base = program_environment(context.configuration.environment, home=home)
    base[SESSION_MARK] = context.configuration.session
    match call.program if call.form is not None else "":
        case "git":
            with context.children.working():
                job = context.git.prepared(call, parts, scratch, program.secrets, requested.deadline)
            environment = {**bare_environment(), **base, **job.variables}
            argv = context.git.argv(program.path, job, scratch, environment)
            return _Prepared(argv, environment, str(scratch), finish=lambda: _deliver_job(job, context))
        case "gh":
            repository = github_repository(context.git.remotes(parts))
            check_repositories(call, repository, context.grammars[call.program].entries)
            program_env = {**gh_environment(home, repository), **program.secrets}
            prepared = _Prepared([program.path], {**base, **program_env}, str(home))
        case _:
            empty = scratch / "empty"  # an unknown program must not depend on files that the sandbox wrote
            empty.mkdir()
            prepared = _Prepared([program.path], {**base, **program.secrets}, str(empty))
    for word in call.words():
        if isinstance(word, tuple):
            location = context.workspace.below(parts, word[1].path)
            prepared.descriptors.append(files.enter_context(context.workspace.file(location)))
            word = word[0] + descriptor_path(prepared.descriptors[-1])  # noqa: PLW2901 - the same word, for the program
        prepared.argv.append(word)
    return prepared


def _deliver_job(job: Job, context: Context) -> None:
    with context.children.working():
        context.git.deliver(job)


@contextlib.contextmanager
def _start_program(
    requested: _DecidedCall, prepared: _Prepared, context: Context
) -> Iterator[tuple[Pump, int]]:
    """Run a prepared program under a pump; give the pump and the status. Leftover children are ended, too."""
    limits, children = context.configuration.limits, context.children
    with contextlib.ExitStack() as stack:
        pipes, theirs = _pipes(reads_input=requested.call.reads_input)
        stack.callback(pipes.close)
        with contextlib.ExitStack() as descriptors, children.starting() as register:
            for fd in theirs:
                descriptors.callback(os.close, fd)
            started = stack.enter_context(
                process.start(
                    *prepared.argv,
                    stdin=theirs[0],
                    stdout=theirs[1],
                    stderr=theirs[2],
                    env=prepared.environment,
                    cwd=prepared.directory,
                    pass_fds=prepared.descriptors,
                )
            )
            register(started.pid)
        try:
            pump = Pump(
                requested.connection, requested.reader, started.pid, pipes,
                limits=limits, secrets=context.secrets, deadline=requested.deadline, stop=context.stop,
            )  # fmt: skip
            if pump.run() != "exit":
                _end_program(started.pid, limits.grace_seconds)
            yield pump, started.wait(timeout=60)
        finally:
            if started.returncode is None:
                process.kill(started)
            children.ended(started.pid)


def _end_program(pid: int, grace: float) -> None:
    """End a program: by SIGTERM, after a while by SIGKILL. It isn't reaped here, so its pid is not reused."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGTERM)
        until = time.monotonic() + grace
        while time.monotonic() < until:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
            time.sleep(0.01)
        os.killpg(pid, signal.SIGKILL)


def _pipes(*, reads_input: bool) -> tuple[Pipes, tuple[int, int, int]]:
    """The pipes of a program's streams: our ends, and its ends."""
    if reads_input:
        stdin_theirs, stdin = os.pipe()
    else:
        stdin_theirs, stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None
    stdout, stdout_theirs = output_pipe()
    stderr, stderr_theirs = output_pipe()
    return Pipes(stdin, stdout, stderr), (stdin_theirs, stdout_theirs, stderr_theirs)


def _send_final_frame(connection: socket.socket, frame: bytes) -> None:
    """Send a last frame, if the client still listens. Don't wait long for a client that doesn't read."""
    with contextlib.suppress(OSError):
        connection.settimeout(5)
        connection.sendall(frame)
