"""Registries of several programs on loopback; third-party ones from their Go modules."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from sandwright import process
from support import gotools
from support.registryserver import free_port, registry_server, wait_for


@contextlib.contextmanager
def registry_of(kind: str, directory: Path) -> Iterator[str]:
    """One of distribution's two, CUE's ("referrers"), olareg or zot: its address."""
    if kind in ("referrers", "olareg", "zot"):
        with _other_registry(kind, directory) as host:
            yield host
        return
    program = "docker-registry" if kind == "distribution2" else gotools.require("registry")
    with registry_server(directory, program=program) as server:
        yield server.host


@contextlib.contextmanager
def _other_registry(kind: str, directory: Path) -> Iterator[str]:
    """A registry other than distribution's."""
    port, log = free_port(), directory / "log"
    words: tuple[object, ...] = (f"127.0.0.1:{port}",)
    if kind == "olareg":
        words = ("serve", "--addr=127.0.0.1", f"--port={port}", f"--dir={directory}/data", "--api-delete")
    if kind == "zot":
        settings = {
            "storage": {"rootDirectory": str(directory / "data")},
            "http": {"address": "127.0.0.1", "port": str(port)},
            "log": {"level": "warn"},
        }
        (directory / "zot.json").write_text(json.dumps(settings))
        words = ("serve", directory / "zot.json")
    with log.open("wb") as out:
        running = process.start(gotools.require(kind), *map(str, words), stdout=out, stderr=out)
        with running:
            wait_for("127.0.0.1", port, log)
            yield f"127.0.0.1:{port}"
