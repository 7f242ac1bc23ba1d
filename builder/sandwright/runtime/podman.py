"""Podman, through its command line, with a store, a state directory and a configuration of its own.

Nothing of it is seen by the user's own Podman, and all of it goes at the end. The configuration lowers the
default limits: to ask for high ones needs CAP_SYS_RESOURCE, which containers and CI machines often lack.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from sandwright import process
from sandwright.errors import BuildError
from sandwright.host import MachineFacts
from sandwright.runtime.contract import Session, Start, StartableImage, Variant
from sandwright.runtime.engine import Loaded, archive_stream, settings_of, volumes
from sandwright.runtime.launch import Ended, base_environment, launch
from sandwright.runtime.oci import needs_emulator
from sandwright.runtime.processes import end_all, kill_all
from sandwright.runtime.scratch import PREFIX
from sandwright.signalling import kill, own

_LONGEST = 50
_SHORT = "/tmp"  # noqa: S108 - a directory of our own is made in it
_NOTE = "run-root"
_PAUSES = frozenset(("podman", "catatonit"))
"""What keeps the user namespace of a Podman without root."""
_LOADING = 300.0
_REMOVAL = 60.0
_STORE_REMOVAL = 600.0
_MONITOR_END = 10.0
_REMOVE = 'umount --recursive "$1/overlay" 2>/dev/null; rm -rf "$1"'
_MOST = {"nofile": 4096, "nproc": 4096}
"""Limits that suffice for a test. The caller's own can't be used: Podman cuts them on the way down (processes
to 32768, seen with 4.3), and a container that asks for more than that doesn't start."""


@dataclass(frozen=True)
class PodmanRuntime:
    """The row of Podman."""

    name: str = "podman"
    program: str = "podman"

    def obstacle(self, host: MachineFacts, platform: str) -> str:
        """An emulator or a runtime is missing, or this is no Linux."""
        if "podman" in host.programs and not {"runc", "crun"} & host.programs.keys():
            return "Podman needs runc or crun"
        return needs_emulator(host, platform)

    def variants(self, host: MachineFacts) -> Sequence[Variant]:
        """With each runtime, on overlays; and on a store that works on any file system, where those don't.

        crun comes first, as it does for Podman itself, except under hybrid cgroups, which it refuses. Left to
        itself, Podman without root may take the second store, which copies every layer whole.
        """
        runtimes = ("runc", "crun") if host.cgroups == "hybrid" else ("crun", "runc")
        return [
            Variant(f"with {name} and {driver}", ("--runtime", name, "--storage-driver", driver))
            for driver in ("overlay", "vfs")
            for name in runtimes
            if name in host.programs
        ]

    @contextlib.contextmanager
    def session(
        self, variant: Variant, host: MachineFacts, scratch: Path, stop: threading.Event
    ) -> Iterator[Session]:
        """Make the store; at the end remove it with all that is in it."""
        (scratch / "containers.conf").write_text(containers_conf(host))
        for name in ("home", "xdg"):
            (scratch / name).mkdir(mode=0o700)
        with _run_root(scratch) as run:
            session = PodmanSession(variant, scratch, run, stop)
            try:
                yield session
            finally:
                if not host.is_root:
                    session.remove_store()
                # Its clean-up of a container that was killed may come late, and make files again.
                end_all(f"{run}/")

    def discard(self, scratch: Path, host: MachineFacts) -> None:
        """Remove the containers of its store; without root, the store too."""
        note = scratch / _NOTE
        run = Path(note.read_text()) if note.exists() else scratch / "run"
        for variant in self.variants(host)[:1]:
            session = PodmanSession(variant, scratch, run, threading.Event())
            session.remove_containers()
            if not host.is_root:
                session.remove_store()
        if note.exists() and run.name.startswith(PREFIX):
            end_all(f"{run}/")
            shutil.rmtree(run, ignore_errors=True)


PODMAN = PodmanRuntime()


def containers_conf(host: MachineFacts) -> str:
    """The private configuration: limits no higher than ours, no systemd, no journal."""
    limits = {name: _least(host.limits[name][1], most) for name, most in _MOST.items()}
    ulimits = [f"{name}={limit}:{limit}" for name, limit in limits.items()]
    return (
        f"[containers]\ndefault_ulimits = {json.dumps(ulimits)}\n"
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
    )


def _least(limit: int, most: int) -> int:
    return most if limit == -1 else min(limit, most)


@dataclass
class PodmanSession:
    """Starts on a store of its own in `scratch`; `stop` calls every start off."""

    variant: Variant
    scratch: Path
    run_root: Path
    stop: threading.Event
    loaded: Loaded = field(init=False)

    def __post_init__(self) -> None:
        self.loaded = Loaded(self._load)

    def run(self, start: Start) -> Ended:
        """As the contract says."""
        reference = self.loaded.reference(start.subject)
        name = PREFIX + uuid.uuid4().hex[:16]
        monitor = self.scratch / f"{name}.pid"
        ours = ("--name", name, "--conmon-pidfile", str(monitor))
        words = self._words("run", *ours, *_options(start), *_command(start, reference))
        try:
            environment = self._environment(start.environment)
            # Its monitor may leave a file `oom` where it is started.
            return launch(words, limit=start.limit, stop=self.stop, env=environment, cwd=self.scratch)
        finally:
            self._podman("rm", "--force", "--ignore", "--time", "0", "--volumes", name, timeout=_REMOVAL)
            _see_out(monitor)

    def remove_containers(self) -> None:
        """Remove every container of the store."""
        self._podman("rm", "--all", "--force", "--time", "0", timeout=_REMOVAL, check=False)

    def remove_store(self) -> None:
        """Without root, files of the store belong to ids that only its user namespace may touch.

        That namespace is kept by a process that Podman leaves behind, and that has to go too.
        """
        try:
            if (self.scratch / "store").exists():
                words = ("unshare", "sh", "-c", _REMOVE, "sh", str(self.scratch / "store"))
                self._podman(*words, timeout=_STORE_REMOVAL)
        finally:
            for note in self.scratch.glob("**/pause.pid"):
                with contextlib.suppress(ValueError):
                    pid = int(note.read_text())
                    kill(pid, sure=partial(_pauses, pid))

    def _load(self, subject: StartableImage) -> str:
        reference = f"localhost/{PREFIX}{uuid.uuid4().hex[:16]}:{subject.architecture}"
        with archive_stream(subject, reference) as archive:
            said = self._podman("load", "--quiet", stdin=archive, timeout=_LOADING).text
        _, colon, loaded = said.partition("Loaded image: ")
        if not colon:
            raise BuildError(f"podman load did not say which image it loaded: {said!r}")
        return loaded.split()[0]

    def _podman(
        self, *words: str, timeout: float, stdin: BinaryIO | None = None, check: bool = True
    ) -> process.Result:
        environment = self._environment(base_environment())
        argv = self._words(*words)
        return process.run(*argv, timeout=timeout, env=environment, stdin=stdin, check=check)

    def _words(self, *command: str) -> list[str]:
        store = ("--root", str(self.scratch / "store"), "--runroot", str(self.run_root))
        return ["podman", *store, "--tmpdir", str(self.scratch / "tmp"), *self.variant.options, *command]

    def _environment(self, base: Mapping[str, str]) -> dict[str, str]:
        own = {"HOME": "home", "XDG_RUNTIME_DIR": "xdg", "CONTAINERS_CONF": "containers.conf"}
        return {**base, **{name: str(self.scratch / path) for name, path in own.items()}}


def _pauses(pid: int) -> bool:
    """Whether a process keeps a user namespace, by the file that it runs as the kernel has it."""
    with contextlib.suppress(OSError):
        return own(pid) and Path(f"/proc/{pid}/exe").readlink().name in _PAUSES
    return False


def _see_out(monitor: Path) -> None:
    """Wait until a container's monitor has ended, and kill it with its container when it doesn't.

    It outlives a Podman that was killed while it started a container, and would work on in our directory.
    """
    with contextlib.suppress(OSError, ValueError):
        pid = int(monitor.read_text())
        deadline = time.monotonic() + _MONITOR_END
        while own(pid) and monitor.name in Path(f"/proc/{pid}/cmdline").read_text():
            if time.monotonic() > deadline:
                kill_all([pid])
            time.sleep(0.02)


@contextlib.contextmanager
def _run_root(scratch: Path) -> Iterator[Path]:
    """A directory for Podman's run-time state, whose path may not be longer than 50 bytes.

    Where `scratch` lies too deep it is another one, and a note in `scratch` says which.
    """
    if len(os.fsencode(scratch / "run")) <= _LONGEST:
        yield scratch / "run"
        return
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=_SHORT) as name:
        (scratch / _NOTE).write_text(name)
        yield Path(name)


def _options(start: Start) -> list[str]:
    given = start.run_as
    words = ["--pull", "never", "--platform", start.subject.platform, "--network", "none"]
    words += ["--log-driver", "none"]
    if given is not None:
        words += ["--passwd=false", f"--user={given.user[0]}:{given.user[1]}"]
        words += [f"--env={name}={value}" for name, value in given.environment.items()]
        words += [f"--volume={volume}" for volume in volumes(given)]
        return [*words, "--read-only"] if given.read_only else words
    settings = settings_of(start.subject)
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    if settings.read_only:
        words += ["--read-only", "--read-only-tmpfs=false"]
    for path, options in settings.tmpfs.items():
        words += ["--tmpfs", f"{path}:{options}"]
    return words


def _command(start: Start, reference: str) -> list[str]:
    if start.argv is None:
        return [reference]
    if start.run_as is not None:
        return [reference, *start.argv]
    return ["--entrypoint", json.dumps([start.argv[0]]), reference, *start.argv[1:]]
