"""Podman, through its command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandwright.host import MachineFacts
from sandwright.inputs import Question
from sandwright.methods.podman.render import render_podman
from sandwright.methods.podman.support import DECLARATION
from sandwright.methods.shared.engine.backend import EngineBackend
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered, render_with
from sandwright.resources import data_path

_CONFIGURATION = "CONTAINERS_CONF"


@dataclass(frozen=True)
class Podman(EngineBackend):
    """The row of Podman, which has no daemon."""

    name: str = "podman"
    package = "podman"
    version_query = ("info", "--format", "{{.Host.OCIRuntime.Version}}")
    label_query = 'index .Labels "sandwright.session"'

    def render(self, policy: ResolvedPolicy) -> Rendered:
        """For a trial."""
        return render_with(policy, DECLARATION, render_podman)

    def programs(self) -> Sequence[str]:
        """It starts a runtime."""
        return ("podman", "runc", "crun")

    def settings(self, host: MachineFacts) -> Mapping[str, str]:
        """Where it would take crun, which refuses control groups of both versions at once, runc instead."""
        if given := os.environ.get(_CONFIGURATION):
            return {_CONFIGURATION: given}
        if host.cgroups != "hybrid" or "runc" not in host.programs:
            return {}
        return {_CONFIGURATION: str(data_path("oci", "podman-runc.conf"))}

    def depends(self, host: MachineFacts) -> Iterator[Question]:
        """Also on a configuration that the caller names."""
        yield from super().depends(host)
        yield "variable", _CONFIGURATION
