"""Starts the commands of structure tests, each in a sandbox of its own, under every runtime there is."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandwright.check.finding import Finding
from sandwright.check.structure import RULE, CommandTest, StructureTests, Variable, said
from sandwright.errors import SandwrightError, UsageError
from sandwright.host import collect_host
from sandwright.progress import SILENT, Progress
from sandwright.rootfs.bundles.bundle import write_bundle
from sandwright.rootfs.images.source import Image
from sandwright.smoke.contract import Session, Start, Subject
from sandwright.smoke.launch import Ended, base_environment
from sandwright.smoke.preflight import Missing
from sandwright.smoke.runtimes import RUNTIMES
from sandwright.smoke.scratch import scratch_directory
from sandwright.smoke.sessions import Sessions

NAMES = ("runc", "crun", "runsc", "bwrap")
"""Those that start a bundle; engines want an archive of an image of ours."""

LIMIT = 60.0
"""Seconds for one command."""


def run_commands(
    image: Image,
    tests: StructureTests,
    *,
    runtimes: Sequence[str] = (),
    progress: Progress = SILENT,
) -> tuple[list[Finding], list[str]]:
    """Start each command under each runtime; give the findings, and a line for each runtime that isn't there.

    `runtimes` are required: one that doesn't work is a finding. Without them all that work are taken, and
    that none does is a finding. Raise UsageError for a runtime that there isn't, and what unpacking raises.
    """
    for name in runtimes:
        if name not in NAMES:
            raise UsageError(f"'{name}' starts no bundle; {', '.join(NAMES)} do")
    if not tests.commands:
        return [], []
    found: list[Finding] = []
    skipped: list[str] = []
    host, stop = collect_host(), threading.Event()
    platform = str(image.platform)
    with (
        tempfile.TemporaryDirectory(prefix="sandwright-check-") as folder,
        scratch_directory() as scratch,
        Sessions(host, scratch, stop) as sessions,
    ):
        Path(folder).chmod(0o711)  # a sandbox's user looks its root up through it
        started = 0
        for name in runtimes or NAMES:
            ready = sessions.look(RUNTIMES[name], platform)
            if isinstance(ready, Missing):
                skipped.append(f"{name}: {ready.describe()}")
                if runtimes:
                    found.append(Finding(RULE, name, ready.describe()))
                continue
            started += 1
            session = sessions.session(ready)
            for number, test in enumerate(tests.commands):
                with progress.step(f"{test.name} under {name}"):
                    bundle = _bundle(image, tests.global_env_vars, test, Path(folder), f"{name}-{number}")
                    found.extend(_judged(test, name, session, bundle, platform))
        if not started and not runtimes:
            found.append(Finding(RULE, "commandTests", "no runtime here starts them"))
    return found, skipped


def _bundle(image: Image, variables: Sequence[Variable], test: CommandTest, folder: Path, name: str) -> Path:
    """A bundle that runs the command, over a root that all of them share."""
    written = write_bundle(
        image, folder / "bundles" / name, store=folder / "rootfs", command=(test.command, *test.args)
    )
    path = folder / "bundles" / name / "config.json"
    config = json.loads(path.read_bytes())
    process = config["process"]
    process["args"] = [test.command, *test.args]  # the test's command stands in for the entrypoint, too
    changed = dict(entry.partition("=")[::2] for entry in process.get("env", ()))
    changed |= {each.key: each.value for each in (*variables, *test.env_vars)}
    process["env"] = [f"{key}={value}" for key, value in changed.items()]
    path.write_text(json.dumps(config), encoding="utf-8")
    return written.path


def _judged(
    test: CommandTest, runtime: str, session: Session, bundle: Path, platform: str
) -> Iterator[Finding]:
    subject = Subject(test.name, platform, bundle, _no_archive)
    name = f"{test.name} ({runtime})"
    try:
        ended = session.run(Start(subject, None, LIMIT, base_environment()))
    except SandwrightError as error:
        yield Finding(RULE, name, str(error))
        return
    yield from _compared(test, name, ended)


def _compared(test: CommandTest, name: str, ended: Ended) -> Iterator[Finding]:
    if ended.how != "exited" or ended.status != test.exit_code:
        yield Finding(RULE, name, f"{ended.describe()}; it has to exit with {test.exit_code}")
    output = ended.stdout.decode("utf-8", "replace")
    yield from said(name, output, test.expected_output, test.excluded_output, "its output")
    yield from said(name, ended.stderr, test.expected_error, test.excluded_error, "its standard error")


def _no_archive(*_: object) -> None:
    raise UsageError("a structure test's command is started from a bundle")
