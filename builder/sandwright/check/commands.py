"""Runs the commands of structure tests, each in its own sandbox, under every available runtime."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandwright import user_dirs
from sandwright.check.compared import match_text
from sandwright.check.finding import ImageFinding
from sandwright.check.structure import RULE, CommandTest, StructureTests, environment, expand_variables
from sandwright.errors import SandwrightError, UsageError
from sandwright.host import collect_host
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.bundles import convert
from sandwright.rootfs.bundles.bundle import unpacked, write_bundle
from sandwright.rootfs.bundles.identity import ExecUser, read_accounts, resolve_user
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.securejoin import Root
from sandwright.rootfs.unpacking.store import explained, remove_tree
from sandwright.runtime.bundles import set_user
from sandwright.runtime.contract import Session, Start, StartableImage
from sandwright.runtime.preflight import MissingRuntime, ReadyRuntime
from sandwright.runtime.registry import RUNTIMES
from sandwright.runtime.scratch import hidden_directory, scratch_directory
from sandwright.runtime.sessions import Sessions
from sandwright.watchdog import Ended, runtime_environment

NAMES = ("runc", "crun", "runsc", "bwrap")
"""The runtimes that start a bundle; engines need an archive of one of our images."""

LIMIT = 60.0
"""Seconds for one command."""


def run_commands(
    image: Image,
    tests: StructureTests,
    *,
    runtimes: Sequence[str] = (),
    progress: Progress = SILENT,
) -> tuple[list[ImageFinding], list[str]]:
    """Start each command under each runtime; give the findings, and a line for each runtime that isn't there.

    `runtimes` are required: one that doesn't work is a finding. Without them, all working runtimes are used;
    it is a finding if none works. Raise UsageError for an unknown runtime, and the exceptions of unpacking.
    """
    for name in runtimes:
        if name not in NAMES:
            raise UsageError(f"'{name}' starts no bundle; {', '.join(NAMES)} do")
    found, ready_tests = _faults(tests)
    if not ready_tests:
        return found, []
    skipped: list[str] = []
    host, stop = collect_host(), threading.Event()
    platform = str(image.platform)
    with (
        _unpack_directory() as folder,
        scratch_directory() as scratch,
        Sessions(host, scratch, stop) as sessions,
    ):
        started, bundles = 0, hidden_directory(scratch, "bundles")
        for name in runtimes or NAMES:
            ready = sessions.check(RUNTIMES[name], platform)
            reason = _why_not_started(ready, image, tests, folder)
            if isinstance(ready, MissingRuntime) or reason:
                skipped.append(f"{name}: {reason}")
                if runtimes:
                    found.append(ImageFinding(RULE, name, reason))
                continue
            started += 1
            session = sessions.session(ready)
            for number, test in enumerate(ready_tests):
                with progress.step(f"{test.name} under {name}"):
                    directory = bundles / f"{name}-{number}"
                    bundle = partial(_bundle, image, tests, test, folder, directory)
                    found.extend(_judge_command(test, name, session, platform, bundle))
        if not started and not runtimes:
            found.append(ImageFinding(RULE, "commandTests", "no runtime here starts them"))
    return found, skipped


@contextlib.contextmanager
def _unpack_directory() -> Iterator[Path]:
    """A directory for unpacked roots, which goes away however deep they are: shutil's removal recurses."""
    folder = Path(tempfile.mkdtemp(prefix="sandwright-check-", dir=user_dirs.visible_scratch()))
    try:
        folder.chmod(0o711)  # a sandbox's user looks its root up through it
        yield folder
    finally:
        with explained(folder):
            remove_tree(folder)


def _faults(tests: StructureTests) -> tuple[list[ImageFinding], list[CommandTest]]:
    """The faults of the tests as they are written, and the tests that can be run."""
    if not tests.commands:
        return [], []
    found = [ImageFinding(RULE, "commandTests", fault) for fault in tests.options.faults()]
    ready = []
    for test in tests.commands:
        faults = list(test.faults())
        found += [ImageFinding(RULE, test.name or "commandTests", fault) for fault in faults]
        ready += [] if faults else [test]
    return found, [] if any(tests.options.faults()) else ready


def _commands_user(image: Image, tests: StructureTests, folder: Path) -> ExecUser:
    """The user for the commands. Raise the errors of unpacking, and BuildError for an unknown user."""
    rootfs = unpacked(image, folder / "rootfs", rootless=os.geteuid() != 0)
    with Root(rootfs.path) as root:
        named = tests.options.user or convert.user(convert.image_section(image.config))
        return resolve_user(named, read_accounts(root))


def _why_not_started(
    ready: ReadyRuntime | MissingRuntime, image: Image, tests: StructureTests, folder: Path
) -> str:
    """The reason why a runtime can't start the commands; empty when it can, or when each fails alone."""
    if isinstance(ready, MissingRuntime):
        return ready.describe()
    try:
        return ready.variant.obstacle_for(_commands_user(image, tests, folder).uid)
    except SandwrightError:
        return ""


def _bundle(image: Image, tests: StructureTests, test: CommandTest, folder: Path, directory: Path) -> Path:
    """A bundle in `directory` that runs the command, over a root in `folder` that all of them share."""
    config = dict(image.config.get("config") or {})
    variables = environment(config, tests.global_env_vars)
    argv = tuple(expand_variables(word, variables) for word in test.argv)
    variables |= tests.options.environment() | {each.key: each.value for each in test.env_vars}
    config["Env"] = [f"{key}={value}" for key, value in variables.items()]
    if tests.options.user:
        config["User"] = tests.options.user
    config["Entrypoint"] = []  # the test's command stands in for it, too
    started = replace(image, config={**image.config, "config": config})
    written = write_bundle(started, directory, store=folder / "rootfs", command=argv)
    set_user(written.path, _commands_user(image, tests, folder))  # without root the bundle says root
    return written.path


def _judge_command(
    test: CommandTest, runtime: str, session: Session, platform: str, bundle: Callable[[], Path]
) -> Iterator[ImageFinding]:
    """The failed expectations of one command; one that can't be started fails alone."""
    name = f"{test.name} ({runtime})"
    try:
        subject = StartableImage(test.name, platform, bundle(), _no_archive)
        ended = session.run(Start(subject, None, LIMIT, runtime_environment()))
    except SandwrightError as error:
        yield ImageFinding(RULE, name, str(error))
        return
    yield from _compared(test, name, ended)


def _compared(test: CommandTest, name: str, ended: Ended) -> Iterator[ImageFinding]:
    if ended.how != "exited" or ended.status != test.exit_code:
        yield ImageFinding(RULE, name, f"{ended.describe()}; it has to exit with {test.exit_code}")
    output = ended.stdout.decode("utf-8", "replace")
    yield from match_text(name, output, test.expected_output, test.excluded_output, "its output")
    yield from match_text(name, ended.stderr, test.expected_error, test.excluded_error, "its standard error")


def _no_archive(*_: object) -> None:
    raise UsageError("a structure test's command is started from a bundle")
