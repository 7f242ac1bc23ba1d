"""An image pulled into a new directory, with every byte compared, for the checks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sandwright.image.layout import LAYOUT_FILE
from sandwright.outputs import disk_errors
from sandwright.rootfs.descriptor import OCI_INDEX, Descriptor


class PulledLayout:
    """An OCI layout in the making, as pulls see it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with disk_errors(path):
            path.mkdir(parents=True)
            (path / "oci-layout").write_bytes(LAYOUT_FILE)

    def has(self, descriptor: Descriptor) -> bool:
        """Whether a blob is there; whole, as only whole ones get their names."""
        return self._blob(descriptor).exists()

    def read(self, descriptor: Descriptor) -> bytes:
        """A blob that is there."""
        return self._blob(descriptor).read_bytes()

    @contextmanager
    def adding(self, descriptor: Descriptor) -> Iterator[BinaryIO]:
        """A file that is a blob when the `with` ends without an error."""
        target = self._blob(descriptor)
        part = target.with_name(f"{target.name}.part")
        with disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with part.open("w+b") as file:
                yield file
            part.replace(target)

    def finish(self, root: Descriptor) -> None:
        """Write the layout's index, which names the image."""
        entry = {"mediaType": root.media_type, "digest": root.digest, "size": root.size}
        index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]}
        with disk_errors(self.path):
            (self.path / "index.json").write_text(json.dumps(index), encoding="utf-8")

    def _blob(self, descriptor: Descriptor) -> Path:
        algorithm, _, encoded = descriptor.digest.partition(":")
        return self.path / "blobs" / algorithm / encoded
