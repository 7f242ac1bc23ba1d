"""Runs tests that make networks or mount for a normal user, who can do so in a user namespace only.

A process with several threads can't enter a user namespace, and the tests beside these are about a user
outside of one. So a separate pytest runs such tests of a module. unshare(1) starts it in a user namespace
that maps the user to itself. It has a few capabilities there, and passes none on: the programs that a test
starts belong to a normal user. Its reports come back like those of xdist's workers.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TypeGuard

import pytest

from sandwright import process

FIXTURES = frozenset({"network_lab", "mount_lab"})
"""A test that makes network namespaces has the first fixture, one that mounts the second."""

CHANNEL = "TESTS_LAB_CHANNEL"
"""Environment variable: the descriptor of the socket on which the pytest of a lab receives tests."""

END_WAIT = 60.0
"""Seconds."""

ENTER = ("unshare", "--user", "--map-current-user", "--keep-caps")
"""util-linux 2.36 and newer."""

_KEPT = "-all,+net_admin,+net_bind_service,+sys_admin,+sys_ptrace"
_LAB = (*ENTER, "--net", "--mount", "setpriv", f"--inh-caps={_KEPT}", f"--ambient-caps={_KEPT}")
"""The command of a lab, in which the tests' own code obeys file modes, like a normal user."""

_PR_CAP_AMBIENT, _RAISE, _CLEAR_ALL = 47, 2, 4  # linux/prctl.h
_NET_ADMIN, _SYS_PTRACE, _SYS_ADMIN = 12, 19, 21  # linux/capability.h
_LIBC = ctypes.CDLL(None, use_errno=True)
_inside: list[bool] = []


def is_inside() -> bool:
    """Whether this is the pytest of a lab."""
    return bool(_inside)


def is_privileged() -> bool:
    """Whether this process can make networks and mounts."""
    return os.geteuid() == 0 or is_inside()


@functools.cache
def is_startable() -> bool:
    """Whether a normal user can start a lab on this machine."""
    if None in map(process.find, ("unshare", "setpriv", "ip")):
        return False
    return process.run(*_LAB, "ip", "link", "set", "lo", "up", check=False, timeout=30).status == 0


@contextlib.contextmanager
def _capable() -> Iterator[None]:
    """Permit the children of this thread to set up networks and mount, for the length of a `with`."""
    if os.geteuid() == 0:
        yield
        return
    for capability in (_NET_ADMIN, _SYS_PTRACE, _SYS_ADMIN):
        _ambient(_RAISE, capability)
    try:
        yield
    finally:
        _ambient(_CLEAR_ALL, 0)


def run(*words: str | PathLike[str]) -> None:
    """Run a program that sets up networks or mounts. Raise CommandFailed."""
    with _capable():
        process.run(*words, timeout=30)


def mount_namespace() -> tuple[list[str], list[str]]:
    """A command that runs another one with the right to mount, and one that drops that right again."""
    if os.geteuid() == 0:
        return ["unshare", "--mount"], []
    return [*ENTER, "--mount"], ["setpriv", "--inh-caps=-all", "--ambient-caps=-all"]


def _ambient(action: int, capability: int) -> None:
    if _LIBC.prctl(_PR_CAP_AMBIENT, action, capability, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_CAP_AMBIENT)")


def configure(config: pytest.Config) -> None:
    """Run the requested tests in the pytest of a lab; in other processes, request those of the lab."""
    given = os.environ.pop(CHANNEL, None)
    if given is not None:
        process.run("ip", "link", "set", "lo", "up")
        _ambient(_CLEAR_ALL, 0)
        _inside.append(True)
        config.pluginmanager.register(_Asked(socket.socket(fileno=int(given))))
    elif os.geteuid() != 0:
        config.pluginmanager.register(_Asking())


class _Asked:
    """In the pytest of a lab: runs the tests whose ids arrive, and writes reports, `None` after each."""

    def __init__(self, channel: socket.socket) -> None:
        channel.set_inheritable(False)
        self.orders, self.reports = channel.makefile("r"), channel.makefile("w")

    def _write(self, value: object) -> None:
        self.reports.write(f"{value!r}\n")  # JSON has no tuples, and pytest needs some
        self.reports.flush()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for line in self.orders:
            asked, following = ast.literal_eval(line)
            session.config.hook.pytest_runtest_protocol(item=items[asked], nextitem=items.get(following))
            self._write(None)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._write(report._to_json())


class _Asking:
    """In other processes: passes tests of the lab to its pytest, until the next test is none of them."""

    def __init__(self) -> None:
        self.lab: _Lab | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if not _wants_lab(item) or not is_startable():
            return None
        item.ihook.pytest_timeout_cancel_timer(
            item=item
        )  # the lab's own limit is set; it includes the set-up
        following = nextitem if _wants_lab(nextitem) and nextitem.path == item.path else None
        self.lab = self.lab or _Lab(item)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self.lab.run(item, following):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if following is None or not self.lab.answers:
            self.pytest_sessionfinish()
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def pytest_sessionfinish(self) -> None:
        if self.lab is not None:
            self.lab.close()
            self.lab = None


def _wants_lab(item: pytest.Item | None) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and not FIXTURES.isdisjoint(item.fixturenames)


class _Lab:
    """A pytest in a user and network namespace, for tests of one module."""

    def __init__(self, item: pytest.Item) -> None:
        self.answers = True
        self._stack = contextlib.ExitStack()
        scratch = tempfile.TemporaryDirectory(prefix="test-lab-", ignore_cleanup_errors=True)
        folder = Path(self._stack.enter_context(scratch))
        self.output = folder / "output"
        channel, theirs = socket.socketpair()
        option = item.config.option
        words = [
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            f"--tb={option.tbstyle}",
            *["-v"] * option.verbose,
        ]
        words += [f"--rootdir={item.config.rootpath}", f"--basetemp={folder}/tmp", str(item.path)]
        with theirs, self.output.open("wb") as output:
            self.pytest = subprocess.Popen(
                [*_LAB, sys.executable, "-m", "pytest", *words],
                env={**os.environ, CHANNEL: str(theirs.fileno())},
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        self._stack.callback(self._end, channel)
        self.orders, self.reports = channel.makefile("w"), channel.makefile("r")

    def run(self, item: pytest.Item, following: pytest.Item | None) -> Iterator[pytest.TestReport]:
        """The reports of a test, as they arrive. If the lab ends before the test does, the test fails."""
        with contextlib.suppress(BrokenPipeError):
            self.orders.write(f"{(item.nodeid, following and following.nodeid)!r}\n")
            self.orders.flush()
        for line in self.reports:
            if (report := ast.literal_eval(line)) is None:
                return
            yield pytest.TestReport._from_json(report)
        self.answers = False
        said = self.output.read_text(errors="replace")[-4000:]
        yield pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"the pytest of the lab has ended:\n{said}", "call"
        )

    def _end(self, channel: socket.socket) -> None:
        channel.shutdown(socket.SHUT_RDWR)
        channel.close()
        try:
            self.pytest.wait(END_WAIT)
        except subprocess.TimeoutExpired:
            self.pytest.kill()
            self.pytest.wait()

    def close(self) -> None:
        """Let the lab end, and remove its files."""
        self._stack.close()
