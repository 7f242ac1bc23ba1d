"""The runtimes that images are started under. To add one: a module, and a row here."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.runtime.bwrap import BWRAP
from sandwright.runtime.contract import SandboxRuntime
from sandwright.runtime.crun import CRUN
from sandwright.runtime.docker import DOCKER
from sandwright.runtime.podman import PODMAN
from sandwright.runtime.runc import RUNC
from sandwright.runtime.runsc import RUNSC

_ROWS: tuple[SandboxRuntime, ...] = (RUNC, CRUN, RUNSC, BWRAP, DOCKER, PODMAN)

RUNTIMES: Mapping[str, SandboxRuntime] = {row.name: row for row in _ROWS}
"""Name → row, in the order of tables."""
