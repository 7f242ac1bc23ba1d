"""AWS Signature Version 4 in Python: for clients that sign, and for an upstream that verifies requests.

Written from AWS's description ("Create a signed AWS API request"), independently of the proxy's own in Lua.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from support.canary import Arrived
from support.inspecting import API, PORT, request

HOST = f"{API}:{PORT}"


@dataclass(frozen=True)
class Key:
    """A key of AWS; `token` is empty for a permanent one."""

    name: str
    secret: str
    token: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, ("AWS4-HMAC-SHA256", self.name, self.secret, self.token)))


def now(**offset: float) -> str:
    time = datetime.datetime.now(datetime.UTC) + datetime.timedelta(**offset)
    return time.strftime("%Y%m%dT%H%M%SZ")


@dataclass(frozen=True)
class Signed:
    """The signed request, in the terms of AWS's description."""

    method: str = "GET"
    path: str = "/bucket/name"
    query: str = ""
    service: str = "s3"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    time: str = ""
    payload: str = ""

    def canonical_path(self) -> str:
        if self.service == "s3":
            return self.path
        return re.sub(r"[^A-Za-z0-9/._~-]", lambda found: f"%{ord(found[0]):02X}", self.path)

    def authorization(self, key: Key, names: Sequence[str], headers: Mapping[str, str]) -> str:
        lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names)
        pairs = sorted(each.partition("=")[::2] for each in self.query.split("&") if each)
        query = "&".join(f"{name}={value}" for name, value in pairs)
        payload = headers.get("x-amz-content-sha256") or hashlib.sha256(self.body).hexdigest()
        canonical = "\n".join((self.method, self.canonical_path(), query, lines, ";".join(names), payload))
        scope = f"{headers['x-amz-date'][:8]}/eu-central-1/{self.service}/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = "\n".join(("AWS4-HMAC-SHA256", headers["x-amz-date"], scope, digest))
        derived = f"AWS4{key.secret}".encode()
        for word in (*scope.split("/"), text):
            derived = hmac.digest(derived, word.encode(), "sha256")
        return (
            f"AWS4-HMAC-SHA256 Credential={key.name}/{scope}, SignedHeaders={';'.join(names)}, "
            f"Signature={derived.hex()}"
        )

    def all_headers(self, key: Key) -> dict[str, str]:
        found = {"host": HOST, **dict(self.headers), "x-amz-date": self.time or now()}
        if key.token:
            found["x-amz-security-token"] = key.token
        if self.service == "s3":
            found["x-amz-content-sha256"] = self.payload or hashlib.sha256(self.body).hexdigest()
        return found

    def request(self, key: Key, *more: str, body: bytes | None = None) -> bytes:
        headers = self.all_headers(key)
        signature = self.authorization(key, sorted(headers), headers)
        lines = [f"{name}: {value}" for name, value in headers.items() if name != "host"]
        sent = self.body if body is None else body
        length = [f"Content-Length: {len(sent)}"] if sent else []
        target = f"{self.path}?{self.query}" if self.query else self.path
        return request(
            target, *lines, f"Authorization: {signature}", *length, *more, method=self.method, host=HOST,
            body=sent,
        )  # fmt: skip


def verified(arrived: Arrived, key: Key) -> bool:
    """Whether AWS would accept a request from this key."""
    [given] = arrived.header("authorization")
    found = re.search("/([^/]+)/aws4_request, SignedHeaders=([^,]+)", given)
    assert found is not None
    names = found[2].split(";")
    values = {name: ",".join(arrived.header(name)) for name in names}
    assert {"host", "x-amz-date"} <= set(values)
    assert arrived.header("x-amz-security-token") == ([key.token] if key.token else [])
    assert bool(key.token) == ("x-amz-security-token" in values)
    method, target, _ = arrived.line.split(" ")
    path, _, query = target.partition("?")
    signed = Signed(method, path, query, found[1], body=arrived.body)
    return signed.authorization(key, names, values) == given
