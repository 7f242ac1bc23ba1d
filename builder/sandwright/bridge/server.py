"""The bridge's process: listens, gives each connection a thread, and ends with its session.

It is started by `sandwright.bridge.serve` with the session's end of a pipe as its standard input: the
configuration comes over it, and when it ends (the process with the other end has closed it or has died, by
SIGKILL too) the bridge ends all calls, removes its directory, and exits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import selectors
import signal
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence

from sandwright import process
from sandwright.bridge import frames
from sandwright.bridge.access import WorkspaceAccess
from sandwright.bridge.audit import Audit
from sandwright.bridge.call import NO_BRIDGE, Context, serve_call
from sandwright.bridge.capabilities import obey_modes
from sandwright.bridge.children import Children
from sandwright.bridge.configuration import Configuration
from sandwright.bridge.directory import remove
from sandwright.bridge.git import git_with_initial_remotes
from sandwright.bridge.grammar import Grammar, compile_grammar
from sandwright.bridge.listeners import NotListening, receive_listener
from sandwright.bridge.profiles import profile_of
from sandwright.bridge.restricted import RestrictedGit
from sandwright.bridge.signing import CommitSigner
from sandwright.bridge.workspace import OpenWorkspace

MAX_OPEN = 16384
"""The limit of open files: enough for all concurrent calls. Programs get the same limit, and some close every
descriptor up to it."""

_STOP_SECONDS = 10.0


class Server:
    """The server of one bridge."""

    def __init__(
        self, configuration: Configuration, listeners: Sequence[socket.socket], channel: socket.socket | None
    ) -> None:
        """The `listeners` are bound and listen. Sandboxes may pass listeners of their own over `channel`."""
        self._configuration = configuration
        self._selector = selectors.DefaultSelector()
        self._listeners = [*listeners]
        self._channel = channel
        self._stop_reader, self._stop_writer = os.pipe()
        self._threads: set[threading.Thread] = set()
        self._connections = 0
        self._calls = 0
        self._lock = threading.Lock()
        self._context = self._make_context()

    def _make_context(self) -> Context:
        configuration = self._configuration
        access = WorkspaceAccess(configuration.access)
        workspace = OpenWorkspace(configuration.workspace, access)
        needs_git = {"git", "gh"} & configuration.programs.keys() and process.find("git")
        words = (
            word for each in configuration.programs.values() for entry in each.allow for word in entry.words
        )
        git = git_with_initial_remotes(
            workspace, configuration.repositories if needs_git else (), words, configuration.private,
            loopback=configuration.loopback,
            restricted=RestrictedGit(configuration.restricting),
        )  # fmt: skip
        known_secrets = [
            secret for each in configuration.programs.values() for secret in each.secrets.values()
        ]
        children = Children()
        return Context(
            configuration, workspace, _grammars(configuration), git,
            CommitSigner(configuration, workspace, children, self._stop_reader), children,
            Audit(configuration.audit, configuration.session, known_secrets), self._stop_reader,
            threading.BoundedSemaphore(configuration.limits.calls),
        )  # fmt: skip

    def run(self, lifeline: int) -> None:
        """Serve until the lifeline ends, or SIGTERM or SIGINT arrives."""
        wake_reader, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        for fd in (lifeline, wake_reader):
            self._selector.register(fd, selectors.EVENT_READ)
        for each in (*self._listeners, *([self._channel] if self._channel else [])):
            self._selector.register(each, selectors.EVENT_READ)
        names = {*self._configuration.programs, *self._context.signer.programs}
        self._context.audit.write("start", programs=sorted(names))
        try:
            while self._serve_once(lifeline, wake_reader):
                pass
        finally:
            self._end_calls()

    def _serve_once(self, lifeline: int, wake: int) -> bool:
        for key, _ in self._selector.select():
            if key.fileobj in (lifeline, wake):
                if key.fileobj == wake or not os.read(lifeline, 1):
                    return False
            elif key.fileobj is self._channel:
                self._take_listener()
            else:
                assert isinstance(key.fileobj, socket.socket)
                self._accept_call(key.fileobj)
        return True

    def _accept_call(self, listener: socket.socket) -> None:
        try:
            connection = listener.accept()[0]
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                time.sleep(0.05)  # it stays in the queue, and select would say so at once
            return
        with self._lock:
            self._calls += 1
            number = self._calls
            full = self._connections >= self._configuration.limits.connections
            self._connections += not full
        if full:
            self._context.audit.write("peer", call=number, why="too many connections")
            with contextlib.suppress(OSError), connection:
                connection.setblocking(False)
                connection.send(frames.encode_refusal(NO_BRIDGE, "too many calls at once"))
            return
        thread = threading.Thread(target=self._serve, args=(connection, number), daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # no more threads for this user
            connection.close()
            self._remove_thread(thread)

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with connection:
                if connection.family != socket.AF_UNIX:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                serve_call(connection, number, self._context)
        except Exception as error:  # noqa: BLE001 - one call must not end the bridge
            with contextlib.suppress(OSError):
                self._context.audit.write("failed", call=number, why=type(error).__name__)
        finally:
            self._remove_thread(threading.current_thread())

    def _remove_thread(self, thread: threading.Thread) -> None:
        with self._lock:
            self._connections -= 1
        self._threads.discard(thread)

    def _take_listener(self) -> None:
        """Accept a listener that `sandwright-enter` made on its sandbox's loopback, and publish its port."""
        channel = self._channel
        assert channel is not None
        try:
            listener = receive_listener(channel, self._configuration.public)
        except NotListening as fault:
            self._context.audit.write("peer", why=f"a listener that is none: {fault}")
            return
        if listener is None:  # the peer has closed its end
            self._selector.unregister(channel)
            channel.close()
            self._channel = None
            return
        self._listeners.append(listener)
        self._selector.register(listener, selectors.EVENT_READ)

    def _end_calls(self) -> None:
        """End all calls, and remove everything."""
        for listener in self._listeners:
            listener.close()
        os.write(self._stop_writer, b"x")
        until = time.monotonic() + _STOP_SECONDS
        for thread in tuple(self._threads):
            thread.join(max(0.0, until - time.monotonic()))
        self._context.children.end_all()
        self._context.audit.write("stop", calls=self._calls)
        remove(self._configuration.public.parent)
        remove(self._configuration.private.parent)


def _grammars(configuration: Configuration) -> Mapping[str, Grammar]:
    return {
        name: compile_grammar(name, program.allow, profile_of(name))
        for name, program in configuration.programs.items()
    }


def serve_forever(source: int, channel: int, listeners: Sequence[int]) -> None:
    """The bridge's process: read the configuration, say that it's ready, serve, and end."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core would hold the secrets
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, MAX_OPEN) if most > 0 else MAX_OPEN, most))
    size = struct.unpack(">I", _read_exactly(source, 4))[0]
    configuration = Configuration.from_json(_read_exactly(source, size))
    listening = [socket.socket(fileno=each) for each in listeners]
    for each in listening:
        each.setblocking(False)
    server = Server(configuration, listening, socket.socket(fileno=channel))
    obey_modes()
    os.write(1, b"r")
    server.run(source)


def _read_exactly(fd: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(fd, size - len(data))
        if not more:
            raise EOFError("the session has ended before the bridge began")
        data += more
    return data
