"""Requests to AWS: signed inside with a placeholder, and signed again by the proxy with the host's key.

Tests of oci/proxy/sigv4.lua.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from sandwright.egress.inspection import set_values
from sandwright.render.haproxy import SIGNED_BODY
from support.canary import Arrived
from support.http2frames import answer, opening
from support.inspecting import Inspected, Reply, inspected, request
from support.netlab import lab
from support.sigv4 import HOST, Key, Signed, now, verified

pytestmark = pytest.mark.needs("squid", "haproxy", "openssl", "ip", "setpriv")

KEY = f"{HOST}:authorization"
POLICY = f"""
schema: 1
method: bwrap
network:
  mode: proxy
  http:
    - {{host: '{HOST}', methods: [GET, PUT, POST], paths: ['/bucket/**', '/model/*/invoke', '/']}}
credentials:
  http:
    - {{host: '{HOST}', header: authorization, scheme: AWS4-HMAC-SHA256, from: 'env:AWS_SECRET_ACCESS_KEY'}}
"""


REAL = Key("AKIAREALREALREALREAL", "real/secret+0123456789abcdefghijklmnopqr")
INSIDE = Key("QMZTPLACEHOLDERPLACE", "fake/secret+9876543210zyxwvutsrqponmlkji")


@pytest.fixture(scope="module")
def signing(network_lab: None) -> Iterator[Inspected]:
    with lab() as world, inspected(world, POLICY, secrets=False) as found:
        yield found


@pytest.fixture(autouse=True)
def keys(signing: Inspected) -> None:
    give(signing, REAL, INSIDE)


def give(signing: Inspected, real: Key, inside: Key) -> None:
    for file, value in (("secrets.map", real), ("placeholders.map", inside)):
        set_values(signing.folder, file, {KEY: str(value)})


def sent(signing: Inspected, raw: bytes) -> tuple[Reply, list[Arrived]]:
    with signing.arriving() as arrived:
        reply = signing.ask(raw)
    return reply, arrived


DYNAMO = (("x-amz-target", "DynamoDB_20120810.GetItem"), ("content-type", "application/x-amz-json-1.0"))
REQUESTS = {
    "S3, reading": Signed(),
    "S3, a query in another order": Signed(query="versions&prefix=a%2Fb&max-keys=2&a-b=1&a=2"),
    "S3, an escaped path": Signed(path="/bucket/a%20b%2Bc@d,e/x~y"),
    "S3, writing": Signed("PUT", body=b"content", headers=(("content-type", "text/plain"),)),
    "S3, an unsigned body": Signed("PUT", body=b"content", payload="UNSIGNED-PAYLOAD"),
    "S3, headers that are removed": Signed(headers=(("accept-encoding", "identity"), ("te", "x"))),
    "DynamoDB": Signed("POST", "/", service="dynamodb", body=b'{"TableName": "t"}', headers=DYNAMO),
    "a body of nearly a buffer": Signed("POST", "/", service="dynamodb", body=b"x" * 500_000),
    "Bedrock, a path that is escaped twice": Signed(
        "POST", "/model/anthropic.claude%3A0/invoke", service="bedrock", body=b"{}"
    ),
    "no body": Signed("POST", "/", service="sts"),
    "blanks in a header": Signed(headers=(("x-amz-meta-a", "  one   two "),)),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("token", ["", "a+real/session=="], ids=["lasting", "temporary"])
def test_it_is_signed_anew(signing: Inspected, name: str, token: str) -> None:
    signed, real = REQUESTS[name], replace(REAL, token=token)
    inside = replace(INSIDE, token=token and "a+fake/session==")
    give(signing, real, inside)
    reply, [arrived] = sent(signing, signed.request(inside))
    assert reply.status == 200
    assert verified(arrived, real)
    assert arrived.body == signed.body
    for word in (real.name, real.secret, real.token):
        assert not word or word.encode() not in reply.raw  # the upstream echoes each request


def test_in_http2(signing: Inspected) -> None:
    signed = Signed(query="b=2&a=1")
    headers = signed.all_headers(INSIDE)
    given = signed.authorization(INSIDE, sorted(headers), headers)
    pseudo = {
        ":method": "GET",
        ":scheme": "https",
        ":authority": HOST,
        ":path": f"{signed.path}?{signed.query}",
    }
    rest = {name: value for name, value in headers.items() if name != "host"}
    with signing.arriving() as arrived, signing.tunnel(alpn=("h2",)) as connection:
        connection.sendall(opening([*pseudo.items(), *rest.items(), ("authorization", given)]))
        assert answer(connection, 2).status == 200
    assert [verified(each, REAL) for each in arrived] == [True]


def test_a_key_that_becomes_temporary(signing: Inspected) -> None:
    """A rotation: the sandbox still signs without a token."""
    give(signing, replace(REAL, token="new-token"), INSIDE)
    _, [arrived] = sent(signing, Signed().request(INSIDE))
    assert verified(arrived, replace(REAL, token="new-token"))


OTHER = Key("AKIAOFSOMEBODYELSEXX", INSIDE.secret)
LARGE = b"x" * (SIGNED_BODY + 1)
REFUSED: Mapping[str, Callable[[], bytes]] = {
    "another account's key": lambda: Signed().request(OTHER),
    "another secret": lambda: Signed().request(replace(INSIDE, secret=REAL.secret)),
    "the host's own key": lambda: Signed().request(REAL),
    "no signature": lambda: request("/bucket/name", host=HOST),
    "Basic": lambda: request("/bucket/name", "Authorization: Basic eDp5", host=HOST),
    "version 2": lambda: request("/bucket/name", f"Authorization: AWS {INSIDE.name}:c2lnbmF0dXJl", host=HOST),
    "version 4a": lambda: request(
        "/bucket/name", f"Authorization: AWS4-ECDSA-P256-SHA256 Credential={INSIDE.name}/x", host=HOST
    ),
    "a signature in the query": lambda: Signed(query="X-Amz-Credential=x&X-Amz-Signature=0").request(INSIDE),
    "an escaped one": lambda: Signed(query="X%2damz-Signatur%65=0").request(INSIDE),
    "version 2 in the query": lambda: Signed(query=f"AWSAccessKeyId={OTHER.name}").request(INSIDE),
    "another token": lambda: Signed().request(INSIDE, "x-amz-security-token: of-somebody-else"),
    "two signatures": lambda: Signed().request(INSIDE, "Authorization: AWS4-HMAC-SHA256 x"),
    "another path": lambda: Signed().request(INSIDE).replace(b"/bucket/name ", b"/bucket/other "),
    "another method": lambda: Signed().request(INSIDE).replace(b"GET ", b"PUT "),
    "another query": lambda: Signed(query="a=1").request(INSIDE).replace(b"?a=1", b"?a=2"),
    "another header": lambda: Signed(headers=(("x-a", "1"),)).request(INSIDE).replace(b"x-a: 1", b"x-a: 2"),
    "another body": lambda: Signed("POST", "/", service="sts", body=b"a=b").request(INSIDE, body=b"a=c"),
    "a body in signed chunks": lambda: Signed(
        "PUT", payload="STREAMING-AWS4-HMAC-SHA256-PAYLOAD", body=b"x"
    ).request(INSIDE),
    "a long body without a digest": lambda: Signed("POST", "/", service="sts", body=LARGE).request(INSIDE),
    "in twenty minutes": lambda: Signed(time=now(minutes=20)).request(INSIDE),
    "twenty minutes ago": lambda: Signed(time=now(minutes=-20)).request(INSIDE),
    "no time": lambda: Signed().request(INSIDE).replace(b"x-amz-date", b"x-amz-time"),
    "an unsigned host": lambda: Signed().request(INSIDE).replace(b"SignedHeaders=host;", b"SignedHeaders="),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_everything_else_is_refused(signing: Inspected, name: str) -> None:
    reply, arrived = sent(signing, REFUSED[name]())
    assert (reply.status, arrived) == (403, [])
    assert b"sandwright: refused: " in reply.raw
    reply, arrived = sent(signing, Signed().request(INSIDE))  # the control
    assert (reply.status, len(arrived)) == (200, 1)


def test_a_rule_decides_first(signing: Inspected) -> None:
    reply, arrived = sent(signing, Signed(path="/other").request(INSIDE))
    assert (reply.status, arrived) == (403, [])
    assert b"no rule of network.http" in reply.raw
