"""Connects to an engine by its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sandwright.engines.contract import Engine
from sandwright.engines.docker import connect_docker
from sandwright.engines.podman import PodmanEngine, preferred_runtime
from sandwright.errors import UsageError
from sandwright.host import MachineFacts


@contextmanager
def connect_engine(name: str, host: MachineFacts, *, cache: bool = True) -> Iterator[Engine]:
    """Connect to an engine for the length of a `with`.

    Without `cache`, Docker carries out all instructions of a build.

    Raise UsageError for a name that is no engine's, HostError when no Docker daemon answers.
    """
    match name:
        case "docker":
            with connect_docker(cache=cache) as engine:
                yield engine
        case "podman" | "buildah":
            yield PodmanEngine(name, host=host, runtime=preferred_runtime(host))
        case _:
            raise UsageError(f"there is no engine '{name}'; there is docker, podman and buildah")
