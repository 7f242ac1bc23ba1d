"""Layers as blobs: opened, decompressed and proved, and looked through for what they take away."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import BinaryIO, Self

from sandwright.errors import ArchiveRefused
from sandwright.rootfs.descriptor import LAYER_TYPES, check_digest
from sandwright.rootfs.digest import VerifiedReader
from sandwright.rootfs.tar.ahead import ReadAhead
from sandwright.rootfs.tar.codec import DecompressedStream, decompressed
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.reader import Readable, TarReader
from sandwright.rootfs.unpacking.merge import Whiteouts, collect, mentions_whiteouts


@dataclass(frozen=True)
class ImageLayer:
    """A layer as its descriptor and the image's configuration promise it.

    `digest` and `size` are those of the blob, `diff_id` that of the archive without compression. `open`
    gives the blob from its start; it is called once or more, and from more than one thread.
    """

    digest: str
    size: int
    media_type: str
    diff_id: str
    open: Callable[[], BinaryIO]

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"layer {self.digest}"

    def check(self) -> None:
        """Raise ArchiveRefused for digests that are none, and for a media type of no layer we know."""
        check_digest(self.digest, "layer")
        check_digest(self.diff_id, f"{self.name}: diff_id")
        if self.media_type not in LAYER_TYPES:
            raise ArchiveRefused(f"{self.name}: is {self.media_type!r}, which is no layer that we know")

    @contextlib.contextmanager
    def archive(self, limits: ArchiveLimits, watch: Callable[[int], None]) -> Iterator[DecompressedStream]:
        """The layer's archive, read and proved ahead in a thread, to the end by the time that it ends.

        `watch` is called with the length of every piece of the blob.
        """
        with self.open() as blob:
            proved = VerifiedReader(_Watched(blob, watch), self.digest, size=self.size, name=self.name)
            with ReadAhead(proved) as ahead:
                yield decompressed(ahead, name=self.name, limits=limits)

    def removals(self, limits: ArchiveLimits, watch: Callable[[int], None]) -> Whiteouts:
        """What the layer takes away from those below. It is read twice if whiteouts are possible."""
        with self.archive(limits, watch) as archive:
            if not mentions_whiteouts(archive):
                return Whiteouts()
        with self.archive(limits, watch) as archive:
            return collect(TarReader(archive, limits=limits, name=self.name), limits)


class WhiteoutPrefetch:
    """Finds out in a thread, ahead of need, what each layer but the lowest takes away. A context manager."""

    def __init__(self, layers: Sequence[ImageLayer], limits: ArchiveLimits) -> None:
        self._layers = layers[1:]
        self._limits = limits
        self._stopped = False
        self._found: SimpleQueue[Whiteouts | BaseException] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sandwright-prefetch", daemon=True)

    def next(self) -> Whiteouts:
        """What the next layer takes away, the second one first. Raise what finding it out raised."""
        found = self._found.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = True
        self._thread.join()

    def _run(self) -> None:
        for layer in self._layers:
            try:
                self._found.put(layer.removals(self._limits, self._watch))
            except BaseException as error:  # noqa: BLE001 - it is raised again, where it is asked for
                self._found.put(error)
                return

    def _watch(self, _: int) -> None:
        if self._stopped:
            raise InterruptedError


class _Watched:
    """A stream whose reading is watched."""

    def __init__(self, stream: Readable, watch: Callable[[int], None]) -> None:
        self._stream = stream
        self._watch = watch

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._watch(len(data))
        return data
