"""Sends requests to one registry: connects, logs in, follows redirects without the credentials, retries."""

from __future__ import annotations

import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sandwright.registry.authorization import ELSEWHERE, Authorizer
from sandwright.registry.connections import REDIRECTS
from sandwright.registry.failure import (
    RegistryError,
    RegistryOperation,
    Unavailable,
    Unreachable,
    printable,
    refusal,
)
from sandwright.registry.reference import is_loopback, split_host
from sandwright.registry.retries import TRANSIENT, UNTOUCHED
from sandwright.registry.settings import RegistrySettings, server
from sandwright.registry.transport import Body, ConnectionBroken, Response, Transport

T = TypeVar("T")

MOST_REDIRECTS = 5
LARGEST_REFUSAL = 64 << 10


@dataclass(frozen=True)
class RegistryRequest:
    """A request to a registry. `url` is a path below its address, or a URL that it returned.

    A token for it needs `scopes`. `expect` are the statuses of success. Without `again` the request is
    retried only when the registry did nothing.
    """

    method: str
    url: str
    operation: RegistryOperation
    scopes: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | bytes | None = None
    expect: frozenset[int] = frozenset({200})
    again: bool = True


class RegistryClient:
    """The client of one registry, for all threads. Credentials go to the registry's own origin only."""

    def __init__(self, host: str, settings: RegistrySettings) -> None:
        """`host` is the registry's name in references. Nothing is sent yet."""
        self.host = host
        self.settings = settings
        self.transport = Transport(settings)
        self._authorizer = Authorizer(host, settings, self._send_to_realm)
        self._base: str | None = None
        self._lock = threading.Lock()

    def ready(self) -> str:
        """The registry's base URL, determined once: whether it answers, and whether it speaks TLS.

        That takes at most `RetryPolicy.reach`. Raise Unreachable without an answer, Unavailable for an
        untrusted server.
        """
        with self._lock:
            if self._base is None:
                self._base = self._reach()
            return self._base

    def send(self, request: RegistryRequest) -> Response:
        """Send a request, with retries, until it gets an expected answer.

        Raise RegistryError for any other answer, Unreachable without one.
        """
        base = self.ready()
        whole = replace(request, url=urllib.parse.urljoin(base, request.url))
        return self._expected(whole, self._patiently(lambda: self._authorized(whole), whole))

    def resolve(self, location: str, near: str, operation: RegistryOperation) -> str:
        """The URL of a `Location` header, if it may be followed. Raise RegistryError."""
        url, problem = location, "which is not a valid URL"
        try:
            url = urllib.parse.urljoin(near, location)
            parts = urllib.parse.urlsplit(url)
            _ = parts.port
            if parts.scheme in ("http", "https") and parts.hostname and url.isprintable() and location:
                problem = self._redirect_fault(parts, near)
        except ValueError:
            pass
        if problem:
            raise RegistryError(f"{operation}: it redirects to {printable(url, 120)!r}, {problem}")
        return urllib.parse.urldefrag(url).url

    def is_registry_url(self, url: str) -> bool:
        """Whether a URL is the registry's own, and may receive credentials."""
        return _url_origin(url) == _url_origin(self.ready())

    def _redirect_fault(self, parts: urllib.parse.SplitResult, near: str) -> str:
        if parts.username is not None:
            return "with a name in it"
        if is_loopback(parts.hostname or "") and not is_loopback(split_host(self.host)[0]):
            return ELSEWHERE
        if parts.scheme == "http":
            if near.startswith("https:"):
                return "which is not https, as it is itself"
            if not self.settings.may_be_plain(parts.netloc):
                return "to which plain http may not be spoken"
        return ""

    def _expected(self, request: RegistryRequest, answer: Response) -> Response:
        if answer.status in request.expect:
            return answer
        with answer:
            try:
                body = answer.beginning(LARGEST_REFUSAL)
            except ConnectionBroken:
                body = b""
        note = ""
        if answer.foreign:
            note = f"at {urllib.parse.urlsplit(answer.url).netloc}, where it sent us"
        elif answer.status == 401:
            note = self._authorizer.explain(request.operation)
        raise refusal(request.operation, answer.status, answer.content_type, body, note=note)

    def _authorized(self, request: RegistryRequest) -> Response:
        """Send a request with credentials; repeat it once after a new challenge."""
        scopes = request.scopes
        answer = self._followed(request, self._authorizer.header(request.operation, scopes))
        if answer.status != 401 or answer.foreign:
            return answer
        self._authorizer.forget(scopes)
        named = self._authorizer.challenged(answer.headers, answer.url)
        if named is None:
            return answer
        answer.finish()
        return self._followed(request, self._authorizer.header(request.operation, (*scopes, *named)))

    def _followed(self, request: RegistryRequest, authorization: str | None) -> Response:
        """Send a request and follow redirects, without credentials to another host."""
        url = request.url
        for _ in range(MOST_REDIRECTS + 1):
            stays = self.is_registry_url(url)
            headers = {
                **request.headers,
                **({"Authorization": authorization} if authorization and stays else {}),
            }
            slow = self.settings.patience.commit if request.body else None
            answer = self.transport.send(request.method, url, headers=headers, body=request.body, slow=slow)
            answer.foreign = not stays
            if not self._leads_on(request, answer):
                return answer
            url = self.resolve(answer.headers.get("Location", ""), url, request.operation)
            answer.finish()
        raise RegistryError(f"{request.operation}: it redirects more than {MOST_REDIRECTS} times")

    @staticmethod
    def _leads_on(request: RegistryRequest, answer: Response) -> bool:
        if answer.status not in REDIRECTS or answer.status in request.expect:
            return False
        return request.method in ("GET", "HEAD") or answer.status in (307, 308)

    def _patiently(self, attempt: Callable[[], Response], request: RegistryRequest) -> Response:
        """Retry transient failures. Raise RegistryError with the last failure."""
        patience = self.settings.patience
        for number in range(1, patience.attempts + 1):
            last = number == patience.attempts
            wish = 0.0
            try:
                answer = attempt()
            except ConnectionBroken as problem:
                if last or not request.again or problem.kind in ("untrusted", "plain"):
                    raise self._lost(request.operation, problem, number) from problem
            else:
                passing = answer.status in (TRANSIENT if request.again else UNTOUCHED)
                wish = answer.retry_after() if passing else 0.0
                if not passing or answer.status in request.expect or last or wish > patience.longest:
                    return answer
                answer.finish()
            self.transport.wait(patience.backoff(number, wish))
        raise AssertionError

    def _lost(self, operation: RegistryOperation, problem: ConnectionBroken, attempts: int) -> RegistryError:
        tried = f", {attempts} times" if attempts > 1 else ""
        kind = Unreachable if problem.kind == "unreachable" else Unavailable
        return kind(f"{operation}: no whole answer{tried}: {problem}")

    def _send_to_realm(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Body | bytes | None,
        operation: RegistryOperation,
    ) -> Response:
        request = RegistryRequest(method, url, operation, headers=headers, body=body)
        return self._patiently(lambda: self.transport.send(method, url, headers=headers, body=body), request)

    def _reach(self) -> str:
        patience = self.settings.patience
        try:
            return within(patience.reach, self._find_base)
        except TimeoutError:
            problem = f"no answer within {patience.reach:g} s"
            raise Unreachable(f"cannot reach registry {self.host}: {problem}") from None
        except ConnectionBroken as problem:
            kind = Unavailable if problem.kind in ("untrusted", "plain") else Unreachable
            raise kind(f"cannot reach registry {self.host}: {problem}") from problem

    def _find_base(self) -> str:
        """The base URL that answers. A port speaks one protocol; without one, try https first."""
        name = server(self.host)
        host, port = split_host(name)
        secure, plain = f"https://{name}/", f"http://{name}/"
        if not self.settings.may_be_plain(self.host):
            return self._ping(secure)
        # A plain http server may wait for the rest of a TLS handshake; a TLS server answers plain http.
        first, second = (plain, secure) if port and is_loopback(host) else (secure, plain)
        try:
            return self._ping(first, seconds=self.settings.patience.reach / 2)
        except ConnectionBroken as problem:
            if problem.kind == "untrusted":
                raise
            before = problem
        try:
            return self._ping(second)
        except ConnectionBroken as problem:
            raise (before if problem.kind == "plain" else problem) from problem

    def _ping(self, base: str, *, seconds: float | None = None) -> str:
        """Request the API's root, and read the challenge of a 401. Raise ConnectionBroken."""
        answer = self.transport.send("GET", f"{base}v2/", headers={}, seconds=seconds)
        if answer.status == 400 and base.startswith(
            "http:"
        ):  # the answer of TLS servers of Go and nginx to plain HTTP
            answer.close()
            raise ConnectionBroken("it does not speak plain http", "plain")
        if answer.status == 401:
            self._authorizer.challenged(answer.headers, base)
        answer.finish()
        return base


def within(seconds: float, work: Callable[[], T]) -> T:
    """The result of `work`. Raise TimeoutError when it takes longer, and abandon its thread.

    This is for work that can't be interrupted: the C library bounds the time of name resolution.
    """
    outcome: list[T | BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            outcome.append(error)
        done.set()

    threading.Thread(target=run, name="sandwright-reach", daemon=True).start()
    if not done.wait(seconds):
        raise TimeoutError
    (result,) = outcome
    if isinstance(result, BaseException):
        raise result
    return result


def _url_origin(url: str) -> tuple[str, str, int]:
    parts = urllib.parse.urlsplit(url)
    default = 443 if parts.scheme == "https" else 80
    return parts.scheme, (parts.hostname or "").lower(), parts.port or default
