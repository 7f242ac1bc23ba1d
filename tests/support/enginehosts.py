"""Docker and Podman for tests: a small image with its own settings, and a temporary store."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import tarfile
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.engines.podman import containers_conf
from sandwright.host import collect_host

DIRECTORIES = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "usr", "volume")
CHANGES = (
    'ENTRYPOINT ["/bin/echo", "entrypoint"]',
    "ENV HTTP_PROXY=http://image.invalid",
    "ENV IMAGE=its-own",
    'VOLUME ["/volume"]',
    "USER 4242:4242",
)
"""The settings of an image that a sandbox overrides, except the image's own variables."""


PODMAN_NAMES = frozenset() if os.geteuid() == 0 else frozenset(("containers", "libpod", "runc"))
"""The names that Podman without root, and its runtime, make in XDG_RUNTIME_DIR."""


@dataclass(frozen=True)
class EngineHost:
    """An engine with the image in it. `program` is its client, `environment` the variables for it."""

    name: str
    program: str
    image: str
    environment: Mapping[str, str]

    def run(self, *words: str, check: bool = True) -> process.Result:
        """Run the engine's own command line."""
        return process.run(self.program, *words, env=self.environment, timeout=60, check=check)

    def containers(self, label: str = "sandwright.session") -> list[str]:
        """The names of our containers with a label, whatever their state."""
        words = ["ps", "--all", "--filter", f"label={label}", "--format", "{{.Names}}"]
        if self.name == "docker":  # others use the daemon too
            words += ["--filter", f"ancestor={self.image}"]
        return self.run(*words).text.splitlines()


_HOSTS: dict[str, EngineHost] = {}
_OPEN = contextlib.ExitStack()


@contextlib.contextmanager
def engine_host(name: str) -> Iterator[EngineHost]:
    """The engine, with the image loaded. All tests of one process share it, one after another."""
    if name not in _HOSTS:
        _HOSTS[name] = _OPEN.enter_context(_loaded(name))
    yield _HOSTS[name]


def close_engine_hosts() -> None:
    """Remove the images and stores that `engine_host` made in this process."""
    _HOSTS.clear()
    _OPEN.close()


@contextlib.contextmanager
def _loaded(name: str) -> Iterator[EngineHost]:
    with _store(name) as environment:
        image = f"sandwright-engines-{uuid.uuid4().hex[:12]}:latest"
        changes = [word for change in CHANGES for word in ("--change", change)]
        program = process.which(name) if name == "docker" else environment["PATH"].split(":")[0] + "/podman"
        process.run(program, "import", *changes, "-", image, stdin=archive(), env=environment, timeout=60)
        try:
            yield EngineHost(name, program, image, environment)
        finally:
            process.run(program, "rmi", "--force", image, env=environment, timeout=60, check=False)


def archive() -> bytes:
    """A root of busybox, as an archive."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for directory in DIRECTORIES:
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
            tar.addfile(entry)
        tar.add(process.which("busybox"), "bin/busybox")
        for applet in process.run("busybox", "--list", timeout=10).text.split():
            if applet != "busybox":
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(entry)
    return sink.getvalue()


@contextlib.contextmanager
def _store(name: str) -> Iterator[dict[str, str]]:
    """Docker's daemon is the one that answers; Podman gets a separate store, by a program of its name."""
    base = {key: os.environ[key] for key in ("PATH", "HOME", "DOCKER_HOST") if key in os.environ}
    if name == "docker":
        yield base
        return
    with tempfile.TemporaryDirectory(prefix="sandwright-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        place.chmod(0o755)
        conf = containers_conf(collect_host()) + 'runtime = "runc"\n'  # crun refuses hybrid cgroups
        (place / "containers.conf").write_text(conf)
        program = place / "bin" / "podman"
        program.parent.mkdir()
        options = f"--root {place}/store --runroot {place}/run --tmpdir {place}/tmp --storage-driver overlay"
        program.write_text(f'#!/bin/sh\nexec {process.which("podman")} {options} "$@"\n')
        program.chmod(0o755)
        path = f"{program.parent}:{base['PATH']}"
        environment = {**base, "PATH": path, "CONTAINERS_CONF": f"{place}/containers.conf"}
        try:
            yield environment
        finally:
            removal = (program, "rm", "--all", "--force", "--time", "0")
            process.run(*removal, env=environment, timeout=60, check=False)
            if os.geteuid() != 0:  # files of layers belong to subordinate ids
                store = (program, "unshare", "rm", "--recursive", "--force", place / "store")
                process.run(*store, env=environment, timeout=60, check=False)
            end_pause(place / "tmp")
            _unmount(place)


def end_pause(directory: Path) -> None:
    """End the process that holds the user namespace of Podman without root, like `podman system migrate`."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((directory / "pause.pid").read_text()), signal.SIGKILL)


def _unmount(place: Path) -> None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4]
        if point.startswith(f"{place}/"):
            process.run("umount", "--lazy", point, timeout=20, check=False)
    shutil.rmtree(place / "store", ignore_errors=True)
