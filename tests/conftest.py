"""The setup of every test: required tools, and a check for leftovers of the run."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import signal
import time
import uuid
from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

from sandwright import process
from sandwright.engines.docker import answers
from support import labworker, locks, ordering, preflights, standby
from support.dockerhost import docker_daemon
from support.enginehosts import close_engine_hosts
from support.leftovers import RUN_MARK, leftovers
from support.thorough import THOROUGH, examples

settings.register_profile("here", deadline=None, max_examples=examples())
settings.register_profile(
    "ci", deadline=None, derandomize=not THOROUGH, print_blob=True, max_examples=examples()
)
settings.load_profile("ci" if os.environ.get("CI") else "here")

for _number in set(signal.Signals) - {signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores these two by itself
    if (
        signal.getsignal(_number) is signal.SIG_IGN
    ):  # as under nohup and behind `&`: the programs of tests would ignore them, too
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

os.environ.setdefault("SANDWRIGHT_TRUST", "1")  # policies of tests grant anything; programs inherit it

_PID = os.getpid()


def _guarded(execute: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    """An exec that never replaces the tests themselves, which would end successfully without a result."""

    def guarded(*words: object) -> NoReturn:
        if os.getpid() == _PID:
            raise AssertionError(f"{words[0]} would have replaced the tests")
        execute(*words)

    return guarded


for _name in ("execv", "execve"):
    setattr(os, _name, _guarded(getattr(os, _name)))

REQUIRED = frozenset(os.environ.get("SANDWRIGHT_REQUIRE", "").split(","))
"""Tools whose absence is a failure instead of a skip; `all` means every tool in a test. CI sets it."""

TESTS = Path(__file__).parent

GRACE = 5.0
"""Seconds."""

LEFT_BEHIND = 9
"""The exit status of a run that left something behind: no single test could be run again for it."""

_SERVICES = pytest.StashKey[contextlib.ExitStack]()
_BEFORE = pytest.StashKey[AbstractSet[object]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fuzz-seconds", type=float, default=0.0, help="how long tests/front/test_entry.py makes up entries"
    )


def pytest_configure(config: pytest.Config) -> None:
    labworker.configure(config)


@pytest.fixture(scope="session")
def network_lab() -> None:
    """Run the test in an environment that can create network namespaces.

    For a normal user, a pytest of `labworker` runs it.
    """
    if not labworker.is_privileged():
        pytest.skip("making network namespaces takes root, or a user namespace, which this machine refuses")


@pytest.fixture(scope="session")
def mount_lab() -> None:
    """Run the test where it can mount (`labworker.run`); its programs see the mounts, servers do not."""
    if not labworker.is_privileged():
        pytest.skip("mounting takes root, or a user namespace, which this machine refuses")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collection, which takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Start each worker with another part of the modules: one compiles a module, and the others load it."""
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker is not None and collector.path == TESTS and report.passed:
        first = len(report.result) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give all workers the tests in the same order."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0])
        items[:] = ordering.in_parts(items, int(worker["workercount"]))


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for tool in mark.args:
            if process.find(tool) is not None:
                continue
            if tool in REQUIRED or "all" in REQUIRED:
                pytest.fail(f"{tool} is required here and not installed")
            pytest.skip(f"{tool} is not installed")
        if "docker" in mark.args and not _docker_answers():
            (pytest.fail if REQUIRED & {"docker", "all"} else pytest.skip)(
                "no Docker daemon answers: SANDWRIGHT_REQUIRE=docker starts one, as root"
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, bool | None, bool | None]:
    """A test waits for its locks before its time limit begins. Inside a lab, the requesting process waits."""
    if labworker.is_inside():
        return (yield)
    locks.acquire(item)
    try:
        with locks.accounts_as_they_are(item):
            return (yield)
    finally:
        locks.release(item, nextitem)


def pytest_sessionstart(session: pytest.Session) -> None:
    if not _is_worker(session.config):
        os.environ[RUN_MARK] = uuid.uuid4().hex
        session.config.stash[_BEFORE] = leftovers(os.environ[RUN_MARK])
        session.config.stash[_SERVICES] = services = contextlib.ExitStack()
        locks.start(services)
        standby.start(services)
        preflights.start(services)
        if _wants_docker(session.config):
            services.enter_context(docker_daemon())  # the workers inherit DOCKER_HOST


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Let a run fail that leaves a process, container, mount, network or file behind."""
    close_engine_hosts()
    if _is_worker(session.config):
        return
    session.config.stash[_SERVICES].close()
    left = _left(session.config.stash[_BEFORE])
    if left:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line("\nThe tests left behind:\n  " + "\n  ".join(sorted(left)), red=True)
        session.exitstatus = LEFT_BEHIND


def _left(before: AbstractSet[object]) -> set[str]:
    """The new leftovers. A process that was asked to end gets a moment to do so."""
    until = time.monotonic() + GRACE
    while True:
        left = leftovers(os.environ[RUN_MARK]) - before
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.2)


def _wants_docker(config: pytest.Config) -> bool:
    """Whether to start a daemon if none answers: if it is required, or if all tests run as root."""
    if REQUIRED & {"docker", "dockerd", "all"}:
        return True
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return everything and os.geteuid() == 0 and None not in map(process.find, ("docker", "dockerd"))


@functools.cache
def _docker_answers() -> bool:
    return answers(None)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput") or labworker.is_inside()
