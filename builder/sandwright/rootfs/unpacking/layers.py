"""Layers as blobs: opens, decompresses and verifies them, and collects their whiteouts."""

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
from sandwright.rootfs.tar.codec import DecompressedStream, decompressed
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.prefetch import Prefetch
from sandwright.rootfs.tar.reader import Readable, TarReader
from sandwright.rootfs.unpacking.merge import Whiteouts, collect, mentions_whiteouts


@dataclass(frozen=True)
class ImageLayer:
    """A layer, as its descriptor and the image's configuration describe it.

    `digest` and `size` are those of the blob, `diff_id` is the digest of the uncompressed archive. `open`
    opens the blob; it may be called several times, from several threads.
    """

    digest: str
    size: int
    media_type: str
    diff_id: str
    open: Callable[[], BinaryIO]

    @property
    def name(self) -> str:
        """The layer's name in messages."""
        return f"layer {self.digest}"

    def check(self) -> None:
        """Raise ArchiveRefused for invalid digests and unsupported media types."""
        check_digest(self.digest, "layer")
        check_digest(self.diff_id, f"{self.name}: diff_id")
        if self.media_type not in LAYER_TYPES:
            raise ArchiveRefused(f"{self.name}: is {self.media_type!r}, which is no layer that we know")

    @contextlib.contextmanager
    def archive(self, limits: ArchiveLimits, watch: Callable[[int], None]) -> Iterator[DecompressedStream]:
        """The layer's archive, read and verified ahead in a thread.

        `watch` is called with the length of each read of the blob.
        """
        with self.open() as blob:
            proved = VerifiedReader(_Watched(blob, watch), self.digest, size=self.size, name=self.name)
            with Prefetch(proved) as ahead:
                yield decompressed(ahead, name=self.name, limits=limits)

    def removals(self, limits: ArchiveLimits, watch: Callable[[int], None]) -> Whiteouts:
        """The whiteouts of the layer. It is read twice if it may have any."""
        with self.archive(limits, watch) as archive:
            if not mentions_whiteouts(archive):
                return Whiteouts()
        with self.archive(limits, watch) as archive:
            return collect(TarReader(archive, limits=limits, name=self.name, may_be_sparse=True), limits)


class WhiteoutPrefetch:
    """Collects the whiteouts of each layer but the lowest, ahead in a thread. A context manager."""

    def __init__(self, layers: Sequence[ImageLayer], limits: ArchiveLimits) -> None:
        self._layers = layers[1:]
        self._limits = limits
        self._stopped = False
        self._found: SimpleQueue[Whiteouts | BaseException] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._collect_whiteouts, name="sandwright-prefetch", daemon=True
        )

    def next(self) -> Whiteouts:
        """The whiteouts of the next layer, the second one first. Raise the errors of reading it."""
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

    def _collect_whiteouts(self) -> None:
        for layer in self._layers:
            try:
                self._found.put(layer.removals(self._limits, self._watch))
            except BaseException as error:  # noqa: BLE001 - raised again where the result is used
                self._found.put(error)
                return

    def _watch(self, _: int) -> None:
        if self._stopped:
            raise InterruptedError


class _Watched:
    """A stream that reports its reads."""

    def __init__(self, stream: Readable, watch: Callable[[int], None]) -> None:
        self._stream = stream
        self._watch = watch

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(size)
        self._watch(len(data))
        return data
