"""The way to a cluster's API server: through the official Python client, which reads kubeconfig and logs in.

Objects are plain JSON data. An answer is read up to `MOST` bytes. Unanswered requests are repeated for
`PATIENCE` seconds: the server may be restarting while Pods go on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import urllib3

from sandwright.documents import strictjson
from sandwright.errors import HostError
from sandwright.visible import visible

Json = dict[str, Any]

MOST = 8 << 20
"""Bytes of one answer. etcd takes objects of 1.5 MiB; we list few at a time."""

PATIENCE = 120.0
"""Seconds for which unanswered requests are repeated."""

ANSWER = 10.0
"""Seconds in which it must answer, and go on with an answer."""

EXTRA = "pip install 'sandwright[kubernetes]'"
_PAUSES = (0.2, 0.5, 1.0, 2.0)
_AGAIN = frozenset((429, 500, 502, 503, 504))
_LONGEST = 600


class ApiUnreachable(HostError):
    """The API server does not answer, or its address is unknown."""


class ApiRefused(HostError):
    """The API server refused a request. `status` is HTTP's, `reason` the word of Kubernetes for it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """`message` is the server's."""
        self.status = status
        self.reason = reason
        super().__init__(message or reason or f"HTTP status {status}")


@dataclass(frozen=True)
class Place:
    """The cluster: a kubeconfig as KUBECONFIG names it (empty: the client's default), and its context."""

    kubeconfig: str = ""
    context: str = ""


class Connection:
    """A cluster's API server, as the user of the kubeconfig."""

    def __init__(self, client: Any, cluster: Place) -> None:  # noqa: ANN401 - the client has no types
        """`client` is a `kubernetes.client.ApiClient`."""
        self._client = client
        self.place = cluster

    @property
    def configuration(self) -> Any:  # noqa: ANN401 - the client has no types
        """The server's address and our identity there: a `kubernetes.client.Configuration`."""
        return self._client.configuration

    def ask(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        patience: float = PATIENCE,
        apply: bool = False,
        **query: str,
    ) -> Json:
        """One request, which must be one that can be repeated; give the object.

        `apply` sends the object to be applied by the server. Raise ApiRefused; after `patience`
        ApiUnreachable.
        """
        sent = None if body is None else json.dumps(body, sort_keys=True).encode()
        kind = "application/apply-patch+yaml" if apply else "application/json"
        deadline = time.monotonic() + patience
        for pause in _pauses(deadline):
            try:
                with self._request(method, path, sent, query, kind) as answer:
                    data = _read_bounded(answer)
                    if answer.status not in _AGAIN or pause is None:
                        return _decode_answer(answer.status, data)
            except ApiUnreachable:
                if pause is None:
                    raise
            time.sleep(pause or 0)
        raise AssertionError("the last pause is None")

    @contextmanager
    def stream(self, path: str, *, silence: float, **query: str) -> Iterator[Iterator[bytes]]:
        """The pieces of an answer as they come; one that stays silent for `silence` seconds breaks off.

        Raise ApiRefused, ApiUnreachable.
        """
        with self._request("GET", path, None, query, "application/json", silence=silence) as answer:
            if answer.status != 200:
                _decode_answer(answer.status, _read_bounded(answer))
            yield _read_pieces(answer)

    @contextmanager
    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        query: Mapping[str, str],
        kind: str,
        *,
        silence: float = ANSWER,
    ) -> Iterator[Any]:
        configuration = self._client.configuration
        headers = {"Accept": "application/json", "User-Agent": "sandwright", "Content-Type": kind}
        for each in configuration.auth_settings().values():
            if each["in"] == "header" and each["value"]:
                headers[each["key"]] = each["value"]
        url = f"{configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        limits = urllib3.Timeout(connect=ANSWER, read=silence)
        try:
            answer = self._client.rest_client.pool_manager.request(
                *(method, url),
                body=body,
                headers=headers,
                preload_content=False,
                redirect=False,
                retries=False,
                timeout=limits,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiUnreachable(f"{configuration.host} does not answer: {_one_line(str(error))}") from error
        try:
            yield answer
        except urllib3.exceptions.HTTPError as error:
            raise ApiUnreachable(f"{configuration.host} broke off: {_one_line(str(error))}") from error
        finally:
            answer.close()


def connect(cluster: Place | None = None) -> Connection:
    """The cluster that kubeconfig leads to, or the Pod's own where we are in one. No request is sent yet.

    Raise ApiUnreachable where the client or a kubeconfig is missing.
    """
    try:
        from kubernetes import client, config  # noqa: PLC0415 - an extra
        from kubernetes.config import kube_config  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise ApiUnreachable(f"the Python package `kubernetes` is not installed: {EXTRA}") from error
    settings = client.Configuration()
    chosen = cluster or Place()
    try:
        named = chosen.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
        file = os.pathsep.join(os.path.abspath(os.path.expanduser(each)) for each in named.split(os.pathsep))  # noqa: PTH100, PTH111
        try:
            config.load_kube_config(
                file, chosen.context or None, client_configuration=settings, persist_config=False
            )
            context = chosen.context or kube_config.list_kube_config_contexts(file)[1]["name"]
        except config.ConfigException:
            if chosen.context:
                raise
            config.load_incluster_config(client_configuration=settings)
            file = context = ""
    except (config.ConfigException, OSError, ValueError, KeyError, TypeError) as error:
        raise ApiUnreachable(f"no kubeconfig says where a cluster is: {_one_line(str(error))}") from error
    return Connection(client.ApiClient(settings), Place(file, context))


def _pauses(deadline: float) -> Iterator[float | None]:
    """Seconds to wait after each attempt; None after the last one."""
    index = 0
    while time.monotonic() + (pause := _PAUSES[min(index, len(_PAUSES) - 1)]) < deadline:
        yield pause
        index += 1
    yield None


def _read_bounded(answer: Any) -> bytes:  # noqa: ANN401 - urllib3's
    data: bytes = answer.read(MOST + 1)
    if len(data) > MOST:
        raise HostError(f"the API server's answer is larger than {MOST} bytes")
    return data


def _decode_answer(status: int, data: bytes) -> Json:
    """The object of an answer. Raise ApiRefused for another status than success, HostError for no object."""
    try:
        found = strictjson.loads_lenient(data)
    except (ValueError, RecursionError) as error:
        if not 200 <= status < 300:
            raise ApiRefused(status, "", _one_line(data.decode(errors="replace"))) from error
        raise HostError("the API server's answer is no JSON") from error
    if not isinstance(found, dict):
        raise HostError("the API server's answer is no object")
    if not 200 <= status < 300:
        raise ApiRefused(status, str(found.get("reason", ""))[:64], _one_line(str(found.get("message", ""))))
    return found


def first(pieces: Iterator[bytes], most: int) -> bytes:
    """The first `most` bytes of a stream; no more of it is kept."""
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) >= most:
            break
    return bytes(found[:most])


def last_bytes(pieces: Iterator[bytes], most: int) -> bytes:
    """The last `most` bytes of a stream; no more of it is kept."""
    found = b""
    for piece in pieces:
        found = (found + piece)[-most:]
    return found


def _read_pieces(answer: Any) -> Iterator[bytes]:  # noqa: ANN401 - urllib3's
    while piece := answer.read1(1 << 16):
        yield piece


def _one_line(text: str) -> str:
    """Text by others, in one line that a terminal can show."""
    return visible(" ".join(text.split()))[:_LONGEST]
