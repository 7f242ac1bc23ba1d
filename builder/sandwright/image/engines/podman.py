"""Podman and Buildah, through their command lines. They share their builder, and the place where images are.

Their defaults ask for higher limits than a container or a CI machine may give, and for crun, which refuses
hybrid cgroups; the options here ask for what is there.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import Any, BinaryIO, Literal

from sandwright import process
from sandwright.documents import strictjson
from sandwright.errors import BuildError, CommandFailed, HostError, IntegrityError
from sandwright.host import MachineFacts
from sandwright.image.engines.context import DockerfileContext
from sandwright.image.engines.contract import LONGEST_LINE, TAIL, TIMEOUT, EngineImage, said
from sandwright.image.layout import on_disk
from sandwright.image.scratch import scratch_directory
from sandwright.progress import ProgressStep
from sandwright.setup.requirements import how_to_get
from sandwright.visible import quoted

OLDEST = {"podman": (4, 0), "buildah": (1, 24)}
_LIMITS = {"nofile": 4096, "nproc": 4096}
_SHORT = 120.0
_TRANSFER = 900.0
_END = 60.0
_PAUSE = 0.1
_STEP = re.compile(r"(?:\[\d+/\d+\] )?STEP \d+/\d+: ")


@dataclass(frozen=True)
class PodmanBuilder:
    """Podman or Buildah. `options` go before every command: another place for images, for one."""

    name: Literal["podman", "buildah"]
    host: MachineFacts
    options: Sequence[str] = ()

    def check(self) -> str:
        """Raise ToolMissing when it is not installed, HostError when it is too old or has no ids to give."""
        process.which(self.name, hint=how_to_get(self.name, self.host.package_manager))
        told = process.run(self.name, "--version", timeout=_SHORT).text
        match = re.search(r"version (\d+)\.(\d+)", told)
        oldest = OLDEST[self.name]
        if match is None or (int(match[1]), int(match[2])) < oldest:
            raise HostError(f"{told or self.name}: images need version {'.'.join(map(str, oldest))}")
        if not self.host.is_root:
            self._check_ids()
        try:
            self._run("images", "--quiet", timeout=_SHORT)
        except CommandFailed as error:
            raise HostError(f"{self.name} can't be used here: {_reason(error)}") from error
        return told

    def find(self, reference: str) -> EngineImage | None:
        """As the contract says."""
        found = self._run("inspect", "--type", "image", reference, timeout=_SHORT, check=False)
        if not found:
            return None
        try:
            return _found(strictjson.loads_lenient(found.stdout))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise IntegrityError(f"{self.name} inspect {reference}: not understood: {error!r}") from error

    def load(self, write: Callable[[BinaryIO, str], None], reference: str) -> None:
        """As the contract says."""
        with scratch_directory(None) as scratch:
            archive = scratch / "image.tar"
            with on_disk(archive), archive.open("wb") as sink:
                write(sink, reference)
            self._run("pull", "--quiet", f"docker-archive:{archive}", timeout=_TRANSFER)

    def build(self, context: DockerfileContext, platform: str, step: ProgressStep) -> str:
        """As the contract says."""
        with scratch_directory(None) as scratch:
            context.write_directory(scratch / "context")
            note = scratch / "id"
            argv = self._argv(
                "build", *self._build_options(context, platform, note), str(scratch / "context")
            )
            lines: deque[str] = deque(maxlen=TAIL)
            status = _follow(argv, lines, step)
            if status != 0:
                raise BuildError(f"{self.name} build ended with status {status}{said(lines)}")
            return note.read_text().strip()

    def tag(self, image: str, reference: str) -> None:
        """As the contract says."""
        self._run("tag", image.removeprefix("sha256:"), reference, timeout=_SHORT)

    def remove(self, reference: str) -> None:
        """As the contract says."""
        if self.find(reference) is not None:
            self._run("rmi", reference, timeout=_SHORT)

    def save(self, reference: str, target: Path) -> None:
        """As the contract says."""
        target.unlink(missing_ok=True)
        self._run("push", "--quiet", reference, f"docker-archive:{target}:{reference}", timeout=_TRANSFER)

    def _build_options(self, context: DockerfileContext, platform: str, note: Path) -> list[str]:
        """One layer for each image, with no time but the image's: the same context gives the same image."""
        limits = [f"{name}={self._limit(name, most)}" for name, most in _LIMITS.items()]
        return [
            *(f"--ulimit={limit}:{limit.partition('=')[2]}" for limit in limits),
            *("--network=none", "--layers=false", "--force-rm", "--pull=false", "--identity-label=false"),
            *("--format=oci", f"--timestamp={context.epoch}", f"--platform={platform}"),
            *([f"--runtime={self._runtime}"] if self.name == "buildah" and self._runtime else []),
            f"--iidfile={note}",
        ]

    def _limit(self, name: str, most: int) -> int:
        hard = self.host.limits[name][1]
        return most if hard == -1 else min(hard, most)

    @property
    def _runtime(self) -> str:
        """The runtime to ask for; empty for the engine's own choice."""
        return "runc" if self.host.cgroups == "hybrid" and "runc" in self.host.programs else ""

    def _argv(self, *words: str) -> list[str]:
        runtime = [f"--runtime={self._runtime}"] if self.name == "podman" and self._runtime else []
        return [self.name, *self.options, *runtime, *words]

    def _run(self, *words: str, timeout: float, check: bool = True) -> process.Result:
        return process.run(*self._argv(*words), timeout=timeout, check=check)

    def _check_ids(self) -> None:
        """Without root, the ids of an image are those that /etc/subuid gives the user."""
        user = getuser()
        for file in (Path("/etc/subuid"), Path("/etc/subgid")):
            with contextlib.suppress(OSError):
                if re.search(rf"^(?:{re.escape(user)}|{self.host.uid}):", file.read_text(), re.MULTILINE):
                    continue
            raise HostError(
                f"{self.name} without root needs ids to give to the files of images, and {file} has none for "
                f"{user}: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
            )


def _found(told: Any) -> EngineImage:  # noqa: ANN401 - JSON
    """Podman tells in a list, and in words of its own; Buildah in those of the image specification."""
    if isinstance(told, list):
        image = told[0]
        layers = tuple(image["RootFS"]["Layers"])
        return EngineImage(image["Id"], f"{image['Os']}/{image['Architecture']}", layers, int(image["Size"]))
    image = told["OCIv1"]
    platform = f"{image['os']}/{image['architecture']}"
    return EngineImage(told["FromImageID"], platform, tuple(image["rootfs"]["diff_ids"]), 0)


def _follow(argv: Sequence[str], lines: deque[str], step: ProgressStep) -> int:
    """Start a build and read what it says until it ends; give its status.

    When this is interrupted, the build is asked to end, so that it removes the containers it works in, before
    it is killed. Raise CommandFailed when it runs out of time.
    """
    deadline = time.monotonic() + TIMEOUT
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", buffering=0) as output, contextlib.ExitStack() as stack:
        with os.fdopen(write_end, "wb") as sink:
            running = stack.enter_context(process.start(*argv, stdout=sink, stderr=sink))
        try:
            for line in _lines(output.fileno(), deadline):
                lines.append(line)
                if _STEP.match(line):
                    step.advance(1)
            while (status := running.poll()) is None and time.monotonic() < deadline:
                time.sleep(_PAUSE)
            if status is None:
                raise _Late
        except _Late as late:
            _end(running.pid, running.poll)
            raise CommandFailed(argv, None, quoted(lines), timeout=TIMEOUT) from late
        except BaseException:
            _end(running.pid, running.poll)
            raise
    return status


class _Late(Exception):
    """Time is up."""


def _lines(fd: int, deadline: float) -> Iterator[str]:
    """The lines that come from a pipe, cut, until nobody writes to it. Raise _Late when time is up."""
    rest = b""
    while True:
        if time.monotonic() > deadline:
            raise _Late
        if not select.select([fd], [], [], _PAUSE)[0]:
            continue
        data = os.read(fd, 1 << 16)
        *whole, rest = (rest + data).split(b"\n")
        yield from (line[:LONGEST_LINE].decode(errors="replace") for line in whole)
        rest = rest[:LONGEST_LINE]
        if not data:
            if rest:
                yield rest.decode(errors="replace")
            return


def _end(pid: int, poll: Callable[[], int | None]) -> None:
    """See a build out: what runs in its container is killed, so that it fails and removes what it worked in.

    Told to end itself it would leave containers and mounts behind (seen with Podman 4.3).
    """
    end = time.monotonic() + _END
    while poll() is None and time.monotonic() < end:
        for each in _contained(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        time.sleep(_PAUSE)


def _contained(pid: int) -> set[int]:
    """The processes that descend from one and are in another process namespace: what runs in containers."""
    parents, namespaces = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name, in parentheses, may hold anything (proc(5)); behind it come the state and the parent.
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            namespaces[int(entry.name)] = (entry / "ns/pid").readlink()
    found: set[int] = set()
    generation = {pid}
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation} - found
        found |= generation
    return {each for each in found if each in namespaces and namespaces[each] != namespaces.get(os.getpid())}


def _reason(error: CommandFailed) -> str:
    lines = [line for line in error.stderr.splitlines() if line.strip()]
    return lines[-1].strip() if lines else str(error)
