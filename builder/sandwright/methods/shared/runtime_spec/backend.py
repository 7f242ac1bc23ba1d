"""Starts an OCI runtime on an unpacked image."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.errors import HostError
from sandwright.host import MachineFacts, collect_host
from sandwright.inputs import LiveHost
from sandwright.methods.contract import LIMIT, Code, Leftover, Notify, Preflight, quiet
from sandwright.methods.shared.images import default_image, how_to_build, rootfs, why_missing
from sandwright.methods.shared.launched import Launched
from sandwright.methods.shared.namespaces import namespace_obstacle
from sandwright.methods.shared.rundirs import abandoned_directories
from sandwright.methods.shared.trial import IMAGE_ROOT, judged, try_out
from sandwright.mountinfo import refuse_mounts, unmount_below
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.trusted import ROOTFS
from sandwright.runtime.scratch import scratch_directory
from sandwright.runtime.trial import Failed
from sandwright.setup.requirements import how_to_get
from sandwright.signalling import DYING, started

DIRECTORIES = ("dev", "proc", "sys", "tmp", "etc", "run", "usr", "var")
"""The directories that an image's root needs; the trial's root is made of nothing else."""

KILL = 10.0
"""Seconds for a question to a runtime."""


@dataclass(frozen=True)
class Runtime(Launched):
    """A method whose launcher starts a runtime on a new bundle for each run."""

    def environment(
        self, policy: ResolvedPolicy, inputs: LiveHost | None = None, *, notify: Notify = quiet
    ) -> Mapping[str, str]:
        """The variable with the directory of the unpacked image. Raise HostError if there is none."""
        return {ROOTFS: str(rootfs(policy, inputs or LiveHost(), notify=notify))}

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start it on a root that holds nothing but empty directories."""
        if host.os != "linux":
            return Preflight(self.name, "wrong-system", f"it runs on Linux only; this is {host.os}")
        if not any(name in host.programs for name in self.programs()):
            missing = " or ".join(self.programs())
            get = how_to_get(self.programs()[0], host.package_manager)
            return Preflight(
                self.name, "program-missing", f"{missing} is not installed", get and f"get it with: {get}"
            )
        with scratch_directory() as scratch:
            for name in DIRECTORIES:
                (scratch / name).mkdir(exist_ok=True)
            failed = try_out(self, IMAGE_ROOT, limit=limit, environment={ROOTFS: str(scratch)})
        return judged(self.name, failed, lambda failed: self.explained(failed, host))

    def without_image(self) -> Preflight | None:
        """The fault where a policy's default image is missing."""
        if not (message := why_missing(image := default_image())):
            return None
        remedy = how_to_build(image, collect_host().platform)
        return Preflight(self.name, "image-missing", message, remedy)

    def runtime_version(self, host: MachineFacts) -> str:
        """The version that the launcher's runtime reports."""
        program = next((name for name in self.programs() if name in host.programs), "")
        return process.run(program, "--version", timeout=KILL, check=False).text if program else ""

    def explained(self, failed: Failed, host: MachineFacts) -> tuple[Code, str, str]:
        """The cause of a failed start, and the remedy."""
        message = failed.output
        if "cgroups in hybrid mode" in message:
            return "cgroups", "crun refuses cgroups of both versions at once", "install runc beside it"
        if "cgroup" in message and (
            "not found" in message or "no such" in message.lower() or "permission" in message.lower()
        ):
            return (
                "cgroups",
                message,
                "mount a cgroup hierarchy, or leave out resources.memory, cpus and pids",
            )
        if not host.is_root and (found := namespace_obstacle(host)):
            return found
        return "not-started", message, ""

    def leftovers(self, running: Iterable[str]) -> Iterator[Leftover]:  # noqa: ARG002 - by processes
        """Directories of this user's runs without a launcher."""
        for directory in abandoned_directories(self.name):
            yield Leftover(self.name, "directory", str(directory))

    def remove(self, leftover: Leftover) -> None:
        """Stop the container, delete its state, and remove the directory.

        Raise HostError, and keep the directory, while the container is still running.
        """
        directory = Path(leftover.name)
        if directory not in abandoned_directories(self.name):
            raise HostError(f"{leftover} is not a directory that a run left behind")
        for name in filter(process.find, self.programs()):
            argv = (name, "--root", directory / "state", "delete", "--force", directory.name)
            process.run(*argv, timeout=LIMIT, check=False)
        _require_container_ended(directory)
        unmount_below(directory)
        refuse_mounts(directory)
        shutil.rmtree(directory, ignore_errors=True)
        if directory.exists():
            raise HostError(f"cannot remove {directory}")


def _require_container_ended(run: Path) -> None:
    """Raise HostError while the first process of a run's container is there, or may be.

    Later runs know of the container by this directory alone, and would remove the placeholders that keep it
    from creating names. Runtimes delete the state of a container that they have ended.
    """
    first = _first_process(run)
    deadline = time.monotonic() + DYING
    while first and started(first) and time.monotonic() < deadline:
        time.sleep(0.05)
    if first and started(first):
        raise HostError(f"the directory of {run.name} stays, because its container goes on: process {first}")


def _first_process(run: Path) -> int:
    """The number that the runtime wrote for launchers; 0 where it started no container."""
    try:
        return int((run / "pid").read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return 0
