"""Podman, through its command line, with a store, a state directory and a configuration of its own.

Nothing of it is seen by the user's own Podman, and all of it goes at the end. The configuration lowers the
default limits: to ask for high ones needs CAP_SYS_RESOURCE, which containers and CI machines often lack.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sandwright import process
from sandwright.errors import BuildError
from sandwright.host import HostFacts
from sandwright.smoke.contract import PREFIX, Session, Start, Subject, Variant
from sandwright.smoke.launch import Ended, base_environment, launch
from sandwright.smoke.runtimes.engine import Loaded, archive_stream, settings_of
from sandwright.smoke.runtimes.oci import needs_emulator

_LOADING = 300.0
_REMOVAL = 60.0
_MOST = {"nofile": 4096, "nproc": 4096}
"""Limits that are plenty for a smoke run. Ours are not: on the way down they are cut (processes to 32768,
seen with Podman 4.3), and a container that then asks for ours doesn't start."""


@dataclass(frozen=True)
class Podman:
    """The row of Podman."""

    name: str = "podman"
    program: str = "podman"

    def obstacle(self, host: HostFacts, platform: str) -> str:
        """An emulator is missing, or this is no Linux."""
        return needs_emulator(host, platform)

    def variants(self, host: HostFacts) -> Sequence[Variant]:
        """With each runtime, and on a store that works on any file system where the usual one doesn't.

        crun comes first, as it does for Podman itself, except under hybrid cgroups, which it refuses.
        """
        runtimes = ("runc", "crun") if host.cgroups == "hybrid" else ("crun", "runc")
        there = [name for name in runtimes if name in host.programs] or [""]
        return [
            Variant(
                " ".join(
                    filter(None, (f"with {name}" if name else "", f"on a {driver} store" if driver else ""))
                ),
                (*(("--runtime", name) if name else ()), *(("--storage-driver", driver) if driver else ())),
            )
            for driver in ("", "vfs")
            for name in there
        ]

    @contextlib.contextmanager
    def session(
        self, variant: Variant, host: HostFacts, scratch: Path, stop: threading.Event
    ) -> Iterator[Session]:
        """Make the store; at the end remove it with all that is in it."""
        configuration = scratch / "containers.conf"
        configuration.write_text(containers_conf(host))
        session = _PodmanSession(variant, scratch, configuration, stop)
        try:
            yield session
        finally:
            session.remove_images()


PODMAN = Podman()


def containers_conf(host: HostFacts) -> str:
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
class _PodmanSession:
    variant: Variant
    scratch: Path
    configuration: Path
    stop: threading.Event
    loaded: Loaded = field(init=False)

    def __post_init__(self) -> None:
        self.loaded = Loaded(self._load)

    def run(self, start: Start) -> Ended:
        reference = self.loaded.reference(start.subject)
        name = PREFIX + uuid.uuid4().hex[:16]
        words = self._words("run", "--name", name, *_options(start), *_command(start, reference))
        try:
            return launch(words, limit=start.limit, stop=self.stop, env=self._environment(start.environment))
        finally:
            self._podman("rm", "--force", "--ignore", "--time", "0", "--volumes", name, timeout=_REMOVAL)

    def remove_images(self) -> None:
        """Also for a store that only a user namespace may delete, of a Podman that runs without root."""
        if self.loaded.all():
            self._podman("rmi", "--all", "--force", timeout=_REMOVAL)

    def _load(self, subject: Subject) -> str:
        reference = f"localhost/{PREFIX}{uuid.uuid4().hex[:16]}:{subject.architecture}"
        with archive_stream(subject, reference) as archive:
            said = self._podman("load", "--quiet", stdin=archive, timeout=_LOADING).text
        _, colon, loaded = said.partition("Loaded image: ")
        if not colon:
            raise BuildError(f"podman load did not say which image it loaded: {said!r}")
        return loaded.split()[0]

    def _podman(self, *words: str, timeout: float, stdin: BinaryIO | None = None) -> process.Result:
        environment = self._environment(base_environment())
        return process.run(*self._words(*words), timeout=timeout, env=environment, stdin=stdin)

    def _words(self, *command: str) -> list[str]:
        store = ("--root", str(self.scratch / "store"), "--runroot", str(self.scratch / "run"))
        return ["podman", *store, "--tmpdir", str(self.scratch / "tmp"), *self.variant.options, *command]

    def _environment(self, base: Mapping[str, str]) -> dict[str, str]:
        return {**base, "CONTAINERS_CONF": str(self.configuration)}


def _options(start: Start) -> list[str]:
    settings = settings_of(start.subject)
    words = ["--pull", "never", "--platform", start.subject.platform, "--network", "none"]
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--log-driver", "none"]
    if settings.read_only:
        words += ["--read-only", "--read-only-tmpfs=false"]
    for path, options in settings.tmpfs.items():
        words += ["--tmpfs", f"{path}:{options}"]
    return words


def _command(start: Start, reference: str) -> list[str]:
    if start.argv is None:
        return [reference]
    return ["--entrypoint", json.dumps([start.argv[0]]), reference, *start.argv[1:]]
