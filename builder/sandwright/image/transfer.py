"""Streams one file from a mirror, and tells transient failures from permanent ones.

Servers are not trusted: one may send another size than promised, stop half-way, answer with errors, or be too
slow. The caller verifies the bytes.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import urllib.parse
from collections.abc import Generator, Iterator
from pathlib import Path

import requests
import requests.utils
import urllib3.exceptions
from requests.auth import AuthBase, HTTPBasicAuth

import sandwright
from sandwright.errors import FetchError, IntegrityError
from sandwright.image.logins import login_for
from sandwright.image.mirrors import Mirrors, redact_address
from sandwright.registry.connections import REDIRECTS, Connections
from sandwright.registry.failure import Cancelled, other_length
from sandwright.registry.retries import TRANSIENT, RetryPolicy, causes, retry_after
from sandwright.registry.settings import AUTHORITIES

CHUNK = 1 << 17
_GONE = (404, 410)
_RANGE = re.compile(r"bytes ([0-9]{1,19})-[0-9]{1,19}/([0-9]{1,19}|\*)", re.ASCII)

MIRROR_RETRIES = RetryPolicy(attempts=4, longest=30.0, connect=10.0, stall=20.0)


class FileGone(Exception):
    """The mirror does not have the file."""


class TransientError(Exception):
    """A failure that a retry may fix, at the earliest in `after` seconds."""

    def __init__(self, message: str, *, after: float = 0.0) -> None:
        """`message` describes the failure, without the address."""
        self.after = after
        super().__init__(message)


class _Anonymous(AuthBase):
    """No credentials. Without this `requests` sends those of netrc(5), over plain http too."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


_ANONYMOUS = _Anonymous()


def _basic_login(name: str, password: str) -> HTTPBasicAuth:
    return HTTPBasicAuth(name.encode(), password.encode())


class Transfer:
    """Reads files for all threads of a fetch. `stop` ends all reads, from any thread."""

    def __init__(self, mirrors: Mirrors, patience: RetryPolicy) -> None:
        self._proxies = dict(mirrors.proxies)
        self._logins = mirrors.logins
        self._patience = patience
        self._sessions = threading.local()
        self._reading = Connections()
        self.stopped = self._reading.stopped

    def stop(self) -> None:
        """End all reads, and refuse new ones."""
        self._reading.stop()

    def read(self, address: str, *, size: int | None, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """The bytes of a file of that size, from `start` on, each piece with the place where it begins.

        With None, the size is not known, and the caller has to bound it.
        A server without support for ranges sends the file from 0. Raise FileGone, TransientError or
        Cancelled; FetchError for a permanent failure; IntegrityError as soon as the size is wrong.
        """
        pieces = _local(address) if address.startswith("file:") else self._remote(address, size, start)
        at, begun, count = 0, time.monotonic(), 0
        with contextlib.closing(pieces):
            for at, chunk in pieces:
                count += len(chunk)
                self._check(size, at + len(chunk), count, time.monotonic() - begun)
                yield at, chunk
                at += len(chunk)  # noqa: PLW2901 - where it has come to, should this be the last
        if size is not None and at < size:
            raise TransientError(f"ended after {at} of {size} bytes")

    def _check(self, size: int | None, reached: int, count: int, seconds: float) -> None:
        if self.stopped.is_set():
            raise Cancelled
        if size is not None and reached > size:
            raise IntegrityError(f"is longer than the {size} bytes that the lock says")
        if self._patience.is_slow(count, seconds):
            raise TransientError(f"came with {count / seconds:.0f} bytes per second, which is too slow")

    def _remote(self, address: str, size: int | None, start: int) -> Generator[tuple[int, bytes], None, None]:
        part = {"Range": f"bytes={start}-"} if start else {}
        try:
            with self._answer(address, {"Accept-Encoding": "identity", **part}) as response:
                at = self._check_answer(response, size, start)
                for chunk in self._reading.pieces(response, CHUNK, self._patience.stall):
                    yield at, chunk
                    at += len(chunk)
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
            raise FetchError(_innermost_reason(error)) from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            if self.stopped.is_set():
                raise Cancelled from error
            raise TransientError(_innermost_reason(error)) from error

    def _answer(self, address: str, headers: dict[str, str]) -> requests.Response:
        """The answer, after redirects, of which no body is read. Raise FetchError where they lead nowhere."""
        session, login = self._http_session(), self._login(address)
        for _ in range(session.max_redirects + 1):
            patience = (self._patience.connect, self._patience.stall)
            response = session.get(address, stream=True, timeout=patience, headers=headers, auth=login)
            location = response.headers.get("Location")
            if response.status_code not in REDIRECTS or not location:
                return response
            response.close()
            try:
                target = urllib.parse.urljoin(address, location.encode("latin-1").decode(errors="replace"))
                if session.should_strip_auth(address, target):  # type: ignore[no-untyped-call]
                    login = _ANONYMOUS
            except ValueError as error:
                raise FetchError("it redirects to an invalid URL") from error
            address = target
        raise FetchError("it redirects without an end")

    def _check_answer(self, response: requests.Response, size: int | None, start: int) -> int:
        """The offset at which the body starts: `start` or 0. Raise for an unusable answer."""
        status = response.status_code
        if status in _GONE:
            raise FileGone
        if status in TRANSIENT:
            after = retry_after(response.headers.get("Retry-After", ""))
            raise TransientError(f"answered {status} {response.reason}", after=after)
        if start and status == 416:
            raise IntegrityError(f"has nothing after {start} of the {size} bytes that the lock says")
        if start and status == 206:
            return _partial_start(response, size, start)
        if status != 200:
            raise FetchError(f"answered {status} {response.reason}")
        if size is not None and (length := other_length(response.headers, size)):
            raise IntegrityError(f"has {length} bytes, the lock says {size}")
        return 0

    def _login(self, address: str) -> AuthBase:
        """The credentials in an address, or apt's for it. They do not follow redirects."""
        if "@" in urllib.parse.urlsplit(address).netloc:
            return _basic_login(*requests.utils.get_auth_from_url(address))
        login = login_for(address, self._logins)
        return _ANONYMOUS if login is None else _basic_login(login.name, login.password)

    def _http_session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._sessions, "session", None)
        if session is None:
            session = self._reading.session()
            session.proxies.update(self._proxies)  # the environment takes precedence
            session.verify = str(AUTHORITIES) if AUTHORITIES.exists() else True  # as does REQUESTS_CA_BUNDLE
            session.headers["User-Agent"] = f"sandwright/{sandwright.__version__}"
            self._sessions.session = session
        return session


def _partial_start(response: requests.Response, size: int | None, start: int) -> int:
    """The offset of a partial answer, which must be `start` (RFC 9110, 14.4)."""
    match = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    if match is None or int(match[1]) != start:
        raise IntegrityError("it answered with another part than it was asked for")
    if match[2] not in ("*", str(size)):
        raise IntegrityError(f"has {match[2]} bytes, the lock says {size}")
    return start


def _local(address: str) -> Generator[tuple[int, bytes], None, None]:
    at = 0
    try:
        with Path(urllib.parse.unquote(urllib.parse.urlsplit(address).path)).open("rb") as file:
            while chunk := file.read(CHUNK):
                yield at, chunk
                at += len(chunk)
    except FileNotFoundError:
        raise FileGone from None
    except OSError as error:
        raise FetchError(str(error.strerror)) from error


def _innermost_reason(error: Exception) -> str:
    """The innermost reason, which is the one that helps users."""
    *_, inner = causes(error)
    return redact_address(str(inner)) or type(inner).__name__
