"""Lists the leftovers of a test run on a machine, so that before and after can be compared."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from sandwright import process, user_dirs

RUN_MARK = "SANDWRIGHT_TEST_RUN"
"""Environment variable of every process of a test run, except those with another environment."""

STATE = ("/run/runc", "/run/crun", "/run/runsc", "/var/run/runsc")
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
ENGINES = ("docker", "podman")
PREFIX = "sandwright"


def leftovers(run: str) -> set[str]:
    """Everything that exists now and looks like ours: one line each. `run` is the value of RUN_MARK."""
    return {*_processes(run), *_pauses(), *_mounts(), *_state(), *_scratch(), *_engines(), *_devices()}


def _processes(run: str) -> Iterator[str]:
    mark = f"{RUN_MARK}={run}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        others = (
            any(each.startswith(f"{RUN_MARK}=".encode()) for each in environment) and mark not in environment
        )
        named = re.search(rf"\b{PREFIX}-[0-9a-z-]*[0-9a-f]{{8}}", command)
        if mark in environment or (named and not others):
            yield f"process {entry.name}: {command[:200]}"


def _pauses() -> Iterator[str]:
    """The processes that hold a user namespace for a test's store of Podman without root, in any environment.

    The user's own is not listed: it stays for the next call.
    """
    homes = (os.environ.get("XDG_RUNTIME_DIR", "/"), f"/tmp/podman-run-{os.geteuid()}")
    own = {path.read_text() for home in homes if (path := Path(home, "libpod/tmp/pause.pid")).is_file()}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_ours = entry.stat().st_uid == os.geteuid() and (entry / "comm").read_text() == "podman pause\n"
            if is_ours and (entry / "cmdline").read_bytes() and entry.name not in own:  # no zombie
                yield f"process {entry.name}: podman pause"


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4]
        if PREFIX in point or "/pytest-of-" in point:
            yield f"mount {point}"


def _state() -> Iterator[str]:
    for root in map(Path, STATE):
        if root.is_dir() and os.access(root, os.R_OK | os.X_OK):
            yield from (f"runtime state {p}" for p in root.iterdir() if p.name.startswith(PREFIX))


def _scratch() -> Iterator[str]:
    parent = Path(user_dirs.visible_scratch_path(os.geteuid()))
    for root in filter(Path.is_dir, map(Path, SCRATCH)):  # some are missing in a sandbox
        named = (p for p in root.iterdir() if p.name.lstrip(".").startswith(PREFIX) and p != parent)
        yield from (f"file {p}" for p in named)
    yield from (f"file {p}" for p in (parent.iterdir() if parent.is_dir() else ()))


def _engines() -> Iterator[str]:
    """The objects of engines. The user's Podman may start a lasting process, which is not this run's."""
    environment = {name: value for name, value in os.environ.items() if name != RUN_MARK}
    for engine in ENGINES:
        if process.find(engine) is None:
            continue
        for kind, fields in (
            ("ps -a", "{{.Names}}"),
            ("images", "{{.Repository}}:{{.Tag}}"),
            ("network ls", "{{.Name}}"),
        ):
            found = process.run(
                engine, *kind.split(), "--format", fields, env=environment, check=False, timeout=30
            )
            for name in found.text.splitlines():
                if name.removeprefix("localhost/").startswith(PREFIX):
                    yield f"{engine} {kind.split()[0]} {name}"


def _devices() -> Iterator[str]:
    """The devices in their current state: one with another mode or owner is new."""
    for name in DEVICES:
        status = Path("/dev", name).stat()
        yield f"device {name}: mode {status.st_mode:o}, owner {status.st_uid}:{status.st_gid}"
