"""A project that travels to a cluster, with its policy, and archives as a hostile Pod would send them."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from sandwright.api import Policy
from sandwright.policy.collect import collect_facts
from sandwright.render.artifact import Artifact
from sandwright.rootfs.tar.entry import TarEntry
from sandwright.workspace.destination import Applied
from sandwright_kubernetes.render import render_kubernetes
from sandwright_kubernetes.sync.changes import apply_changes
from sandwright_kubernetes.sync.layers import snapshot_image
from sandwright_kubernetes.sync.returned import ReturnedChanges, unpack_changes
from sandwright_kubernetes.sync.rules import ProjectRules, parse_rules, read_rules
from sandwright_kubernetes.sync.snapshot import Snapshot, take_snapshot

WRITES = "extends: []\nfilesystem: {write: [$PROJECT], deny: [$PROJECT/secrets, $PROJECT/key.pem]}\n"
SECRET = b"of nobody's business"
FILES = {
    "src/a.c": b"int a;\n",
    "src/b.c": b"int b;\n",
    "docs/x": b"x",
    "secrets/inner/key": SECRET,
    "key.pem": SECRET,
}


class Project:
    """A project and its policy."""

    def __init__(self, folder: Path, text: str = WRITES) -> None:
        self.folder = folder
        self.path = folder / "p"
        self.text = text
        for name, content in FILES.items():
            self.write(name, content)

    def write(self, name: str, content: bytes) -> Path:
        """Write a file, and make its directories."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def artifacts(self) -> tuple[Artifact, ...]:
        """The artifacts, rendered for the current state of the project."""
        policy = Policy.from_text(f"schema: 1\nmethod: kubernetes\n{self.text}")
        environ = {"HOME": str(self.folder / "home")}
        return render_kubernetes(policy.resolve(collect_facts(policy, project=self.path, environ=environ)))

    @property
    def rules(self) -> ProjectRules:
        """The rules that decide which files are transferred."""
        found = {each.name: each.content for each in self.artifacts()}
        job = yaml.load(found["job.yaml"], yaml.CSafeLoader)
        return read_rules(parse_rules(found["project.json"]), job["spec"]["template"]["spec"])

    def snapshot(self, rules: ProjectRules | None = None) -> tuple[Snapshot, dict[bytes, bytes]]:
        """The recorded entries, and the content of each by its path in the image."""
        sent: dict[bytes, bytes] = {}

        def put(_: int, entry: TarEntry, content: Iterator[bytes]) -> None:
            sent[entry.path] = b"".join(content) or entry.link

        return take_snapshot(rules or self.rules, put), sent

    def apply(self, archive: bytes, snapshot: Snapshot | None = None) -> tuple[ReturnedChanges, Applied]:
        """Apply a returned archive; `snapshot` is the uploaded one, by default the project as it is."""
        rules = self.rules
        sent = self.snapshot(rules)[0] if snapshot is None else snapshot
        unpacked = self.folder / f"unpacked-{os.urandom(4).hex()}"
        unpacked.mkdir()
        with _directory(unpacked) as root, _directory(self.path) as project:
            changes = unpack_changes(io.BytesIO(archive), root, rules.takes)
            return changes, apply_changes(project, root, changes, sent.found, rules)

    def blobs(self) -> dict[str, bytes]:
        """The image of a snapshot: every blob by its digest."""
        with snapshot_image(self.rules, self.folder / "staged") as image:
            graph = image.graph
            found = {each.digest: image.opened(each).read() for each in graph.blobs}
            return {**found, graph.root.descriptor.digest: graph.root.content}


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def member(
    name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", **more: object
) -> tuple[tarfile.TarInfo, bytes]:
    """A member of an archive. `more` has fields of TarInfo."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    info.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    for field, value in more.items():
        setattr(info, field, value)
    return info, content


def archive_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """An archive of members."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return sink.getvalue()
