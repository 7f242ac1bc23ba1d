"""The key that authenticates the render cache, which no sandbox can read (`policy.reserved`).

HMAC-SHA256 (RFC 2104) is implemented here, because importing `hmac` and `hashlib` takes too long for a cached
run.
"""

from __future__ import annotations

import os
import stat
from _operator import _compare_digest  # hmac.compare_digest without importing hmac

from sandwright import digests, user_dirs
from sandwright.errors import HostError

SIZE = 32
MOST = 1 << 24
"""Bytes of a file that is read."""
_BLOCK = 64
_INNER = bytes(each ^ 0x36 for each in range(256))
_OUTER = bytes(each ^ 0x5C for each in range(256))


def file() -> str:
    """The path of the key."""
    return os.path.join(user_dirs.keys(), "render-cache")


def read() -> bytes | None:
    """The key; None where there is none, or one that another user could know."""
    key = private_content(file())
    return key if len(key) == SIZE else None


def private_content(path: str) -> bytes:
    """The content of a regular file that only this user can read or write; empty for any other."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        status = os.fstat(descriptor)
        private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
        if not stat.S_ISREG(status.st_mode) or not private:
            return b""
        with open(descriptor, "rb", closefd=False) as opened:
            return opened.read(MOST)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def make() -> bytes | None:
    """Make a key where there is no usable one, None where that fails. All earlier entries are void."""
    try:
        user_dirs.private(user_dirs.keys())
        part = f"{file()}.{os.getpid()}.{os.urandom(8).hex()}"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as opened:
                opened.write(os.urandom(SIZE))
            if os.path.lexists(file()):
                os.replace(part, file())  # a key that others could know
            else:
                os.link(part, file())  # not over one that another start made meanwhile
        finally:
            try:
                os.unlink(part)
            except FileNotFoundError:
                pass
    except FileExistsError:
        pass
    except (OSError, HostError):
        return None
    return read()


def mac(key: bytes, path: str, body: bytes) -> bytes:
    """The HMAC-SHA256, in hexadecimal, of an entry: of its file's name, so that it holds for no other."""
    padded = key.ljust(_BLOCK, b"\0")
    message = os.fsencode(os.path.basename(path)) + b"\0" + body
    inner = digests.sha256(padded.translate(_INNER) + message)
    return digests.sha256(padded.translate(_OUTER) + bytes.fromhex(inner)).encode()


def is_authentic(stated_mac: bytes, key: bytes, path: str, body: bytes) -> bool:
    """Whether an HMAC is that of an entry; compares in constant time."""
    return bool(_compare_digest(stated_mac, mac(key, path, body)))
