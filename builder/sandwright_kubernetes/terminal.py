"""A terminal for the command: ours, through an attachment to its container, while ours passes every key on.

A program runs before a client can attach to it. Its output until then is in the container's log, which
has whole lines; the two are joined where they overlap. A connection that breaks off is made again: the
command keeps its terminal meanwhile.
"""

from __future__ import annotations

import copy
import fcntl
import json
import os
import queue
import select
import signal
import struct
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sandwright.errors import SandwrightError
from sandwright_kubernetes.connection import ApiRefused, ApiUnreachable, Json, last_bytes
from sandwright_kubernetes.jobrun import JobRun
from sandwright_kubernetes.sync import channels

_CHUNK = 1 << 12
_ALIVE = 30.0
"""Seconds between keep-alives, so that an idle connection is not closed."""

_JOINED = 0.3
"""Seconds in which the content of the log comes through the attachment, too."""

_BREATH = 0.5

_OVERLAP = 1 << 15
"""Bytes of overlap that are searched for between log and attachment: the output of a moment."""

_BACKLOG = 1 << 20
"""Bytes of the log that are shown, its end."""

_WAITING = 64
"""Messages that wait to be shown. A command that writes more waits itself."""


def with_terminal(job: Json) -> Json:
    """The Job whose command has a terminal. It outlives an attachment, so that there can be another one."""
    made = copy.deepcopy(job)
    made["spec"]["template"]["spec"]["containers"][0] |= {"stdin": True, "tty": True}
    return made


def converse(running: JobRun, write: Callable[[bytes], None]) -> None:
    """Be the command's terminal to its end. Where there was none, as it has ended, its log is written."""
    attached = False
    while not running.is_over():
        try:
            _attached(running, write, first=not attached)
            attached = True
        except ApiRefused:
            if not attached:
                break
        except ApiUnreachable:
            pass
        time.sleep(_BREATH)
    if not attached:
        running.follow(write)


def join_output(log: bytes, attached: bytes) -> bytes:
    """The output from a log and an attachment: the end of the log may be the attachment's beginning."""
    most = min(len(log), len(attached), _OVERLAP)
    overlap = next(size for size in range(most, -1, -1) if log.endswith(attached[:size]))
    return log + attached[overlap:]


def _attached(running: JobRun, write: Callable[[bytes], None], *, first: bool) -> None:
    """One attachment to its end. Raise ApiRefused, ApiUnreachable where there is none."""
    query = {"container": "sandbox", "stdin": "true", "stdout": "true", "tty": "true"}
    with (
        channels.open_program(running.connection, f"{running.pod}/attach", query) as streams,
        _raw(),
        _typing(streams),
    ):
        output = read_output(streams)
        if first:
            log = _log(running)
            write(join_output(log, _gathered(output)))
        while data := output.get():
            write(data)


def read_output(streams: channels.Channels) -> queue.Queue[bytes]:
    """The command's output as it comes; empty bytes at the end. A full queue stops the reading."""
    output: queue.Queue[bytes] = queue.Queue(_WAITING)
    threading.Thread(target=_receive, args=(streams, output), daemon=True).start()
    return output


def _receive(streams: channels.Channels, output: queue.Queue[bytes]) -> None:
    with suppress(SandwrightError):
        for channel, data in streams.messages():
            if channel == channels.STATUS:
                break
            if channel == channels.STDOUT and data:
                output.put(data)
    output.put(b"")


def _gathered(output: queue.Queue[bytes]) -> bytes:
    """The output of the next moment. The end marker stays in the queue."""
    found, until = b"", time.monotonic() + _JOINED
    while (remaining := until - time.monotonic()) > 0:
        try:
            data = output.get(timeout=remaining)
        except queue.Empty:
            break
        if not data:
            output.put(b"")
            break
        found += data
    return found


def _log(running: JobRun) -> bytes:
    """The command's output until now, in whole lines; empty if the node does not return it.

    Some runtimes (containerd) omit the carriage returns that the terminal added.
    """
    try:
        with running.connection.stream(f"{running.pod}/log", silence=_ALIVE, container="sandbox") as pieces:
            return last_bytes(pieces, _BACKLOG).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    except (ApiRefused, ApiUnreachable):
        return b""


@contextmanager
def _raw() -> Iterator[None]:
    """Every key is passed on as it is: ^C is the command's."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)
        yield
    finally:
        with suppress(termios.error):  # the window is gone
            termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def _typing(streams: channels.Channels) -> Iterator[None]:
    """Pass on keys, and the window's size when it changes."""
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    before = signal.signal(signal.SIGWINCH, lambda *_: os.write(wake, b"w"))
    thread = threading.Thread(target=_send_resizes, args=(streams, woken), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(wake)
        thread.join()
        os.close(woken)


def _send_resizes(streams: channels.Channels, woken: int) -> None:
    """To the end of the pipe: it reports a new size or the end of the session."""
    with suppress(SandwrightError, OSError):
        streams.send(channels.SIZE, _terminal_size())
        keys = [0]
        while True:
            ready, _, _ = select.select([woken, *keys], [], [], _ALIVE)
            if woken in ready:
                if not os.read(woken, 512):
                    return
                streams.send(channels.SIZE, _terminal_size())
            if not ready:
                streams.ping()
            if 0 in ready:
                data = os.read(0, _CHUNK)
                keys = keys if data else []
                if data:
                    streams.send(channels.STDIN, data)


def _terminal_size() -> bytes:
    """As the kubelet reads it."""
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
    return json.dumps({"Width": columns, "Height": rows}).encode()
