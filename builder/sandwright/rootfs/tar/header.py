"""The 512-byte blocks of tar: numbers, checksums, and the records of PAX headers, in both directions.

Formats: POSIX.1-1988 (ustar), POSIX.1-2001 (pax), GNU tar's base-256 numbers. Where writers differ, the
reading is that of Go's archive/tar, with which every container runtime reads layers. Each function that
decodes raises ValueError with the reason as its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from zlib import adler32

BLOCK = 512
ZEROS = bytes(BLOCK)
USTAR = b"ustar\x0000"
GNU = b"ustar  \x00"
XATTR = b"SCHILY.xattr."

_OCTAL = re.compile(rb"[ \0]*([0-7]*)[ \0]*")
_LENGTH = re.compile(rb"([1-9][0-9]{0,9}) ")
_SECONDS = re.compile(rb"(-?)([0-9]{1,19})(?:\.([0-9]*))?")


def unsigned_sum(block: bytes) -> int:
    """The sum of a block's bytes, its checksum field taken as spaces.

    The low half of Adler-32 is one plus the sum of the bytes modulo 65521, which 256 bytes can't reach: two
    calls in C instead of a loop over 512 integers.
    """
    first, second = adler32(block[:256]), adler32(block[256:])
    return (first & 0xFFFF) + (second & 0xFFFF) - (adler32(block[148:156]) & 0xFFFF) + 255


def signed_sum(block: bytes) -> int:
    """The sum as early writers computed it, with bytes above 127 taken as negative."""
    high = sum(1 for byte in block[:148] + block[156:] if byte > 127)
    return unsigned_sum(block) - 256 * high


def number(field: bytes) -> int:
    """A numeric field: octal digits between spaces or NULs, or base-256 when its first bit is set."""
    if field[0] & 0x80:
        negative = field[0] & 0x40
        value = int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
        return value - (1 << (8 * len(field) - 1)) if negative else value
    match = _OCTAL.fullmatch(field)
    if match is None:
        raise ValueError(f"a number in its header is {field!r}")
    return int(match[1] or b"0", 8)


def octal(value: int, width: int) -> bytes:
    """`value` in `width` bytes, the last a NUL. Raise ValueError when it does not fit."""
    digits = b"%0*o" % (width - 1, value)
    if value < 0 or len(digits) >= width:
        raise ValueError(f"{value} does not fit in {width - 1} octal digits")
    return digits + b"\0"


def records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The records of a PAX header: `length key=value` and a newline each, the length counting all of it."""
    at = 0
    while at < len(data):
        length = _LENGTH.match(data, at)
        end = at + int(length[1]) if length else 0
        if length is None or end > len(data) or end <= length.end() or data[end - 1] != 0x0A:
            raise ValueError(f"its PAX header has a malformed record at byte {at}")
        key, equals, value = data[length.end() : end - 1].partition(b"=")
        if not equals or not key or b"\0" in key:
            raise ValueError(f"its PAX header has a record without a key at byte {at}")
        yield key, value
        at = end


def record(key: bytes, value: bytes) -> bytes:
    """One PAX record, the inverse of `records`."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def nanoseconds(value: bytes) -> int:
    """A PAX time (decimal seconds with a fraction) in nanoseconds; finer digits are cut off."""
    match = _SECONDS.fullmatch(value)
    if match is None:
        raise ValueError(f"a time in its PAX header is {value[:40]!r}")
    fraction = match[3] or b""
    whole = int(match[2]) * 10**9 + int(fraction[:9].ljust(9, b"0"))
    return -whole if match[1] else whole


def seconds(time_ns: int) -> bytes:
    """A time in nanoseconds as PAX writes it, without needless zeros."""
    whole, fraction = divmod(abs(time_ns), 10**9)
    tail = b".%09d" % fraction if fraction else b""
    return (b"-" if time_ns < 0 else b"") + b"%d" % whole + tail.rstrip(b"0")


def pad(size: int) -> int:
    """The number of bytes after `size` bytes up to the next block."""
    return -size % BLOCK


def checksummed(fields: Iterable[bytes]) -> bytes:
    """A header block of its fields, the checksum put in. The checksum's own field comes as eight spaces."""
    block = b"".join(fields).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]
