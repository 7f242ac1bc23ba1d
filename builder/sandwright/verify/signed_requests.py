"""Requests to AWS that prove that the proxy signs anew only those that the placeholder has signed."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Iterator

HOST = "signed.verify.sandwright.invalid"
"""No host has this name (RFC 6761, 6.4)."""

RULES = f"{{host: {HOST}, methods: [GET], paths: ['/allowed/*']}}"

CREDENTIAL = (
    f"{{host: {HOST}, header: authorization, scheme: AWS4-HMAC-SHA256, from: 'env:AWS_SECRET_ACCESS_KEY'}}"
)

KEYS = ("AWS4-HMAC-SHA256 KEYOFTHEHOST0000 secret-of-verify", "AWS4-HMAC-SHA256 PLACEHOLDER00000 placeholder")
"""The key of the host and its placeholder, as the proxy's maps have them."""

_ID, _SECRET = KEYS[1].split()[1:]
_MINUTES = 60
_PAYLOAD = "UNSIGNED-PAYLOAD"


def allowed_signed_requests() -> Iterator[bytes]:
    """Requests that the placeholder has signed, as programs inside do."""
    yield _signed_request()
    yield _signed_request(query="b=2&a=1")


def refused_signed_requests() -> Iterator[bytes]:
    """Requests without such a signature, and with another account's."""
    good = _signed_request()
    yield _signed_request(identity="KEYOFSOMEBODY000")
    yield _signed_request(secret=_SECRET[::-1])
    yield _signed_request(identity=KEYS[0].split()[1], secret=KEYS[0].split()[2])
    yield _signed_request(offset=20 * _MINUTES)
    yield _signed_request(offset=-20 * _MINUTES)
    yield _signed_request(query="X-Amz-Credential=x&X-Amz-Signature=0")
    yield _signed_request(query="%58-amz-signature=0")
    yield _signed_request(query="AWSAccessKeyId=x&Signature=0")
    for old, new in (
        (b"/allowed/x", b"/allowed/y"),
        (b"/allowed/x", b"/allowed/x?a=1"),
        (b"SignedHeaders=host;", b"SignedHeaders="),
        (b"AWS4-HMAC-SHA256 ", b"AWS4-ECDSA-P256-SHA256 "),
        (b"x-amz-date: ", b"x-amz-time: "),
        (f": {_PAYLOAD}".encode(), b": STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        (b"Connection: close", b"x-amz-security-token: of-somebody\r\nConnection: close"),
        (b"Connection: close", b"Authorization: AWS x:y\r\nConnection: close"),
        (b"Authorization: ", b"X-Other: "),
    ):
        yield good.replace(old, new)


def _signed_request(*, identity: str = _ID, secret: str = _SECRET, query: str = "", offset: int = 0) -> bytes:
    """A request with a signature of version 4 (AWS, "Create a signed AWS API request")."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + offset))
    headers = {"host": HOST, "x-amz-content-sha256": _PAYLOAD, "x-amz-date": stamp}
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    names = ";".join(headers)
    parameters = "&".join(sorted(query.split("&")))
    canonical = "\n".join(("GET", "/allowed/x", parameters, lines, names, _PAYLOAD))
    scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
    text = "\n".join(("AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{secret}".encode()
    for word in (*scope.split("/"), text):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = f"Credential={identity}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    sent = (
        f"GET /allowed/x{f'?{query}' if query else ''} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        f"Authorization: AWS4-HMAC-SHA256 {signature}",
        "Connection: close",
    )
    return ("\r\n".join(sent) + "\r\n\r\n").encode()
