"""Makes a file tree of packages that configure themselves: mmdebstrap installs them and runs their scripts.

It gets a private repository of exactly the locked packages, so that it can't choose, and no network is
needed. Its result is a tar stream. It is read as strictly as an untrusted archive (CVE-2026-24843), stripped
of data of the building machine (`residue.py`), and written into a layer. It is never unpacked on this
machine.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from sandwright import process
from sandwright.errors import BuildError, CommandFailed, HostError
from sandwright.host import MachineFacts
from sandwright.image.layer import LayerWriter
from sandwright.image.packages import PackageSource
from sandwright.image.repository import COMPONENT, Together, one_by_one, write_repository
from sandwright.image.residue import is_emptied, is_residue, normal
from sandwright.image.scratch import scratch_directory
from sandwright.image.tree import FileNode, PackageContents
from sandwright.registry.failure import Cancelled
from sandwright.rootfs.controlfields import control_paragraphs
from sandwright.rootfs.tar.entry import WHITEOUT, EntryKind, show
from sandwright.rootfs.tar.reader import TarReader
from sandwright.visible import quoted

TIMEOUT = 1800.0
"""Seconds that installing may take on the architecture of this machine."""

EMULATED = 4
"""Times TIMEOUT under emulation: a system with a kernel took 27 minutes on a busy machine."""

STATUS = b"var/lib/dpkg/status"
_HINT = "apt install mmdebstrap, or 'invoke setup'"
_MERGE = (
    'set -e; for name in bin sbin lib {more}; do mkdir -p "$1/usr/$name"; ln -s "usr/$name" "$1/$name"; done'
)
_LIBRARY_DIRECTORIES = {"amd64": "lib64", "arm64": ""}
_LINE = 300
"""Characters of a line of its log that are shown."""
_POLL = 0.2


@dataclass(frozen=True)
class DebianSystem:
    """The packages to install. `exclude` and `include` are globs as dpkg's path filters take them."""

    suite: str
    architecture: str
    sources: Sequence[PackageSource]
    epoch: int
    exclude: Sequence[str] = ()
    include: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """Names of the packages."""
        return [source.name for source in self.sources]


def write_system(
    system: DebianSystem,
    layer: LayerWriter,
    *,
    facts: MachineFacts,
    scratch: Path,
    cancelled: Event,
    keep: Callable[[bytes], bool],
    together: Together = one_by_one,
) -> PackageContents:
    """Install the packages and write the tree they make into a layer.

    `scratch` is a directory for the time of the build. `keep` picks the files whose content comes back with
    the tree. Raise HostError if this machine does not support it, ToolMissing without mmdebstrap,
    CommandFailed if a package cannot be installed, BuildError if the result differs from the lock.
    """
    mode = _mode(facts)
    _require_emulator(facts, system.architecture)
    with _workplace(scratch, mode) as directory:
        write_repository(
            directory / "repository",
            system.sources,
            suite=system.suite,
            architecture=system.architecture,
            together=together,
        )
        limit = TIMEOUT if facts.architecture == system.architecture else TIMEOUT * EMULATED
        with _mmdebstrap(system, mode, directory, cancelled, limit) as stream:
            found = _copy_archive(system, TarReader(stream, name="mmdebstrap's archive"), layer, keep)
    _check_installed(system, found.contents[STATUS])
    return found


def _mode(facts: MachineFacts) -> str:
    """The mode in which mmdebstrap gets its rights: as root, or as root of a user namespace."""
    if facts.is_root:
        return "root"
    if not facts.user_namespaces:
        raise HostError("mmdebstrap needs root here, because unprivileged user namespaces are switched off")
    return "unshare"


def _require_emulator(facts: MachineFacts, architecture: str) -> None:
    if facts.architecture != architecture and facts.emulator(f"linux/{architecture}") is None:
        raise HostError(
            f"programs for {architecture} don't run on this {facts.architecture} machine: no emulator is "
            "registered with binfmt_misc and its fix-binary flag; apt install qemu-user-static binfmt-support"
        )


@contextlib.contextmanager
def _workplace(scratch: Path, mode: str) -> Iterator[Path]:
    """A directory to build in; below /tmp where the user ids of a namespace have to reach it."""
    with scratch_directory(scratch if mode == "root" else None) as directory:
        directory.chmod(0o755)
        (directory / "tmp").mkdir()
        (directory / "tmp").chmod(0o1777)
        yield directory


def _arguments(system: DebianSystem, mode: str, repository: Path) -> list[str]:
    filters = [f"--dpkgopt=path-exclude={glob}" for glob in system.exclude]
    filters += [f"--dpkgopt=path-include={glob}" for glob in system.include]
    return [
        f"--mode={mode}",
        "--variant=essential",
        f"--architectures={system.architecture}",
        f"--include={','.join(system.names)}",
        f"--setup-hook={_MERGE.format(more=_LIBRARY_DIRECTORIES[system.architecture])}",
        "--skip=check/qemu",  # _require_emulator has looked; the check wants arch-test
        "--format=tar",
        "--dpkgopt=force-unsafe-io",  # an incomplete tree is discarded, whatever reached the disk
        *filters,
        system.suite,
        "-",
        f"deb [trusted=yes] copy:{repository} {system.suite} {COMPONENT}",
    ]


def _contained(mode: str) -> list[str]:
    """The wrapper of mmdebstrap that ends all its mounts and processes with us.

    As root it mounts the machine's /proc, /sys and /dev in the new system. In a separate mount namespace,
    those mounts end with it, and no other process sees them; in a separate PID namespace, all
    its processes end with it, even when this process is killed.
    """
    if mode != "root":
        return []
    dying = [process.which("setpriv"), "--pdeathsig=KILL"]
    return [*dying, process.which("unshare"), "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


@contextlib.contextmanager
def _mmdebstrap(
    system: DebianSystem, mode: str, directory: Path, cancelled: Event, limit: float
) -> Iterator[_Output]:
    environment = {
        "PATH": os.pathsep.join([process.search_path(), "/usr/sbin", "/sbin"]),
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": str(directory / "tmp"),
        "SOURCE_DATE_EPOCH": str(system.epoch),
    }
    program_path = process.which("mmdebstrap", hint=_HINT)
    argv = [*_contained(mode), program_path, *_arguments(system, mode, directory / "repository")]
    log = directory / "log"
    with (
        log.open("wb") as errors,
        process.start(*argv, stderr=errors, env=environment, cwd=directory) as program,
    ):
        assert program.stdout is not None
        output = _Output(program.stdout, time.monotonic() + limit, cancelled)
        try:
            with _status_first(output, program.poll):
                yield output
                output.drain()
        except _Late as late:
            raise CommandFailed(argv, None, _tail(log), timeout=limit) from late
        except _Failed as failure:
            raise CommandFailed(argv, program.poll(), _tail(log)) from failure.__cause__
        finally:
            _interrupt(program.pid, program.poll)


@contextlib.contextmanager
def _status_first(output: _Output, poll: Callable[[], int | None]) -> Iterator[None]:
    """Raise _Failed if the program fails, even after invalid output: its message is more precise."""
    try:
        yield
    except Exception as error:
        if output.ended:
            output.wait_until(lambda: poll() is not None)
        if poll():
            raise _Failed from error
        raise
    output.wait_until(lambda: poll() is not None)
    if poll():
        raise _Failed


def _interrupt(pid: int, poll: Callable[[], int | None]) -> None:
    """Ask the program to end by itself: only it can remove the files of its namespace's users."""
    if poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
    process.ended_within(poll, 10)


class _Late(Exception):
    """Time is up."""


class _Failed(Exception):
    """The program ended with another status than 0."""


class _Output:
    """A program's output, read without waiting longer than is allowed or wanted."""

    def __init__(self, pipe: IO[bytes], end: float, cancelled: Event) -> None:
        self.ended = False
        self._pipe = pipe
        self._end = end
        self._cancelled = cancelled

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; nothing at the end."""
        self.wait_until(lambda: bool(select.select([self._pipe], [], [], _POLL)[0]))
        data = os.read(self._pipe.fileno(), size)
        self.ended = not data
        return data

    def wait_until(self, ready: Callable[[], bool]) -> None:
        """Poll. Raise _Late when time is up, Cancelled when the result is not needed any more."""
        while True:
            if self._cancelled.is_set():
                raise Cancelled
            if time.monotonic() > self._end:
                raise _Late
            if ready():
                return

    def drain(self) -> None:
        """Read the rest."""
        while self.read(1 << 16):
            pass


def _copy_archive(
    system: DebianSystem, reader: TarReader, layer: LayerWriter, keep: Callable[[bytes], bool]
) -> PackageContents:
    """Write an archive's selected members into the layer."""
    found = PackageContents("the configured system")
    names = frozenset(system.names)
    for entry in reader:
        if not entry.path or is_residue(entry, names):
            continue
        if entry.path.rpartition(b"/")[2].startswith(WHITEOUT):
            raise BuildError(
                f"{show(entry.path)}, made by a maintainer script, would hide a file of the image"
            )
        final = normal(entry, system.epoch)
        found.nodes[entry.path] = FileNode.of(final, found.owner)
        content = iter(()) if is_emptied(entry.path) else reader.chunks()
        if entry.kind is EntryKind.FILE and (entry.path == STATUS or keep(entry.path)):
            found.contents[entry.path] = data = b"".join(content)
            content = iter((data,) if data else ())
        layer.add(final, content)
    if STATUS not in found.contents:
        raise BuildError("mmdebstrap's archive has no dpkg database")
    return found


def _check_installed(system: DebianSystem, status: bytes) -> None:
    """Raise BuildError unless exactly the locked packages are installed and configured."""
    paragraphs = control_paragraphs(status.decode("utf-8", "replace"))
    installed = {fields.get("Package", ""): fields for fields in paragraphs}
    problems = [
        f"{source.name} {source.version} is {_package_state(installed, source.name)}"
        for source in system.sources
        if _package_state(installed, source.name) != f"install ok installed, {source.version}"
    ]
    problems += [f"{name} is not in the lock" for name in sorted(installed.keys() - frozenset(system.names))]
    if problems:
        raise BuildError(
            "mmdebstrap installed something else than the lock names: " + "; ".join(problems[:10])
        )


def _package_state(installed: Mapping[str, Mapping[str, str]], name: str) -> str:
    fields = installed.get(name)
    return "missing" if fields is None else f"{fields.get('Status', '')}, {fields.get('Version', '')}"


def _tail(log: Path) -> str:
    """The last lines, each cut: in a command line that failed hundreds of packages would hide the reason."""
    with contextlib.suppress(OSError):
        lines = log.read_bytes()[-64000:].decode(errors="replace").splitlines()
        return quoted([line[:_LINE] for line in lines])
    return ""
