"""Uploads one run's project into a registry before the run; downloads the changes from the Pod after it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from sandwright.errors import HostError
from sandwright.rootfs.tar.entry import show
from sandwright.workspace.destination import Applied
from sandwright_kubernetes.connection import ApiUnreachable
from sandwright_kubernetes.jobrun import JobRun
from sandwright_kubernetes.records import clusters_directory
from sandwright_kubernetes.sync import REGISTRY, channels
from sandwright_kubernetes.sync.changes import apply_changes
from sandwright_kubernetes.sync.job import RETURN, diff_command, with_project
from sandwright_kubernetes.sync.layers import (
    Registry,
    SnapshotImage,
    parse_registry,
    snapshot_image,
)
from sandwright_kubernetes.sync.returned import MOST, ReturnedChanges, unpack_changes
from sandwright_kubernetes.sync.rules import FILE, ProjectRules, parse_rules, read_rules

INCOMPLETE = 3
"""The exit status of our program where it left something out."""

KEPT = ".conflicts"
"""The suffix of directories with conflicting files."""

_ATTEMPTS = 3
_PAUSE = 1.0
_TOLD = 20
_MOST_WORDS = 1 << 16

Json = dict[str, Any]


class ProjectTransfer:
    """A project that travels. `job` is the Job that takes it along."""

    def __init__(
        self,
        job: Json,
        rules: ProjectRules,
        image: SnapshotImage,
        registry: Registry,
        *,
        tag: str,
        returns: bool,
    ) -> None:
        """Nothing is sent yet."""
        self._rules = rules
        self._image = image
        self._registry = registry
        self._tag = tag[:128]
        reference = f"{registry.reference.host}/{registry.reference.repository}@{image.digest}"
        self.job = with_project(job, reference, returns=returns and rules.writes)

    def send(self) -> list[str]:
        """Push the snapshot; report the skipped paths. Raise RegistryError, WrongContent."""
        self._image.push(self._registry, self._tag)
        return _reason_lines("was not sent", self._image.snapshot.left_out)

    def download(self, running: JobRun) -> list[str]:
        """Apply the command's changes; list those not applied. Raise SandwrightError if none was."""
        if not self._rules.writes:
            return []
        with ExitStack() as stack:
            folder = stack.enter_context(_scratch("returned"))
            archive = stack.enter_context(tempfile.TemporaryFile(dir=folder))
            lines = _fetch_changes(running, archive)
            unpacked = folder / "unpacked"
            unpacked.mkdir(mode=0o700)
            root = _open_project(stack, str(unpacked))
            changes = unpack_changes(archive, root, self._rules.takes)
            project = _open_project(stack, self._rules.project)
            applied = apply_changes(project, root, changes, self._image.snapshot.found, self._rules)
            lines += _keep_conflicts(applied, unpacked, running.name)
        return [*lines, *_report_lines(changes, applied)]


@contextmanager
def prepared(
    directory: Path, job: Json, *, suffix: str = "", returns: bool = True
) -> Iterator[ProjectTransfer | None]:
    """The journey of a rendered Job's project, for the length of a `with`; None where none travels.

    Its image is tagged with the Job's name and a `suffix`. It `returns` where the policy lets it be written.
    Raise UsageError for a registry that can't be one, HostError for a project that can't be sent.
    """
    named = os.environ.get(REGISTRY, "")
    pod = job["spec"]["template"]["spec"]
    if not named or not any("persistentVolumeClaim" in each for each in pod["volumes"]):
        yield None
        return
    registry = parse_registry(named)
    rules = read_rules(parse_rules((directory / FILE).read_bytes()), pod)
    with _scratch("snapshot") as folder, snapshot_image(rules, folder) as image:
        tag = f"{job['metadata']['name']}{suffix}"
        yield ProjectTransfer(job, rules, image, registry, tag=tag, returns=returns)


@contextmanager
def _scratch(what: str) -> Iterator[Path]:
    """A directory for the length of a `with`. Those of processes that were killed go first."""
    for path in clusters_directory("travel").glob("*-*"):
        number = path.name.split("-")[1]
        if number.isdecimal() and not Path("/proc", number).exists() and not path.name.endswith(KEPT):
            shutil.rmtree(path, ignore_errors=True)
    with tempfile.TemporaryDirectory(
        prefix=f"{what}-{os.getpid()}-", dir=clusters_directory("travel")
    ) as name:
        yield Path(name)


def _fetch_changes(running: JobRun, archive: IO[bytes]) -> list[str]:
    """Have the container beside the sandbox list the changes. A broken connection is made again."""
    for attempt in reversed(range(_ATTEMPTS)):
        archive.seek(0)
        archive.truncate()
        try:
            status, words = _request_changes(running, archive)
            break
        except ApiUnreachable:
            if not attempt:
                raise
            time.sleep(_PAUSE)
    lines = words.decode(errors="replace").splitlines()[:_TOLD]
    if status not in (0, INCOMPLETE):
        raise HostError(f"the Pod cannot list the changes: {'; '.join(lines)}")
    archive.seek(0)
    return [f"did not come back: {each}" for each in lines]


def _request_changes(running: JobRun, archive: IO[bytes]) -> tuple[int, bytes]:
    words = b""
    path = running.await_beside(RETURN)
    query = {"container": RETURN, "command": diff_command(MOST), "stdout": "true", "stderr": "true"}
    with channels.open_program(running.connection, f"{path}/exec", query) as streams:
        for channel, data in streams.messages():
            if channel == channels.STDOUT:
                archive.write(data)
                if archive.tell() > MOST:
                    raise HostError(f"the Pod sends more than {MOST} bytes")
            elif channel == channels.STDERR:
                words = (words + data)[:_MOST_WORDS]
            elif channel == channels.STATUS:
                return channels.exit_status(data), words
    raise ApiUnreachable("the connection to the Pod ended before all was told")


def _keep_conflicts(applied: Applied, unpacked: Path, name: str) -> list[str]:
    """Keep conflicting files, outside the project."""
    if not applied.conflicts:
        return []
    destination = clusters_directory("travel") / f"{name}{KEPT}"
    unpacked.rename(destination)
    return [f"the command's files from there are in {destination}"]


def _report_lines(changes: ReturnedChanges, applied: Applied) -> list[str]:
    return [
        *_reason_lines("was not copied back", changes.refused),
        *_reason_lines("stays as it is here", applied.conflicts),
    ]


def _reason_lines(what: str, paths: list[tuple[bytes, str]]) -> list[str]:
    lines = [f"{show(path)} {what}: {reason}" for path, reason in paths[:_TOLD]]
    return lines + ([f"{len(paths) - _TOLD} more"] if len(paths) > _TOLD else [])


def _open_project(stack: ExitStack, path: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}") from error
    stack.callback(os.close, fd)
    return fd
