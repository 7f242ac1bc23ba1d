"""Sends single HTTP requests: without redirects, credentials or retries."""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Literal, Protocol

import requests
import requests.utils
import urllib3.exceptions

import sandwright
from sandwright.registry.certificates import certificate_directories, tls_context
from sandwright.registry.connections import Connections
from sandwright.registry.failure import Cancelled, other_length, printable
from sandwright.registry.reference import is_loopback
from sandwright.registry.retries import causes, retry_after
from sandwright.registry.settings import RegistrySettings

CHUNK = 1 << 20

FailureKind = Literal["unreachable", "cut", "untrusted", "plain"]
"""The failure of a request: no answer; cut off; an invalid certificate; no TLS at all."""


class ConnectionBroken(Exception):
    """No complete answer arrived."""

    def __init__(self, reason: str, kind: FailureKind) -> None:
        """`reason` is a clause for messages."""
        self.kind = kind
        super().__init__(reason)


class Body(Protocol):
    """A request body of known length, which can be iterated over again from the start."""

    def __iter__(self) -> Iterator[bytes]: ...
    def __len__(self) -> int: ...


class Transport:
    """Keeps connections to servers open between requests, for all threads of a client."""

    def __init__(self, settings: RegistrySettings) -> None:
        self.patience = settings.patience
        self.reading = Connections()
        self.stopped = self.reading.stopped
        self._verify = settings.trusted(os.environ)
        self._certificates = certificate_directories(os.environ)
        self._adds_authorities = settings.authorities is None
        self._sessions = threading.local()

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: Body | bytes | None = None,
        seconds: float | None = None,
        slow: float | None = None,
    ) -> Response:
        """Send a request, and return before reading the body. Raise ConnectionBroken, Cancelled.

        `seconds` replaces the limits of connecting and of the first byte, `slow` that of a byte alone.
        """
        if self.stopped.is_set():
            raise Cancelled
        try:
            response = self._thread_session(urllib.parse.urlsplit(url)).request(
                method,
                url,
                headers=dict(headers),
                data=body if body is None or len(body) else b"",
                stream=True,
                allow_redirects=False,
                timeout=(seconds or self.patience.connect, seconds or slow or self.patience.stall),
                proxies=self._environment_proxies(url),
                verify=self._verify,
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError) as error:
            if self.stopped.is_set():
                raise Cancelled from error
            raise broken(error) from error
        return Response(self, response)

    def wait(self, seconds: float) -> None:
        """Sleep for some seconds. Raise Cancelled after `stop`."""
        if self.stopped.wait(seconds):
            raise Cancelled

    def stop(self) -> None:
        """End all requests, and refuse new ones."""
        self.reading.stop()

    def _thread_session(self, url: urllib.parse.SplitResult) -> requests.Session:
        """The session of this thread, which has the certificates of a URL's server."""
        session = self._new_or_open_session()
        host = url.netloc.lower()
        if url.scheme == "https" and host not in self._sessions.hosts:
            context = tls_context(host, self._certificates, authorities=self._adds_authorities)
            if context is not None:
                self.reading.use_context(session, host, context)
            self._sessions.hosts.add(host)
        return session

    def _new_or_open_session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._sessions, "session", None)
        if session is None:
            session = self.reading.session()
            session.trust_env = False  # or .netrc would add credentials
            session.headers.clear()
            session.headers.update(
                {"User-Agent": f"sandwright/{sandwright.__version__}", "Accept-Encoding": "identity"}
            )
            self._sessions.session, self._sessions.hosts = session, set()
        return session

    def _environment_proxies(self, url: str) -> dict[str, str]:
        """The proxies of the environment; none for loopback addresses."""
        if is_loopback(urllib.parse.urlsplit(url).hostname or ""):
            return {}
        return dict(requests.utils.get_environ_proxies(url, no_proxy=None))


class Response:
    """An answer with status and headers. `foreign`: it is from another server than the registry's."""

    def __init__(self, transport: Transport, response: requests.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.url = response.url
        self.foreign = False
        self._transport = transport
        self._response = response

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def content_type(self) -> str:
        """The media type, without parameters, in lower case."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def other_length(self, size: int) -> str:
        """The length in the server's headers, for messages, if it is not `size`; else empty."""
        return other_length(self.headers, size)

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in chunks of up to `CHUNK` bytes. Raise ConnectionBroken, Cancelled."""
        pieces = self._transport.reading.pieces(self._response, CHUNK, self._transport.patience.stall)
        try:
            for chunk in pieces:
                yield chunk
                if self._transport.stopped.is_set():
                    raise Cancelled
            if self._transport.stopped.is_set():  # a body of unknown length ends the same way
                raise Cancelled
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            if self._transport.stopped.is_set():
                raise Cancelled from error
            raise broken(error) from error

    def beginning(self, limit: int) -> bytes:
        """Read at most `limit` bytes of the body, and one more. Raise ConnectionBroken, Cancelled."""
        end = time.monotonic() + self._transport.patience.answer
        held: list[bytes] = []
        count = 0
        for chunk in self.chunks():
            held.append(chunk)
            count += len(chunk)
            if count > limit:
                break
            if time.monotonic() > end:
                raise ConnectionBroken(
                    f"its answer took longer than {self._transport.patience.answer:g} s", "cut"
                )
        return b"".join(held)[: limit + 1]

    def finish(self) -> None:
        """Read a short rest, so that the connection can be reused, and close."""
        with contextlib.suppress(ConnectionBroken):
            self.beginning(1 << 16)
        self.close()

    def close(self) -> None:
        """Return the connection to the pool, or close it when some of the body is unread."""
        if self._response.request.method == "HEAD" or self.status == 204:
            with contextlib.suppress(ConnectionBroken, Cancelled):
                self.beginning(0)  # there is nothing, which has to be noticed
        self._response.close()

    def retry_after(self) -> float:
        """The seconds that the server asks to wait, or 0."""
        return retry_after(self.headers.get("Retry-After", ""))


def broken(error: Exception) -> ConnectionBroken:
    """Translate an exception of `requests`, with its innermost reason."""
    chain = list(causes(error))
    inner = chain[-1]
    reason = printable(str(inner)) or type(inner).__name__
    if (
        any(isinstance(each, ssl.SSLCertVerificationError) for each in chain)
        or "CERTIFICATE_VERIFY" in reason
    ):
        return ConnectionBroken(f"its certificate is not good: {reason}", "untrusted")
    if any(mark in reason for mark in ("ALERT_BAD_CERTIFICATE", "ALERT_CERTIFICATE_REQUIRED")):
        return ConnectionBroken("it asks for a client certificate: see containers-certs.d(5)", "untrusted")
    if any(mark in reason for mark in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")):
        return ConnectionBroken("it does not speak TLS", "plain")
    if any(isinstance(each, urllib3.exceptions.NameResolutionError) for each in chain):
        return ConnectionBroken(f"its name is not known here: {_plain_reason(reason)}", "unreachable")
    if any(isinstance(each, _NOBODY) for each in chain):
        return ConnectionBroken(_plain_reason(reason), "unreachable")
    return ConnectionBroken(reason, "cut")


_NOBODY = (
    requests.exceptions.ConnectTimeout,
    requests.exceptions.ProxyError,
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    ConnectionRefusedError,
)


def _plain_reason(reason: str) -> str:
    """A reason without the number of the error, and without the texts that the libraries add."""
    return reason.rpartition("] ")[2].removesuffix(")")
