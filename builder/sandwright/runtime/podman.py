"""Podman, with a separate store, state directory and configuration.

The user's own Podman does not see it, and it is removed completely at the end. The configuration lowers the
default limits: to ask for high ones needs CAP_SYS_RESOURCE, which containers and CI machines often lack.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sandwright import user_dirs
from sandwright.engines.podman import PodmanEngine, containers_conf
from sandwright.host import MachineFacts
from sandwright.runtime.contract import Session, Variant
from sandwright.runtime.engine import EngineSession
from sandwright.runtime.oci import needs_emulator
from sandwright.runtime.scratch import hidden_directory, link_bus
from sandwright.signalling import is_same_user_process, kill
from sandwright.watchdog import end_all, runtime_environment

_LONGEST = 50
_RUN_ROOT = "sandwright-"
"""The prefix of a run root that is not in the scratch directory."""
_RANDOM = len("/12345678")
_NOTE = "run-root"
_PAUSES = frozenset(("podman", "catatonit"))
"""The programs that keep the user namespace of a Podman without root."""
_REMOVAL = 60.0
_STORE_REMOVAL = 600.0
_REMOVE = 'umount --recursive "$1/overlay" 2>/dev/null; rm -rf "$1"'


@dataclass(frozen=True)
class PodmanRuntime:
    """The runtime Podman."""

    name: str = "podman"
    program: str = "podman"

    def obstacle(self, host: MachineFacts, platform: str) -> str:
        """A missing emulator or runtime, or a system other than Linux."""
        if "podman" in host.programs and not {"runc", "crun"} & host.programs.keys():
            return "Podman needs runc or crun"
        return needs_emulator(host, platform)

    def variants(self, host: MachineFacts) -> Sequence[Variant]:
        """A variant for each runtime, with overlays, and one with a store that works on any file system.

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
        """Create the store; at the end, remove it with its content."""
        scratch = hidden_directory(scratch.parent, scratch.name)
        (scratch / "containers.conf").write_text(containers_conf(host))
        for name in ("home", "xdg"):
            (scratch / name).mkdir(mode=0o700)
        link_bus(scratch / "xdg")
        with _run_root(scratch) as run:
            engine = _private_engine(variant.options, host, scratch, run)
            try:
                yield EngineSession(engine, scratch.parent.name, stop)
            finally:
                if not host.is_root:
                    _remove_store(engine, scratch)
                # Its clean-up of a container that was killed may come late, and make files again.
                end_all(f"{run}/")

    def discard(self, scratch: Path, host: MachineFacts) -> None:
        """Remove the containers of its store; without root, the store too."""
        scratch = hidden_directory(scratch.parent, scratch.name)
        note = scratch / _NOTE
        run = Path(note.read_text()) if note.exists() else scratch / "run"
        for variant in self.variants(host)[:1]:
            engine = _private_engine(variant.options, host, scratch, run)
            _remove_containers(engine)
            if not host.is_root:
                _remove_store(engine, scratch)
        if note.exists() and run.name.startswith(_RUN_ROOT):
            end_all(f"{run}/")
            shutil.rmtree(run, ignore_errors=True)


PODMAN = PodmanRuntime()


def _private_engine(
    options: Sequence[str], host: MachineFacts, scratch: Path, run_root: Path
) -> PodmanEngine:
    """Podman on a store in `scratch`, with its state and configuration there. `options` are a variant's."""
    store = ("--root", str(scratch / "store"), "--runroot", str(run_root), "--tmpdir", str(scratch / "tmp"))
    paths = {"HOME": "home", "XDG_RUNTIME_DIR": "xdg", "CONTAINERS_CONF": "containers.conf"}
    settings = {name: str(scratch / path) for name, path in paths.items()}
    environment = {**runtime_environment(), **settings}
    return PodmanEngine(
        "podman", environment, (*store, *options), host=host, scratch=scratch, settings=settings
    )


def _remove_containers(engine: PodmanEngine) -> None:
    engine.ask("rm", "--all", "--force", "--time", "0", timeout=_REMOVAL, check=False)


def _remove_store(engine: PodmanEngine, scratch: Path) -> None:
    """Without root, files of the store belong to ids that only its user namespace may touch.

    That namespace is kept by a process that Podman leaves behind, and that has to go too.
    """
    try:
        if (scratch / "store").exists():
            words = ("unshare", "sh", "-c", _REMOVE, "sh", str(scratch / "store"))
            engine.ask(*words, timeout=_STORE_REMOVAL)
    finally:
        for note in scratch.glob("**/pause.pid"):
            with contextlib.suppress(ValueError):
                pid = int(note.read_text())
                kill(pid, sure=partial(_is_pause_process, pid))


def _is_pause_process(pid: int) -> bool:
    """Whether a process keeps a user namespace, by the file that it runs as the kernel has it."""
    with contextlib.suppress(OSError):
        return is_same_user_process(pid) and Path(f"/proc/{pid}/exe").readlink().name in _PAUSES
    return False


@contextlib.contextmanager
def _run_root(scratch: Path) -> Iterator[Path]:
    """A directory for Podman's run-time state, whose path may not be longer than 50 bytes.

    Where `scratch` lies too deep it is one in the user's runtime directory, or in `visible_scratch` if that
    is too deep as well; a note in `scratch` says which.
    """
    if len(os.fsencode(scratch / "run")) <= _LONGEST:
        yield scratch / "run"
        return
    length = len(os.fsencode(user_dirs.runtime())) + len(_RUN_ROOT) + _RANDOM
    runtime = user_dirs.private(user_dirs.runtime())
    parent = runtime if length <= _LONGEST else user_dirs.visible_scratch()
    with tempfile.TemporaryDirectory(prefix=_RUN_ROOT, dir=parent) as name:
        (scratch / _NOTE).write_text(name)
        yield Path(name)
