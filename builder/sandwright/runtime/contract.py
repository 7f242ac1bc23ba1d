"""The interface of a runtime in the table, and its arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from sandwright.host import MachineFacts
from sandwright.watchdog import Ended

WriteArchive = Callable[[BinaryIO, str], None]


@dataclass(frozen=True)
class StartableImage:
    """An image, in the forms in which runtimes take it.

    `bundle` is an OCI runtime bundle: a directory with a config.json. `write_archive` writes an archive that
    engines load, as a stream, under the given reference.
    """

    name: str
    platform: str
    bundle: Path
    write_archive: WriteArchive

    @property
    def architecture(self) -> str:
        """The middle of the platform: `amd64` of `linux/amd64`."""
        return self.platform.split("/")[1]


@dataclass(frozen=True)
class RunAs:
    """The settings of a start that replace the image's own configuration.

    The container runs `entrypoint`, which is the image's, with the start's `argv` as arguments. `mounts` are
    directories and files of the host by their path inside, writable for those in `writable`. `capabilities`
    are those of a bundle; engines give root their default set. The root file system may be written unless
    `read_only`, and its changes are discarded.
    """

    user: tuple[int, int]
    entrypoint: tuple[str, ...]
    environment: Mapping[str, str]
    mounts: Mapping[str, Path]
    writable: frozenset[str]
    capabilities: tuple[str, ...]
    read_only: bool


@dataclass(frozen=True)
class Start:
    """One start of a subject. `argv` replaces the image's own command; None leaves that.

    `environment` is the environment of the runtime itself. `limit` is in seconds.
    """

    subject: StartableImage
    argv: tuple[str, ...] | None
    limit: float
    environment: Mapping[str, str]
    run_as: RunAs | None = None


@dataclass(frozen=True)
class Variant:
    """A way to start a runtime. `note` ends the sentence "it was started …"; empty for the plain way.

    `only_root`: in this way, a process can only be root inside; other users' images can't be started.
    """

    note: str = ""
    options: tuple[str, ...] = ()
    only_root: bool = False

    def obstacle_for(self, uid: int) -> str:
        """The reason why no process can be this user of an image in this variant; empty without one."""
        if not self.only_root or uid == 0:
            return ""
        return f"started {self.note} it cannot be the image's user, {uid}"


class Session(Protocol):
    """A runtime that is ready to start subjects, from any thread. Its objects are gone when it is closed."""

    def run(self, start: Start) -> Ended:
        """Start, wait for the end, remove the container. Raise SandwrightError when it can't be removed."""
        ...


class SandboxRuntime(Protocol):
    """A program that starts images; a row of the table of runtimes."""

    @property
    def name(self) -> str:
        """The name of the runtime, for people and as a column in tables."""
        ...

    @property
    def program(self) -> str:
        """The program, as `requirements` names it."""
        ...

    def obstacle(self, host: MachineFacts, platform: str) -> str:
        """The reason in the facts why it cannot start images of `platform` here; empty without one."""
        ...

    def variants(self, host: MachineFacts) -> Sequence[Variant]:
        """The ways to start it, the preferred one first. The first that is seen to work is taken."""
        ...

    def session(
        self, variant: Variant, host: MachineFacts, scratch: Path, stop: threading.Event
    ) -> AbstractContextManager[Session]:
        """Make ready to start subjects. `scratch` is an existing directory that is ours alone."""
        ...

    def discard(self, scratch: Path, host: MachineFacts) -> None:
        """End the leftover processes of a session whose owner was killed.

        Its processes, mounts and files in `scratch` are seen to by the caller.
        """
        ...
