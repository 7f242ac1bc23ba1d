"""The runtimes that images are started under. To add one: a module, and a row here."""

from __future__ import annotations

from collections.abc import Mapping

from sandwright.smoke.contract import Runtime
from sandwright.smoke.runtimes.bwrap import BWRAP
from sandwright.smoke.runtimes.crun import CRUN
from sandwright.smoke.runtimes.docker import DOCKER
from sandwright.smoke.runtimes.podman import PODMAN
from sandwright.smoke.runtimes.runc import RUNC
from sandwright.smoke.runtimes.runsc import RUNSC

_ROWS: tuple[Runtime, ...] = (RUNC, CRUN, RUNSC, BWRAP, DOCKER, PODMAN)

RUNTIMES: Mapping[str, Runtime] = {row.name: row for row in _ROWS}
"""Name → row, in the order of tables."""
