"""Our program, imported once in a run and forked for each call: imports take most of a short command's time.

`COMMAND` and words are an argv with the effect of `python -P -c 'from sandwright.cli import main; main()'`.
`programs(DIRECTORY)` puts `sandwright` and `invoke` there. `interpreter(FILE)` stands in for Python in the
first line of `sandwright-interpreter`. Each passes its words, environment, directory and open files to a
server of this run, a process that waits with everything imported. It forks a child. As in a program that was
just started, none of our code has run there, except the code that reads our installed files. The child has
the server's parent, user, limits and signals, and not the caller's; tests of those start the real program.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import marshal
import os
import platform
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import traceback
import uuid
from pathlib import Path

from sandwright import process
from sandwright.cli.functions import FUNCTIONS
from sandwright.methods import registry
from sandwright.policy.facts import HostFacts
from sandwright.policy.hidden import hidden_paths
from sandwright.policy.load import built_in, preset
from sandwright.policy.loosening import shipped_hosts
from sandwright.policy.merged import MergedPolicy
from sandwright.render.baseline import load_baseline
from sandwright.render.filters import shipped_filter
from sandwright.seccomp.abi import Architecture
from support import interpreters

TESTS = Path(__file__).parents[1]
PROGRAMS = ("sandwright", "invoke")
SOCKET = os.environ.setdefault("TESTS_STANDBY", f"{tempfile.gettempdir()}/test-standby-{uuid.uuid4().hex}")
"""The workers of a run inherit it, and this module is imported before the run begins."""
FLAGS = {"sandwright": ("-P",), "sandwright-interpreter": ("-E", "-P"), "invoke": ()}
"""Python's options for each program with a server: our code reads `sys.flags`."""
CLIENT = (interpreters.INSIDE, "-ISs", str(Path(__file__).with_name("standby_client.py")))
COMMAND = (*CLIENT, f"{SOCKET}-sandwright", "sandwright")
IMPORTED = (
    *sorted({f"sandwright.cli{each.partition(':')[0]}" for each in FUNCTIONS.values()}),
    "sandwright.cli.tasks",
    "sandwright.cli.program",
    "sandwright.cli.console",
    "sandwright.cli.drawing",
    "sandwright.errors",
    "sandwright.init.init",
    "sandwright.api",
    "sandwright.policy.schema",
    "sandwright.render.rendered",
    "sandwright.evaluate.explain",
    "sandwright.evaluate.explain.plans",
    "sandwright.methods.bwrap.backend",
    "sandwright.methods.bwrap.explain",
    "sandwright.methods.shared.trial",
    "sandwright.session.run",
    "sandwright.verify.command",
    "invoke.main",
    "rich.table",
)


def start(stack: contextlib.ExitStack) -> None:
    """Wait for calls until the stack is closed. The first caller of a server waits for its imports."""
    code = f"import sys; sys.path[:0] = [{str(TESTS)!r}]; from support import standby; standby.serve()"
    for name, flags in FLAGS.items():
        with socket.socket(socket.AF_UNIX) as server:
            path = Path(f"{SOCKET}-{name}")
            server.bind(str(path))
            stack.callback(path.unlink)
            path.chmod(0o600)  # another user's call would have our rights
            server.listen(16)
            argv = (sys.executable, *flags, "-c", code, str(server.fileno()), str(os.getpid()))
            stack.enter_context(process.start(*argv, stdout=subprocess.DEVNULL, pass_fds=(server.fileno(),)))


def programs(directory: Path) -> Path:
    """Put programs into a directory, and return it."""
    for name in PROGRAMS:
        program = directory / name
        words = " ".join(f"'{word}'" for word in (*CLIENT, f"{SOCKET}-{name}", name))
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return directory


def interpreter(path: Path) -> Path:
    """Write a program that accepts `-E -P SCRIPT WORDS…`, in the form of the command's native part."""
    code = f"sys.argv[1:3] = ['{SOCKET}-sandwright-interpreter']\nexec(open({CLIENT[2]!r}).read())\n"
    path.write_text(f"#!{interpreters.INSIDE} -ISs\nimport sys\n{code}")
    path.chmod(0o755)
    return path


def serve() -> None:
    """Wait for calls on the socket of `sys.argv`, while its run lasts. A process supervises each call."""
    server = socket.socket(fileno=int(sys.argv[1]))
    run = os.pidfd_open(int(sys.argv[2]))
    _wait(server, run)
    _import_all()
    while True:
        _wait(server, run)
        connection, _ = server.accept()
        if not os.fork():
            server.close()
            _look_after(connection)
        connection.close()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _wait(server: socket.socket, run: int) -> None:
    """Wait for a call; end if the run was killed and its servers are left."""
    ready, _, _ = select.select([server.fileno(), run], [], [])
    if run in ready:
        os._exit(0)


def _import_all() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    _load_shipped()
    sys.path.remove(str(TESTS))
    gc.freeze()  # otherwise each child would scan all of it, and thereby copy it


def _load_shipped() -> None:
    """Compute the facts of our installed files: that takes a fifth of a first run."""
    built_in()
    preset("default")
    hidden_paths()
    shipped_hosts()
    load_baseline()
    arch: Architecture = "arm64" if platform.machine() == "aarch64" else "amd64"
    for name in ("default", "strict"):
        shipped_filter(name, arch)
    facts = HostFacts(os="linux", home="/home/u", project="/home/u/p", platform=f"linux/{arch}")
    registry.render(MergedPolicy.from_text("method: bwrap\n").resolve(facts), "bwrap")
    registry.forget()  # each call reads for itself which methods are installed


def _look_after(connection: socket.socket) -> None:
    """Let a call run, and end it when no client waits for it any more."""
    size, ancillary, _, _ = connection.recvmsg(8, socket.CMSG_SPACE(4 * 4))
    files = array.array("i", ancillary[0][2])
    with connection.makefile("rb") as stream:
        argv, environ = marshal.loads(stream.read(int.from_bytes(size, "big")))
    worker = os.fork()
    if not worker:
        os.setsid()
        connection.close()
        _become(argv, environ, files)
    ended = os.pidfd_open(worker)
    ready, _, _ = select.select([ended, connection.fileno()], [], [])
    if ended not in ready:
        os.killpg(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    with contextlib.suppress(OSError):
        connection.sendall(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
    os._exit(0)


def _become(argv: list[str], environ: dict[bytes, bytes], files: array.array[int]) -> None:
    """Become the program."""
    *streams, directory = files
    os.fchdir(directory)
    for number, file in enumerate(streams):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    os.environ.clear()
    os.environb.update(environ)
    sys.argv = argv
    if not sys.flags.ignore_environment:
        first = 0 if sys.flags.safe_path else 1  # after the current directory
        sys.path[first:first] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", 1, encoding="utf-8", closefd=False)  # by lines, as at a terminal
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    status = 1
    try:
        _main(argv[0])
        status = 0
    except SystemExit as end:
        status = _status(end.code)
    except BaseException:  # noqa: BLE001 - as Python ends
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _main(name: str) -> None:
    if name == "invoke":
        from invoke.main import program  # noqa: PLC0415

        program.run()
    else:
        from sandwright.cli import main  # noqa: PLC0415

        main()


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1
