"""What Docker and Podman have in common: they load an archive, and take a container's settings as options.

The settings are read from the bundle, so that an engine gives the sandbox that the runtimes give. The user is
left to the engine, which looks it up by its own lights.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from sandwright.image.engines.contract import streaming
from sandwright.runtime.bundles import read_config
from sandwright.runtime.contract import RunAs, StartableImage


@dataclass(frozen=True)
class ContainerSettings:
    """What a container of an engine is started with. `tmpfs` is mount point → options."""

    read_only: bool
    tmpfs: Mapping[str, str]


def settings_of(subject: StartableImage) -> ContainerSettings:
    """Read them from the subject's bundle. What lies in /dev and /sys is the engine's own business."""
    config = read_config(subject.bundle)
    mounts: list[dict[str, Any]] = [m for m in config.get("mounts", ()) if m.get("type") == "tmpfs"]
    tmpfs = {m["destination"]: ",".join(m.get("options", ())) for m in mounts}
    own = {path: options for path, options in tmpfs.items() if not path.startswith(("/dev", "/sys"))}
    return ContainerSettings(bool(config["root"].get("readonly")), own)


def volumes(given: RunAs) -> list[str]:
    """The mounts of a start, as engines write them."""
    return [
        f"{source}:{target}" if target in given.writable else f"{source}:{target}:ro"
        for target, source in given.mounts.items()
    ]


class Loaded:
    """The images that a session has loaded, each once, whichever thread asks first."""

    def __init__(self, load: Callable[[StartableImage], str]) -> None:
        """`load` loads a subject and gives the reference to start it by."""
        self._load = load
        self._lock = threading.Lock()
        self._references: dict[tuple[str, str], str] = {}

    def reference(self, subject: StartableImage) -> str:
        """The reference of a subject's image. Loading is the engine's heaviest work, so one at a time."""
        with self._lock:
            key = (subject.name, subject.platform)
            if key not in self._references:
                self._references[key] = self._load(subject)
            return self._references[key]

    def all(self) -> list[str]:
        """All references."""
        return list(self._references.values())


def archive_stream(subject: StartableImage, reference: str) -> contextlib.AbstractContextManager[BinaryIO]:
    """The subject's archive, to be read while it is written; nothing of it is kept. Errors as `streaming`."""
    return streaming(lambda sink: subject.write_archive(sink, reference))
