"""Standard input of a command in a Pod: this process's, sent through an attachment to its container.

Output comes by the log, which nothing is lost of; so the attachment is for one stream and one way. Its end is
the end of the command's input (`stdinOnce`).
"""

from __future__ import annotations

import copy
import os
import stat
import threading

from sandwright.errors import SandwrightError
from sandwright_kubernetes.admission import is_allowed
from sandwright_kubernetes.connection import Connection, Json
from sandwright_kubernetes.sync import channels

_CHUNK = 1 << 15
_NULL = (1, 3)
"""The number of the null device (Linux, admin-guide/devices.txt)."""


def is_fed() -> bool:
    """Whether there is something to read here: not from the null device, nor from a terminal, or nothing."""
    try:
        status = os.fstat(0)
    except OSError:
        return False
    null = stat.S_ISCHR(status.st_mode) and (os.major(status.st_rdev), os.minor(status.st_rdev)) == _NULL
    return not null and not os.isatty(0)


def may_attach(connection: Connection, namespace: str) -> bool:
    """Whether we have the right to attach something to a container: input, or a terminal."""
    return all(is_allowed(connection, namespace, verb, "Pod", "attach") for verb in ("get", "create"))


def with_input(job: Json) -> Json:
    """The Job whose command reads the input of one attachment, and then end of file."""
    made = copy.deepcopy(job)
    made["spec"]["template"]["spec"]["containers"][0] |= {"stdin": True, "stdinOnce": True}
    return made


def start_feeding(connection: Connection, pod: str) -> threading.Thread:
    """Begin to send our input to the container of the Pod at a path. It ends by itself, or with us."""
    thread = threading.Thread(target=_send_input, args=(connection, f"{pod}/attach"), daemon=True)
    thread.start()
    return thread


def _send_input(connection: Connection, path: str) -> None:
    """Send to the end of the input, or of its reader. A command that has ended reads nothing any more."""
    query = {"container": "sandbox", "stdin": "true"}
    try:
        with channels.open_program(connection, path, query) as streams:
            while data := os.read(0, _CHUNK):
                streams.send(channels.STDIN, data)
    except (SandwrightError, OSError):
        return
