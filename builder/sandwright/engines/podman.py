"""Podman and Buildah, through their command lines. They share their builder, and where they keep images.

Podman's defaults request higher limits than a container or a CI machine may give, and crun, which refuses
hybrid cgroups; the options here request the limits and cgroups of the machine.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from getpass import getuser
from pathlib import Path
from typing import Any, Literal

from sandwright import process, user_dirs
from sandwright.documents import strictjson
from sandwright.engines.client import EngineClient
from sandwright.engines.contract import (
    TAIL,
    ContainerSpec,
    EngineBuildContext,
    EngineImage,
    WriteArchive,
    tail,
)
from sandwright.engines.podman_build import follow_build
from sandwright.errors import BuildError, CommandFailed, HostError, IntegrityError
from sandwright.host import MachineFacts
from sandwright.outputs import disk_errors
from sandwright.progress import ProgressStep
from sandwright.setup.requirements import how_to_get
from sandwright.signalling import is_same_user_process, kill_all
from sandwright.watchdog import Ended, run_bounded, runtime_environment

OLDEST = {"podman": (4, 0), "buildah": (1, 24)}
_LIMITS = {"nofile": 4096, "nproc": 4096}
"""Limits that suffice for builds and tests. The caller's own can't be used: Podman cuts them on the way down
(processes to 32768, seen with 4.3), and a container that asks for more than that doesn't start."""
_SHORT = 120.0
_TRANSFER = 900.0
_REMOVAL = 60.0
_MONITOR_END = 10.0


def preferred_runtime(host: MachineFacts) -> str:
    """The runtime to name: runc under hybrid cgroups, which crun refuses; empty for the engine's choice."""
    return "runc" if host.cgroups == "hybrid" and "runc" in host.programs else ""


def limits(host: MachineFacts) -> list[str]:
    """Limits of processes as `--ulimit` takes them, no higher than ours."""
    hard = {name: host.limits[name][1] for name in _LIMITS}
    least = {name: most if hard[name] == -1 else min(hard[name], most) for name, most in _LIMITS.items()}
    return [f"{name}={limit}:{limit}" for name, limit in least.items()]


def containers_conf(host: MachineFacts) -> str:
    """A configuration with limits no higher than ours, no systemd and no journal (containers.conf(5))."""
    return (
        f"[containers]\ndefault_ulimits = {json.dumps(limits(host))}\n"
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
    )


@dataclass(frozen=True)
class PodmanEngine(EngineClient):
    """Podman or Buildah. `runtime` is an OCI runtime, absent the engine's own choice.

    `scratch` is the directory where containers are run from, which only `run` needs, as `settings`: variables
    besides those that a container's client gets.
    """

    name: Literal["podman", "buildah"]
    host: MachineFacts = field(kw_only=True)
    runtime: str = field(default="", kw_only=True)
    scratch: Path | None = field(default=None, kw_only=True)
    settings: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def argv(self, *words: str) -> list[str]:
        """The command line before the sub-command; Buildah takes the runtime as an option of `build`."""
        runtime = [f"--runtime={self.runtime}"] if self.runtime and self.name == "podman" else []
        return super().argv(*runtime, *words)

    def check(self) -> str:
        """As the contract says. Also raise HostError when it is too old, or has no ids to give."""
        process.which(self.name, hint=how_to_get(self.name, self.host.package_manager))
        version = process.run(self.name, "--version", timeout=_SHORT).text
        match = re.search(r"version (\d+)\.(\d+)", version)
        oldest = OLDEST[self.name]
        if match is None or (int(match[1]), int(match[2])) < oldest:
            raise HostError(f"{version or self.name}: images need version {'.'.join(map(str, oldest))}")
        if not self.host.is_root:
            self._check_ids()
        try:
            self.ask("images", "--quiet", timeout=_SHORT)
        except CommandFailed as error:
            raise HostError(f"cannot use {self.name} here: {_failure_reason(error)}") from error
        return version

    def inspect_image(self, reference: str) -> EngineImage | None:
        """As the contract says."""
        found = self.ask("inspect", "--type", "image", reference, timeout=_SHORT, check=False)
        if not found:
            return None
        try:
            return _engine_image(strictjson.loads_lenient(found.stdout))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise IntegrityError(f"{self.name} inspect {reference}: not understood: {error!r}") from error

    def load(self, write: WriteArchive, reference: str) -> str:
        """As the contract says."""
        if self.name == "buildah":  # it has no `load`, and `pull` reads an archive more than once
            with tempfile.NamedTemporaryFile(dir=user_dirs.scratch()) as archive:
                with disk_errors(Path(archive.name)):
                    write(archive, reference)  # type: ignore[arg-type]  # a file object
                    archive.flush()
                words = ("pull", "--quiet", f"docker-archive:{archive.name}")
                self.ask(*words, timeout=_TRANSFER, variables={"TMPDIR": user_dirs.scratch()})
            return reference
        output = self.load_archive(write, reference, timeout=_TRANSFER)
        _, colon, loaded = output.partition("Loaded image: ")
        if not colon:
            raise BuildError(f"podman load did not say which image it loaded: {output!r}")
        return loaded.split()[0]

    def build(self, context: EngineBuildContext, platform: str, step: ProgressStep) -> str:
        """As the contract says."""
        with tempfile.TemporaryDirectory(dir=user_dirs.scratch(), ignore_cleanup_errors=True) as scratch:
            directory, id_file = Path(scratch, "context"), Path(scratch, "id")
            context.write_directory(directory)
            options = self._build_options(context, platform, id_file)
            lines: deque[str] = deque(maxlen=TAIL)
            status = follow_build(self.argv("build", *options, str(directory)), lines, step)
            if status != 0:
                raise BuildError(f"{self.name} build ended with status {status}{tail(lines)}")
            return id_file.read_text().strip()

    def tag(self, image: str, reference: str) -> None:
        """As the contract says."""
        self.ask("tag", image.removeprefix("sha256:"), reference, timeout=_SHORT)

    def remove_image(self, reference: str) -> None:
        """As the contract says."""
        if self.inspect_image(reference) is not None:
            self.ask("rmi", reference, timeout=_SHORT)

    def save(self, reference: str, target: Path) -> None:
        """As the contract says."""
        target.unlink(missing_ok=True)
        self.ask("push", "--quiet", reference, f"docker-archive:{target}:{reference}", timeout=_TRANSFER)

    def runner(self, scratch: Path) -> PodmanEngine:
        """As the contract says: Podman, which also has the images that Buildah built."""
        process.which("podman")
        (scratch / "containers.conf").write_text(containers_conf(self.host))
        settings = {"CONTAINERS_CONF": str(scratch / "containers.conf")}
        return PodmanEngine(
            "podman",
            {**runtime_environment(), **settings},
            self.options,
            host=self.host,
            runtime=self.runtime,
            scratch=scratch,
            settings=settings,
        )

    def run(
        self, container: ContainerSpec, *, limit: float, stop: threading.Event, env: Mapping[str, str]
    ) -> Ended:
        """As the contract says. Needs `scratch`."""
        assert self.scratch is not None
        monitor = self.scratch / f"{container.name}.pid"
        options = ("--name", container.name, "--conmon-pidfile", str(monitor), *_run_options(container))
        argv = self.argv("run", *options, container.image, *(container.command or ()))
        try:
            # Its monitor may leave a file `oom` where it is started.
            return run_bounded(argv, limit=limit, stop=stop, env={**env, **self.settings}, cwd=self.scratch)
        finally:
            self.ask(
                *("rm", "--force", "--ignore", "--time", "0", "--volumes", container.name), timeout=_REMOVAL
            )
            _see_out(monitor)

    def _build_options(self, context: EngineBuildContext, platform: str, id_file: Path) -> list[str]:
        """One layer for each image, with no time but the image's: the same context gives the same image."""
        return [
            *(f"--ulimit={limit}" for limit in limits(self.host)),
            *("--network=none", "--layers=false", "--force-rm", "--pull=false", "--identity-label=false"),
            *("--format=oci", f"--timestamp={context.epoch}", f"--platform={platform}"),
            *([f"--runtime={self.runtime}"] if self.name == "buildah" and self.runtime else []),
            f"--iidfile={id_file}",
        ]

    def _check_ids(self) -> None:
        """Without root, the ids of an image are those that /etc/subuid gives the user."""
        user = getuser()
        for file in (Path("/etc/subuid"), Path("/etc/subgid")):
            with contextlib.suppress(OSError):
                if re.search(rf"^(?:{re.escape(user)}|{self.host.uid}):", file.read_text(), re.MULTILINE):
                    continue
            raise HostError(
                f"{self.name} without root needs ids to give to the files of images, and {file} has none for "
                f"{user}: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
            )


def _engine_image(document: Any) -> EngineImage:  # noqa: ANN401 - JSON
    """Podman lists its own field names; Buildah uses those of the image specification."""
    if isinstance(document, list):
        image = document[0]
        layers = tuple(image["RootFS"]["Layers"])
        return EngineImage(image["Id"], f"{image['Os']}/{image['Architecture']}", layers, int(image["Size"]))
    image = document["OCIv1"]
    platform = f"{image['os']}/{image['architecture']}"
    return EngineImage(document["FromImageID"], platform, tuple(image["rootfs"]["diff_ids"]), 0)


def _run_options(spec: ContainerSpec) -> list[str]:
    words = ["--pull", "never", "--platform", spec.platform, "--network", "none", "--log-driver", "none"]
    if spec.user:
        words += ["--passwd=false", f"--user={spec.user}"]
    words += [f"--label={name}={value}" for name, value in spec.labels.items()]
    words += [f"--env={name}={value}" for name, value in spec.environment.items()]
    words += [f"--volume={volume}" for volume in spec.volumes]
    if spec.confined:
        words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    if spec.read_only:
        words += ["--read-only", *(["--read-only-tmpfs=false"] if spec.confined else [])]
    for path, options in spec.tmpfs.items():
        words += ["--tmpfs", f"{path}:{options}"]
    return [*words, *(["--entrypoint", json.dumps(spec.entrypoint)] if spec.entrypoint is not None else [])]


def _see_out(monitor: Path) -> None:
    """Wait until a container's monitor has ended, and kill it with its container when it doesn't.

    It outlives a Podman that was killed while it started a container, and would work on in our directory.
    """
    with contextlib.suppress(OSError, ValueError):
        pid = int(monitor.read_text())
        deadline = time.monotonic() + _MONITOR_END
        while is_same_user_process(pid) and monitor.name in Path(f"/proc/{pid}/cmdline").read_text():
            if time.monotonic() > deadline:
                kill_all([pid])
            time.sleep(0.02)


def _failure_reason(error: CommandFailed) -> str:
    lines = [line for line in error.stderr.splitlines() if line.strip()]
    return lines[-1].strip() if lines else str(error)
