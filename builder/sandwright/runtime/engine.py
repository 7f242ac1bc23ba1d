"""Starts images in Docker and Podman as the runtimes of bundles do.

A container's settings are read from the bundle, so that an engine gives the sandbox that the runtimes give.
The user is left to the engine, which looks it up in the image.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandwright.engines.contract import ContainerSpec, Engine
from sandwright.runtime.bundles import read_config
from sandwright.runtime.contract import RunAs, Start, StartableImage
from sandwright.runtime.scratch import PREFIX
from sandwright.watchdog import Ended

LABEL = "sandwright.smoke"
"""The label of every container we make; its value is the name of the run's temporary directory."""


@dataclass
class EngineSession:
    """A session with an engine. `run_name` is the name of the run's directory; `stop` cancels all starts.

    `references` are images that the engine has already, by name and platform; others are loaded, each once,
    whichever thread asks first.
    """

    engine: Engine
    run_name: str
    stop: threading.Event
    references: Mapping[tuple[str, str], str] = field(default_factory=dict)
    loaded: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def run(self, start: Start) -> Ended:
        """As the contract says."""
        spec = container_spec(start, self.reference(start.subject), self.run_name)
        return self.engine.run(spec, limit=start.limit, stop=self.stop, env=start.environment)

    def reference(self, subject: StartableImage) -> str:
        """The reference of a subject's image. Loading is the engine's heaviest work, so one at a time."""
        key = (subject.name, subject.platform)
        with self._lock:
            if key not in self.references and key not in self.loaded:
                name = f"localhost/{PREFIX}{uuid.uuid4().hex[:16]}:{subject.architecture}"
                self.loaded[key] = self.engine.load(subject.write_archive, name)
            return self.references.get(key) or self.loaded[key]

    def remove_images(self) -> None:
        """Remove the images that this session loaded."""
        for reference in self.loaded.values():
            self.engine.remove_image(reference)


def container_spec(start: Start, image: str, run_name: str) -> ContainerSpec:
    """The container of a start."""
    argv, run_as = start.argv, start.run_as
    common: dict[str, Any] = {
        "name": PREFIX + uuid.uuid4().hex[:16],
        "image": image,
        "platform": start.subject.platform,
        "labels": {LABEL: run_name},
    }
    if run_as is not None:
        return ContainerSpec(
            **common,
            command=argv,
            user=f"{run_as.user[0]}:{run_as.user[1]}",
            environment=run_as.environment,
            volumes=_volume_options(run_as),
            read_only=run_as.read_only,
        )
    config = read_config(start.subject.bundle)
    return ContainerSpec(
        **common,
        entrypoint=None if argv is None else argv[:1],
        command=None if argv is None else argv[1:],
        tmpfs=_tmpfs(config),
        read_only=bool(config["root"].get("readonly")),
        confined=True,
    )


def _volume_options(run_as: RunAs) -> tuple[str, ...]:
    return tuple(
        f"{source}:{target}" if target in run_as.writable else f"{source}:{target}:ro"
        for target, source in run_as.mounts.items()
    )


def _tmpfs(config: Mapping[str, Any]) -> dict[str, str]:
    """Mount point → options. Mounts in /dev and /sys are the engine's own business."""
    return {
        mount["destination"]: ",".join(mount.get("options", ()))
        for mount in config.get("mounts", ())
        if mount.get("type") == "tmpfs" and not mount["destination"].startswith(("/dev", "/sys"))
    }
