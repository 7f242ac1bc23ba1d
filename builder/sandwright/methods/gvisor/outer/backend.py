"""gVisor with `gvisor.engine`: runsc in a hardened container of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sandwright.engines.client import client_environment
from sandwright.errors import SandwrightError
from sandwright.host import MachineFacts, collect_host
from sandwright.inputs import LiveHost
from sandwright.methods.contract import LIMIT, Code, Leftover, Notify, Preflight, quiet
from sandwright.methods.docker.backend import Docker
from sandwright.methods.podman.backend import Podman
from sandwright.methods.shared.engine.backend import EngineBackend
from sandwright.methods.shared.engine.loading import load_image
from sandwright.methods.shared.images import our_layout, rootfs
from sandwright.methods.shared.launched import Launched
from sandwright.methods.shared.runtime_spec.backend import DIRECTORIES
from sandwright.methods.shared.trial import IMAGE_ROOT, judged, try_out
from sandwright.policy.names import EngineName
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.trusted import ROOTFS
from sandwright.questions import Question
from sandwright.runtime.scratch import scratch_directory
from sandwright.runtime.trial import Failed

NAME = "gvisor"
IMAGE = f"sandwright/{NAME}:latest"
"""The image of the outer container, as the engine knows it."""

_ASKING = 10.0

_FILES = ("etc/hosts", "etc/resolv.conf", "etc/passwd", "etc/group")
"""The files that the trial's root needs beside directories: the container's own are mounted over them."""


def engine_backend(name: str) -> EngineBackend:
    """The backend of the engine that `gvisor.engine` names."""
    return Docker() if name == "docker" else Podman()


@dataclass(frozen=True)
class OuterGvisor(Launched):
    """gVisor in an engine's container: a separate method for trial and start.

    In a policy it is `method: gvisor` with `gvisor.engine`.
    """

    engine: EngineName = field(kw_only=True)

    def programs(self) -> Sequence[str]:
        """The programs of the engine; runsc is in the image."""
        return self._engine_backend.programs()

    def depends(self, host: MachineFacts) -> Iterator[Question]:
        """The questions of the engine's backend."""
        yield from self._engine_backend.depends(host)

    def environment(
        self, policy: ResolvedPolicy, inputs: LiveHost | None = None, *, notify: Notify = quiet
    ) -> Mapping[str, str]:
        """Variables for the directory of the unpacked image, and those of the client. Raise HostError."""
        self._load_image(collect_host(), notify)
        root = rootfs(policy, inputs or LiveHost(), notify=notify)
        return {**self._engine_backend.settings(collect_host()), ROOTFS: str(root)}

    def _load_image(self, host: MachineFacts, notify: Notify = quiet) -> None:
        """Give the engine the container's image as it was built here, if it lacks that very one."""
        if layout := our_layout(NAME):
            load_image(self._engine_backend.client(), NAME, layout, host.platform, notify=notify)

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start the container, and in it gVisor on a root of empty directories."""
        if missing := self._missing_requirement(host):
            return missing
        with scratch_directory() as scratch:
            for name in DIRECTORIES:
                (scratch / name).mkdir(exist_ok=True)
            for name in _FILES:
                (scratch / name).touch()
            environment = {
                **client_environment(),
                **self._engine_backend.settings(host),
                ROOTFS: str(scratch),
            }
            failed = try_out(self, IMAGE_ROOT, limit=limit, environment=environment)
        return judged(self.name, failed, lambda failed: self.explained(failed, host))

    def _missing_requirement(self, host: MachineFacts) -> Preflight | None:
        """The missing part: the engine, or the image in it."""
        if not any(name in host.programs for name in self.programs()[:1]):
            return Preflight(self.name, "program-missing", f"{self.engine} is not installed")
        if dead := self._engine_backend.dead():
            return replace(dead, method=self.name)
        try:
            self._load_image(host)
            if self._engine_backend.client().image_id(IMAGE, timeout=_ASKING):
                return None
        except SandwrightError as error:
            return Preflight(self.name, "not-started", str(error))
        return Preflight(
            self.name, "image-missing", f"{self.engine} has no image {IMAGE}", _build_advice(self.engine)
        )

    def explained(self, failed: Failed, host: MachineFacts) -> tuple[Code, str, str]:
        """The cause of a failed start, which the session program has already put into words."""
        message = failed.output
        if "namespaces" in message or "pivot_root" in message:
            return (
                "container-filter",
                message,
                "the engine's own environment withholds a feature that gVisor needs",
            )
        return self._engine_backend.explained(failed, host)

    def leftovers(self, running: Iterable[str]) -> Iterable[Leftover]:  # noqa: ARG002
        """None: the engine's backend removes the container by its label, and with it everything else."""
        return ()

    @property
    def _engine_backend(self) -> EngineBackend:
        return engine_backend(self.engine)


def _build_advice(engine: str) -> str:
    built = f"sandwright build-images --name {NAME}"
    return f"{built}, and where that is not below this checkout or $SANDWRIGHT_BUILD, load it into {engine}"


@dataclass(frozen=True)
class DockerGvisor(OuterGvisor):
    """The method gVisor in a container of Docker."""

    name: str = "gvisor-docker"
    engine: EngineName = "docker"


@dataclass(frozen=True)
class PodmanGvisor(OuterGvisor):
    """The method gVisor in a container of Podman."""

    name: str = "gvisor-podman"
    engine: EngineName = "podman"
