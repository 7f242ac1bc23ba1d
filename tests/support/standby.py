"""Our program, imported once and forked for each call: starting Python takes most of a short command's time.

`calls(DIRECTORY)` puts programs `sandwright` and `invoke` there. Each hands its words, environment, directory
and open files to a process that waits with everything imported. That forks a child, in which nothing of ours
has run yet, like in a program that was just started. Our real programs are started by other tests, among them
that of `docs/start.md`.
"""

from __future__ import annotations

import array
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sandwright import process
from support import interpreters

TESTS = Path(__file__).parents[1]
PROGRAMS = ("sandwright", "invoke")
SOCKET = "standby.socket"
IMPORTED = (
    "sandwright.cli.tasks",
    "sandwright.cli.program",
    "sandwright.cli.running",
    "sandwright.cli.console",
    "sandwright.errors",
    "sandwright.init.init",
    "sandwright.api",
    "sandwright.policy.schema",
    "sandwright.render.rendered",
    "sandwright.evaluate.explain",
    "sandwright.session.run",
    "sandwright.verify.command",
    "invoke.main",
    "rich.table",
)
CLIENT = """\
#!{python} -ISs
import array, json, os, socket, sys
asked = {{"argv": [{name!r}, *sys.argv[1:]], "environ": dict(os.environ), "directory": os.getcwd()}}
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    files = array.array("i", [0, 1, 2]).tobytes()
    server.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
    server.sendall(json.dumps(asked).encode() + b"\\n")
    status = server.recv(4)
os._exit(status[0] if status else 70)
"""


@contextlib.contextmanager
def calls(directory: Path) -> Iterator[Path]:
    """A directory of programs, for the length of a `with`."""
    path = directory / SOCKET
    for name in PROGRAMS:
        program = directory / name
        program.write_text(CLIENT.format(python=interpreters.INSIDE, name=name, path=str(path)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(16)  # who calls before it has imported everything waits here
        code = f"import sys; sys.path.insert(0, {str(TESTS)!r}); from support import standby; standby.serve()"
        with process.start(
            sys.executable,
            "-c",
            code,
            str(server.fileno()),
            stdout=subprocess.DEVNULL,
            pass_fds=(server.fileno(),),
        ):
            server.close()  # calls of a process that has ended are refused, and do not wait
            yield directory


def serve() -> None:
    """Wait for calls, for ever, on the socket of `sys.argv`. Each has a process that looks after it."""
    server = socket.socket(fileno=int(sys.argv[1]))
    for name in IMPORTED:
        importlib.import_module(name)
    while True:
        connection, _ = server.accept()
        if not os.fork():
            server.close()
            _look_after(connection)
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _look_after(connection: socket.socket) -> None:
    """Have a call carried out, and end it when nobody waits for it any more."""
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(3 * 4))
    files = array.array("i", ancillary[0][2])
    with connection.makefile("rb") as stream:
        asked = json.loads(stream.readline())
    worker = os.fork()
    if not worker:
        os.setsid()
        connection.close()
        _become(asked, files)
    ended = os.pidfd_open(worker)
    ready, _, _ = select.select([ended, connection.fileno()], [], [])
    if ended not in ready:
        os.killpg(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    with contextlib.suppress(OSError):
        connection.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
    os._exit(0)


def _become(asked: dict[str, Any], files: array.array[int]) -> None:
    """Be the program."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    sys.argv = asked["argv"]
    sys.path[:0] = [each for each in asked["environ"].get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", closefd=False)
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    status = 70
    try:
        _main(sys.argv[0])
        status = 0
    except SystemExit as end:
        status = _status(end.code)
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _main(name: str) -> None:
    if name == "sandwright":
        from sandwright.cli import main  # noqa: PLC0415

        main()
    else:
        from invoke.main import program  # noqa: PLC0415

        sys.path.insert(0, "")
        program.run()


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1
