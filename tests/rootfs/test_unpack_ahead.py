"""Reading ahead in a thread (prefetch): the same bytes, the same errors at the same position, no thread left.

Tests of rootfs/unpacking/layers.py.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator

import pytest

from sandwright.errors import IntegrityError
from sandwright.rootfs.tar.limits import ArchiveLimits
from sandwright.rootfs.tar.prefetch import DEPTH, Prefetch
from sandwright.rootfs.tar.reader import CHUNK
from sandwright.rootfs.unpacking.layers import WhiteoutPrefetch
from support.tars import archive, file, folder, layer, stack
from support.waiting import eventually


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


class Counting(io.BytesIO):
    """Counts the reads, and fails after a number of bytes."""

    def __init__(self, content: bytes, fails_at: int | None = None) -> None:
        super().__init__(content)
        self.reads = 0
        self.fails_at = fails_at

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        if self.fails_at is not None and self.tell() >= self.fails_at:
            raise IntegrityError("here")
        return super().read(size)


CONTENT = bytes(range(256)) * (CHUNK // 64)


@pytest.mark.parametrize("size", [1000, CHUNK - 1, CHUNK, CHUNK * 3])
def test_the_same_bytes(size: int) -> None:
    with Prefetch(io.BytesIO(CONTENT)) as ahead:
        pieces = []
        while piece := ahead.read(size):
            assert len(piece) <= size
            pieces.append(piece)
        assert b"".join(pieces) == CONTENT
        assert ahead.read(size) == ahead.read(size) == b""


def test_an_error_comes_where_it_belongs_and_again() -> None:
    with Prefetch(Counting(CONTENT, fails_at=2 * CHUNK)) as ahead:
        assert ahead.read(CHUNK) + ahead.read(CHUNK) == CONTENT[: 2 * CHUNK]
        for _ in range(2):
            with pytest.raises(IntegrityError, match="here"):
                ahead.read(CHUNK)


def test_it_reads_no_further_than_it_may() -> None:
    stream = Counting(bytes(CHUNK * 40))
    with Prefetch(stream) as ahead:
        eventually(lambda: stream.reads >= DEPTH, within=30)
        time.sleep(0.1)
        assert stream.reads == DEPTH
        ahead.read(CHUNK)
    assert stream.reads <= DEPTH + 1


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_it_can_be_left_at_any_time(taken: int) -> None:
    with Prefetch(io.BytesIO(CONTENT)) as first, Prefetch(first) as second:
        for _ in range(taken):
            second.read(CHUNK)


def test_what_layers_take_away_is_known_in_order() -> None:
    layers = stack([file(b".wh.x")], [file(b".wh.a"), folder(b"d")], [file(b"b")], [file(b"c/.wh..wh..opq")])
    with WhiteoutPrefetch(layers, ArchiveLimits()) as prefetch:
        found = [prefetch.next() for _ in layers[1:]]
    assert [(one.gone, one.emptied) for one in found] == [({b"a"}, set()), (set(), set()), (set(), {b"c"})]
    assert found[0].directories == {b"d"}


def test_looking_ahead_ends_when_it_is_not_needed_any_more() -> None:
    layers = [layer(archive(file(b"a", bytes(1 << 22))), "plain") for _ in range(20)]
    with WhiteoutPrefetch(layers, ArchiveLimits()):
        pass


def test_what_is_wrong_with_a_layer_is_told_when_it_is_asked_for() -> None:
    layers = [*stack([file(b"a")], [file(b"b")]), layer(b"no archive, and the word .wh. in it")]
    with WhiteoutPrefetch(layers, ArchiveLimits()) as prefetch:
        assert not prefetch.next().gone
        with pytest.raises(IntegrityError, match="ends in the middle"):
            prefetch.next()
