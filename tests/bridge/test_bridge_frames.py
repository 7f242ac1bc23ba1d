"""The bridge's protocol: a written frame can be read again, and anything else is refused.

Tests of bridge/frames.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.bridge import frames
from sandwright.bridge.frames import CallRequest, FrameKind, FrameReader, ProtocolError
from support.bridges import encode_request

WORD = st.binary(max_size=40).map(lambda word: word.replace(b"\0", b"x"))


@given(WORD, WORD, st.lists(WORD, max_size=8))
def test_a_request_comes_as_it_was_sent(program: bytes, directory: bytes, arguments: list[bytes]) -> None:
    sent = CallRequest(program, directory, tuple(arguments))
    (frame,) = FrameReader().feed(encode_request(sent))
    assert frames.decode_request(frame.payload) == sent


def test_the_bytes_on_the_wire() -> None:
    """The expected bytes are written by hand: a shim in C sends the same."""
    assert encode_request(CallRequest(b"gh", b"/w", (b"pr",))) == (
        b"\0\0\0\x17\x01\x01\0\0\0\x03\0\0\0\x02gh\0\0\0\x02/w\0\0\0\x02pr"
    )
    assert frames.encode_exit(42) == b"\0\0\0\x02\x13\0\x2a"
    assert frames.encode_exit(-15) == b"\0\0\0\x02\x13\x01\x0f"
    assert frames.encode_refusal(126, "no") == b"\0\0\0\x03\x14\x7eno"
    assert frames.encode_credit(258) == b"\0\0\0\x04\x15\0\0\x01\x02"


@given(
    st.lists(
        st.tuples(st.sampled_from([FrameKind.STDIN, FrameKind.SIGNAL]), st.binary(max_size=50)), max_size=6
    ),
    st.data(),
)
def test_frames_come_whole_however_they_are_cut(
    given_: list[tuple[FrameKind, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(frames.encode_frame(kind, payload) for kind, payload in given_)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FrameReader()
    got = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += [(frame.kind, frame.payload) for frame in reader.feed(stream[start:end])]
    assert got == given_
    assert not reader.midway


@given(st.binary(max_size=400), st.integers(1, 40))
def test_any_bytes_are_frames_or_an_error(stream: bytes, step: int) -> None:
    reader = FrameReader()
    try:
        for start in range(0, len(stream), step):
            for frame in reader.feed(stream[start : start + step]):
                assert frame.kind in frames.FROM_SHIM
                assert len(frame.payload) <= frames.MAX_PAYLOAD
    except ProtocolError:
        return


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"\1\0\0\0\2" + rest))
def test_any_payload_is_a_request_or_an_error(payload: bytes) -> None:
    try:
        request = frames.decode_request(payload)
    except ProtocolError:
        return
    assert encode_request(request) == frames.encode_frame(FrameKind.CALL, payload)


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (b"\xff\xff\xff\xff\x01", "a frame of 4294967295 bytes"),
        (b"\0\x10\0\1\x02", "a frame of 1048577 bytes"),
        (b"\0\0\0\0\x63", "a frame of kind 99"),
        (b"\0\0\0\x02\x13\0\0", "a frame of kind 19"),
        (b"GET / HTTP/1.1\r\n", "a frame of kind 47"),
    ],
)
def test_what_is_no_frame(stream: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        list(FrameReader().feed(stream))


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "version nothing"),
        (b"\2\0\0\0\2", "version 2"),
        (b"\1\0\0", "ends before its words"),
        (b"\1\0\0\0\1\0\0\0\2gh", "a call of 1 words"),
        (b"\1\0\1\0\0", "a call of 65536 words"),
        (b"\1\0\0\0\2\0\0\0\2gh", "ends before its words"),
        (b"\1\0\0\0\2\0\0\0\2gh\0\0\0\xff/w", "a word that ends outside"),
        (b"\1\0\0\0\2\0\0\0\2gh\0\0\0\2/w!", "bytes behind its words"),
        (b"\1\0\0\0\2\0\0\0\3g\0h\0\0\0\2/w", "a word with a NUL"),
    ],
)
def test_what_is_no_request(payload: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        frames.decode_request(payload)
