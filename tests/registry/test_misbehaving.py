"""Registries that lie, break off and redirect: no credentials for others, no wrong digest, uploads resume.

Tests of registry/authorization.py: the token servers that get credentials.
Tests of registry/client.py: no credentials to another origin.
Tests of registry/download.py: a layer's digest, and how a download is resumed.
Tests of registry/push.py.
Tests of registry/repository.py: a manifest's digest.
Tests of registry/upload.py: uploads are resumed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from sandwright.errors import IntegrityError, SandwrightError
from sandwright.registry import upload
from sandwright.registry.client import RegistryClient
from sandwright.registry.credentials import ANONYMOUS, Credential
from sandwright.registry.failure import (
    Denied,
    NotFound,
    RegistryError,
    RegistryOperation,
    Unavailable,
    Unreachable,
    WrongContent,
)
from sandwright.registry.graph import sha256_descriptor
from sandwright.registry.reference import parse_reference
from sandwright.registry.repository import UNSEEN, Repository, open_repository
from sandwright.registry.retries import RetryPolicy
from sandwright.registry.settings import RegistrySettings
from sandwright.registry.upload import Upload
from sandwright.rootfs.descriptor import Descriptor
from support.registryserver import StaticCredentials, make_certificates
from support.standin import (
    Fault,
    Handler,
    StandIn,
    answer,
    basic,
    cut,
    cut_after,
    error,
    honest,
    needs_token,
    stand_in,
)

pytestmark = pytest.mark.timeout(60)

QUICK = RetryPolicy(reach=30.0, connect=30.0, stall=2.0, attempts=3, pause=0.01, longest=2.0, answer=3.0)
MANIFEST = b'{"schemaVersion":2,"config":{},"layers":[]}'
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
BLOB = bytes(range(256)) * 8192
OCTETS = "application/octet-stream"
ME = Credential("the test", "me", "my secret")


@pytest.fixture
def registry() -> Iterator[StandIn]:
    with stand_in() as server:
        yield server


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def settings(registry: StandIn, **more: Any) -> RegistrySettings:
    return RegistrySettings(
        **{"credentials": StaticCredentials(registry.host, ME), "patience": QUICK, **more}
    )


def use(registry: StandIn, work: Callable[[Repository], Any], *, push: bool = True, **more: Any) -> Any:
    reference = parse_reference(f"{registry.host}/a/b:latest")
    with open_repository(reference, settings(registry, **more), push=push) as repository:
        return work(repository)


def fetch(repository: Repository, descriptor: Descriptor | None = None) -> bytes:
    sink = io.BytesIO()
    repository.fetch_blob(descriptor or sha256_descriptor(OCTETS, BLOB), sink)
    return sink.getvalue()


def send(repository: Repository) -> bool:
    return repository.push_blob(sha256_descriptor(OCTETS, BLOB), lambda: io.BytesIO(BLOB))


def send_in_chunks(repository: Repository, content: bytes = BLOB, size: int = 1 << 19) -> None:
    """Send like `push_blob`, in chunks that are small enough for a test."""
    descriptor = sha256_descriptor(OCTETS, content)
    Upload(
        repository.client,
        repository.name,
        repository.scopes,
        descriptor,
        lambda: io.BytesIO(content),
        step=UNSEEN,
        chunk=size,
    ).run()


def held(registry: StandIn) -> None:
    """Store the blob in the registry, and the manifest under the tag `latest`."""
    registry.content.blobs[digest_of(BLOB)] = BLOB
    registry.content.manifests[digest_of(MANIFEST)] = (MANIFEST_TYPE, MANIFEST)
    registry.content.tags["latest"] = digest_of(MANIFEST)


def drip(handler: Handler) -> bool:
    """Start an answer, and never end it."""
    handler.reply(200, b"{", length=100, Content_Type=MANIFEST_TYPE)
    handler.server.released.wait(20)
    return True


def silent(handler: Handler) -> bool:
    handler.server.released.wait(50)
    return True


def much(status: int, sent: list[int], **headers: str) -> Fault:
    """Answer with `MUCH` MiB, and count them as they are sent."""

    def fault(handler: Handler) -> bool:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(MUCH):
                handler.wfile.write(b"%x\r\n%s\r\n" % (1 << 20, bytes(1 << 20)))
                sent.append(1 << 20)
        handler.close_connection = True
        return True

    return fault


def forgetful(last: str) -> Fault:
    """Answer that only this part of an upload has arrived."""

    def fault(handler: Handler) -> bool:
        return answer(202, Location=handler.path, Range=last)(handler)

    return fault


def to_itself(handler: Handler) -> bool:
    return answer(302, Location=handler.path)(handler)


def test_the_control(registry: StandIn) -> None:
    """Without a fault everything works, and each object is requested once."""
    held(registry)
    assert use(registry, lambda it: it.manifest("latest").content) == MANIFEST
    assert use(registry, fetch) == BLOB
    registry.content.blobs.clear()
    assert use(registry, send) is True
    assert registry.content.blobs == {digest_of(BLOB): BLOB}
    assert use(registry, send) is False


MUCH = 64
PAGE = b"<!DOCTYPE html><html><head><title>Log in \x1b[31mhere</title></head><body>" + b"x" * 10_000
MANIFESTS: dict[str, tuple[Fault, type[SandwrightError], str]] = {
    "another document than the digest's": (
        answer(200, b"{}", Content_Type=MANIFEST_TYPE, Docker_Content_Digest=digest_of(MANIFEST)),
        WrongContent,
        "manifest latest: the received content has the digest sha256:44136fa3",
    ),
    "a web page": (
        answer(200, PAGE, Content_Type="text/html; charset=utf-8"),
        RegistryError,
        "it answered with a web page, not with a manifest",
    ),
    "no media type": (answer(200, MANIFEST), RegistryError, "it answered with no media type, no manifest"),
    "Docker's first format": (
        answer(200, b"{}", Content_Type="application/vnd.docker.distribution.manifest.v1+prettyjws"),
        RegistryError,
        "of Docker's first format",
    ),
    "a document without an end": (
        answer(200, b" " * ((4 << 20) + 1), Content_Type=MANIFEST_TYPE),
        RegistryError,
        "the answer is longer than 4 MiB",
    ),
    "a drip": (drip, RegistryError, "no whole answer"),
    "404 in the registry's words": (
        error(404, "MANIFEST_UNKNOWN", "no such \x1b[2Jmanifest"),
        NotFound,
        "404 Not Found: MANIFEST_UNKNOWN: no such [2Jmanifest",
    ),
    "404 by a web page": (
        answer(404, PAGE, Content_Type="text/html"),
        NotFound,
        "404 Not Found: with a web page titled 'Log in [31mhere'",
    ),
    "403": (
        error(403, "DENIED", "not yours"),
        Denied,
        "403 Forbidden: it does not let us: DENIED: not yours",
    ),
    "401 without a word": (answer(401), Denied, "401 Unauthorized: it does not say how to log in"),
    "405": (error(405, "UNSUPPORTED"), RegistryError, "405 Method Not Allowed: it does not do this at all"),
    "a status that there isn't": (answer(799), RegistryError, "799 a status that HTTP does not have"),
    "500 for ever": (error(500, "UNKNOWN", "oh"), RegistryError, "500 Internal Server Error: UNKNOWN: oh"),
    "429 for ever": (
        error(429, "TOOMANYREQUESTS", "slow down"),
        RegistryError,
        "429 Too Many Requests: it was asked too often: TOOMANYREQUESTS: slow down",
    ),
    "cut for ever": (cut, RegistryError, "no whole answer, 3 times"),
    "silence for ever": (silent, RegistryError, "no whole answer, 3 times"),
    "an error that goes on for ever": (
        error(404, "X" * 5000, "y" * 200_000),
        NotFound,
        "404 Not Found",
    ),
    "a redirect without an end": (
        to_itself,
        RegistryError,
        "it redirects more than 5 times",
    ),
    "a redirect to nowhere": (answer(302), RegistryError, "which is not a valid URL"),
    "a redirect to a file": (
        answer(302, Location="file:///etc/passwd"),
        RegistryError,
        "it redirects to 'file:///etc/passwd', which is not a valid URL",
    ),
    "a redirect with a name in it": (
        answer(302, Location="http://root@127.0.0.1/"),
        RegistryError,
        "with a name in it",
    ),
    "a redirect to half an address": (
        answer(302, Location="http://[::1"),
        RegistryError,
        "it redirects to 'http://[::1', which is not a valid URL",
    ),
    "a redirect to a host that can't be one": (
        answer(302, Location="http://a_b/"),
        RegistryError,
        "it redirects to 'http://a_b/', to which plain http may not be spoken",
    ),
    "a redirect to plain http elsewhere": (
        answer(307, Location="http://192.0.2.1/x"),
        RegistryError,
        "to which plain http may not be spoken",
    ),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests(registry: StandIn, name: str) -> None:
    fault, kind, message = MANIFESTS[name]
    held(registry)
    registry.fault("^GET /v2/a/b/manifests/", fault)
    with pytest.raises(kind) as caught:
        use(registry, lambda it: it.manifest("latest"))
    text = str(caught.value)
    assert text.startswith(f"registry {registry.host}, repository a/b: manifest latest: ")
    assert message in text
    assert text.isprintable()
    assert len(text) < 1200


def endless(number: str) -> Fault:
    """Promise a length of five thousand digits, which Python does not convert to a number."""

    def fault(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header(number, "9" * 5000)
        handler.end_headers()
        handler.close_connection = True
        return True

    return fault


BLOBS: dict[str, tuple[Fault, type[SandwrightError], str]] = {
    "other bytes": (
        answer(200, BLOB[::-1]),
        WrongContent,
        f"the received content has the digest {digest_of(BLOB[::-1])}",
    ),
    "one byte too many": (
        answer(200, BLOB + b"x"),
        WrongContent,
        f"has {len(BLOB) + 1} bytes where {len(BLOB)} were promised",
    ),
    "too many, without saying so": (
        lambda handler: _chunked(handler, BLOB + b"x" * 100),
        WrongContent,
        f"is longer than the {len(BLOB)} bytes promised",
    ),
    "too few": (answer(200, BLOB[:-1]), WrongContent, f"has {len(BLOB) - 1} bytes where"),
    "too few, without saying so": (
        lambda handler: _chunked(handler, BLOB[:100]),
        RegistryError,
        f"it ended after 100 of {len(BLOB)} bytes; gave up",
    ),
    "cut for ever": (cut_after(10), RegistryError, f"gave up at 30 of {len(BLOB)} bytes"),
    "a web page": (answer(200, PAGE, Content_Type="text/html"), RegistryError, "with a web page titled"),
    "416 at once": (answer(416), RegistryError, "416"),
    "a part that nobody asked for": (
        answer(206, BLOB[5:], Content_Range=f"bytes 5-{len(BLOB) - 1}/{len(BLOB)}"),
        RegistryError,
        "it answered with another part than it was asked for",
    ),
    "a length without an end": (endless("Content-Length"), WrongContent, f"where {len(BLOB)} were promised"),
    "a part of something larger": (
        answer(206, BLOB, Content_Range=f"bytes 0-{len(BLOB) - 1}/{len(BLOB) + 7}"),
        WrongContent,
        f"has {len(BLOB) + 7} bytes where {len(BLOB)} were promised",
    ),
}


def _chunked(handler: Handler, content: bytes) -> bool:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content))
    return True


@pytest.mark.parametrize("name", BLOBS)
def test_blobs(registry: StandIn, name: str) -> None:
    fault, kind, message = BLOBS[name]
    registry.content.blobs[digest_of(BLOB)] = BLOB
    registry.fault("^GET /v2/a/b/blobs/", fault)
    with pytest.raises(kind) as caught:
        use(registry, fetch)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"registry {registry.host}, repository a/b: blob {digest_of(BLOB)}: ")


PASSES: dict[str, list[Fault]] = {
    "cut once before the answer": [cut, honest],
    "cut in the middle, twice": [cut_after(1000), cut_after(70_000), honest],
    "500 once": [error(500, "UNKNOWN"), honest],
    "502, then 503": [answer(502), answer(503), honest],
    "429 with seconds": [error(429, "TOOMANYREQUESTS", Retry_After="1"), honest],
    "silence once": [silent, honest],
    "cut, and then a registry without ranges": [cut_after(1000), answer(200, BLOB), honest],
    "cut, and then 416": [cut_after(1000), answer(416), honest],
}


def lying_beginning(handler: Handler) -> bool:
    """Begin with wrong bytes, and break off."""
    handler.reply(200, b"?" * 999, length=len(BLOB))
    handler.cut()
    return True


PASSES["parts of different things"] = [lying_beginning, honest]


@pytest.mark.parametrize("name", PASSES)
def test_what_passes(registry: StandIn, name: str) -> None:
    registry.content.blobs[digest_of(BLOB)] = BLOB
    registry.fault("^GET /v2/a/b/blobs/", *PASSES[name])
    assert use(registry, fetch) == BLOB


def cut_cleanly(content: bytes, count: int) -> Fault:
    """Send the beginning, and close the connection cleanly; a reset could discard bytes under way."""

    def fault(handler: Handler) -> bool:
        handler.reply(200, content[:count], length=len(content))
        handler.close_connection = True
        return True

    return fault


@pytest.mark.parametrize("status", [302, 307, 401, 404, 503])
def test_answers_that_are_not_wanted_are_not_read_to_their_end(registry: StandIn, status: int) -> None:
    """The body of a redirect is not read either: no reader needs it, and it would fill the memory."""
    sent: list[int] = []
    registry.fault("^GET /v2/a/b/manifests/", much(status, sent, Location="/elsewhere"), error(404, "GONE"))
    with pytest.raises(RegistryError):
        use(registry, lambda it: it.manifest("latest"))
    assert sum(sent) < 32 << 20


CHUNKED = f"HTTP/1.1 200 OK\r\nContent-Type: {MANIFEST_TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
FRAMES: dict[str, tuple[bytes, bytes]] = {
    "other answers before it": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "its first line": (b"HTTP/1.1 200 O", b"K"),
    "a header": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "the length of a chunk": (CHUNKED + b"1;", b"x"),
    "what follows the last chunk": (CHUNKED + b"0\r\n", b"x: y\r\n"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_an_answer_that_never_begins_to_say_anything(registry: StandIn, name: str) -> None:
    """A byte now and then is not enough: each of these comes before the body, or between its bytes."""
    begun, more = FRAMES[name]

    def fault(handler: Handler) -> bool:
        with contextlib.suppress(OSError):
            handler.wfile.write(begun)
            while not handler.server.released.wait(0.05):
                handler.wfile.write(more)
        handler.close_connection = True
        return True

    registry.content.blobs[digest_of(BLOB)] = BLOB
    registry.fault("^GET /v2/a/b/", *[fault] * 8)
    impatient = replace(QUICK, stall=0.4, attempts=2, answer=30.0)
    begin = time.monotonic()
    for work in (lambda it: it.manifest("latest"), fetch):
        with pytest.raises(RegistryError, match=r"no whole answer|gave up"):
            use(registry, work, patience=impatient)
    assert time.monotonic() - begin < 25


def test_a_token_server_that_redirects_with_much(registry: StandIn) -> None:
    sent: list[int] = []
    registry.fault("^GET /v2/", needs_token(f"http://{registry.host}/token", "t"))
    registry.fault("^GET /token", much(302, sent, Location="/elsewhere"))
    with pytest.raises(RegistryError, match="302 Found"):
        use(registry, lambda it: it.manifest("latest"), credentials=ANONYMOUS)
    assert sum(sent) < 32 << 20


def test_a_download_comes_to_an_end(registry: StandIn) -> None:
    """Each part has many bytes, and all of them are wrong: the download restarts once."""
    large = bytes(4 << 20)
    wrong = sha256_descriptor(OCTETS, b"x" * len(large))
    registry.content.blobs[wrong.digest] = large
    cuts = (cut_cleanly(large, 2 << 20), honest, cut_cleanly(large, 3 << 20), honest) * 8
    registry.fault("^GET /v2/a/b/blobs/", *cuts)
    with pytest.raises(WrongContent, match="the received content has the digest"):
        use(registry, lambda it: fetch(it, wrong))
    assert len(registry.lines("blobs")) <= 2 * QUICK.attempts


def test_416_begins_a_download_anew_only_so_often(registry: StandIn) -> None:
    registry.content.blobs[digest_of(BLOB)] = BLOB
    most = len(BLOB) * 3 // 4
    registry.fault("^GET /v2/a/b/blobs/", *(cut_cleanly(BLOB, most), answer(416)) * 8)
    with pytest.raises(RegistryError, match="gave up"):
        use(registry, fetch)
    assert len(registry.lines("blobs")) <= 2 * QUICK.attempts


def test_a_download_goes_on_where_it_broke_off(registry: StandIn) -> None:
    registry.content.blobs[digest_of(BLOB)] = BLOB
    registry.fault("^GET /v2/a/b/blobs/", cut_after(1000), honest)
    assert use(registry, fetch) == BLOB
    ranges = [each.headers.get("Range") for each in registry.seen if "/blobs/" in each.line]
    assert ranges == [None, "bytes=1000-"]


def test_retry_after_is_granted(registry: StandIn) -> None:
    held(registry)
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    registry.fault("manifests", error(429, "X", Retry_After="1"), error(503, "X", Retry_After=soon), honest)
    begun = time.monotonic()
    assert use(registry, lambda it: it.manifest("latest").content) == MANIFEST
    assert time.monotonic() - begun >= 1.0


def test_retry_after_beyond_our_patience_is_an_answer(registry: StandIn) -> None:
    registry.fault("manifests", error(429, "TOOMANYREQUESTS", "come back tomorrow", Retry_After="86400"))
    with pytest.raises(RegistryError, match="come back tomorrow"):
        use(registry, lambda it: it.manifest("latest"))
    assert len(registry.lines("manifests")) == 1


class TestWhoIsTold:
    """Credentials go to the registry and to its token server, and nowhere else."""

    def test_not_to_where_it_redirects(self, registry: StandIn) -> None:
        with stand_in() as other:
            other.content.blobs[digest_of(BLOB)] = BLOB
            registry.fault("^GET /v2/$", _wants_basic)
            elsewhere = f"http://{other.host}/v2/a/b/blobs/{digest_of(BLOB)}"
            registry.fault("blobs", answer(307, Location=elsewhere))
            assert use(registry, fetch) == BLOB
            assert [each.headers.get("Authorization") for each in other.seen] == [None]
            told = [each.headers.get("Authorization") for each in registry.seen if "blobs" in each.line]
            assert told == [basic("me", "my secret")]  # the control: the login is sent here

    def test_not_to_another_port_either_when_it_asks(self, registry: StandIn) -> None:
        with stand_in() as other:
            other.fault("", _wants_basic)
            registry.fault("^GET /v2/$", _wants_basic)
            registry.fault("blobs", answer(302, Location=f"http://{other.host}/x"))
            with pytest.raises(Denied, match=f"at {other.host}, where it sent us"):
                use(registry, fetch)
            assert [each.headers.get("Authorization") for each in other.seen] == [None]

    def test_not_by_an_upload_that_goes_on_elsewhere(self, registry: StandIn) -> None:
        with stand_in() as other:
            other.content.uploads["x"] = b""
            registry.fault("^GET /v2/$", _wants_basic)
            registry.fault("^POST", answer(202, Location=f"http://{other.host}/v2/a/b/blobs/uploads/x"))
            use(registry, send)
            assert other.content.blobs == {digest_of(BLOB): BLOB}
            assert {each.headers.get("Authorization") for each in other.seen} == {None}

    def test_a_token_for_the_registry_alone(self, registry: StandIn) -> None:
        with stand_in() as tokens, stand_in() as other:
            other.content.blobs[digest_of(BLOB)] = BLOB
            tokens.fault("^GET /token", answer(200, b'{"token": "t0ken", "expires_in": 300}'))
            registry.fault("/v2/$", needs_token(f"http://{tokens.host}/token", "t0ken"))
            registry.fault(
                "blobs", answer(307, Location=f"http://{other.host}/v2/a/b/blobs/{digest_of(BLOB)}")
            )
            assert use(registry, fetch, push=False) == BLOB
            (asked,) = tokens.seen
            assert asked.line == "GET /token?service=stand-in&scope=repository%3Aa%2Fb%3Apull"
            assert asked.headers["Authorization"] == basic("me", "my secret")
            assert [each.headers.get("Authorization") for each in other.seen] == [None]
            told = [each.headers.get("Authorization") for each in registry.seen if "blobs" in each.line]
            assert told == ["Bearer t0ken"]

    def test_a_netrc_is_not_read(
        self, registry: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login root password of-somebody\n")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        held(registry)
        use(registry, lambda it: it.manifest("latest"))
        assert {each.headers.get("Authorization") for each in registry.seen} == {None}


def _wants_basic(handler: Handler) -> bool:
    if handler.headers.get("Authorization"):
        return False
    return answer(401, b"{}", WWW_Authenticate='Basic realm="stand-in"')(handler)


REALMS: dict[str, tuple[str, str]] = {
    "nothing": ("", "which is not a valid URL"),
    "a path": ("/token", "which is not a valid URL"),
    "a file": ("file:///etc/passwd", "which is not a valid URL"),
    "plain http elsewhere": ("http://192.0.2.1/token", "it is not https"),
    "a host that can't be one": ("http://a_b/token", "it is not https"),
    "half an address": ("http://[::1", "which is not a valid URL"),
    "with a name in it": ("https://a@example.com/token", "with more in it than an address should have"),
    "with a control character": ("https://example.com/\x01token", "which is not a valid URL"),
}


@pytest.mark.parametrize("name", REALMS)
def test_token_servers_that_are_not_told_anything(registry: StandIn, name: str) -> None:
    realm, problem = REALMS[name]
    registry.fault("", needs_token(realm, "t"))
    with pytest.raises(RegistryError, match=problem):
        use(registry, lambda it: it.manifest("latest"))


@pytest.mark.parametrize(
    "credential", [ME, Credential("the test", identity_token="refresh me")], ids=["password", "token"]
)
def test_a_login_is_not_sent_to_another_host(registry: StandIn, credential: Credential) -> None:
    """It does not go to an unknown host either that the registry names as its token server."""
    held(registry)
    who = StaticCredentials(registry.host, credential)
    with stand_in() as tokens:
        other = tokens.host.replace("127.0.0.1", "localhost")
        assert other != tokens.host
        tokens.fault("", answer(200, b'{"token": "t"}'))
        registry.fault("", needs_token(f"http://{other}/token", "t"))
        with pytest.raises(RegistryError) as caught:
            use(registry, lambda it: it.manifest("latest"), push=False, credentials=who)
        assert tokens.seen == []
        assert "which is another host: the login from the test is not sent there" in str(caught.value)
        assert "SANDWRIGHT_TOKEN_SERVERS" in str(caught.value)
        use(
            registry, lambda it: it.manifest("latest"),
            push=False, credentials=who, token_servers=frozenset({"localhost"}),
        )  # fmt: skip
        assert len(tokens.seen) == 1
        use(registry, lambda it: it.manifest("latest"), push=False, credentials=ANONYMOUS)
        assert "Authorization" not in tokens.seen[1].headers


@pytest.mark.parametrize(
    ("registry", "realm", "known"),
    [
        ("docker.io", "auth.docker.io", True),
        ("docker.io", "auth.docker.io.example.com", False),
        ("registry.gitlab.com", "gitlab.com", True),
        ("gitlab.com", "registry.gitlab.com", False),
        ("evil.example.com", "auth.docker.io", False),
        ("registry.example.com:5000", "registry.example.com", True),
        ("registry.example.com", "REGISTRY.example.com.", True),
        ("[2001:db8::1]:5000", "2001:db8::1", True),
        ("registry.example.com", "example.com", False),
        ("registry.example.com", "sso.example.org", True),
    ],
)  # fmt: skip
def test_whose_token_servers_are_known(registry: str, realm: str, known: bool) -> None:
    assert (
        RegistrySettings(token_servers=frozenset({"sso.example.org"})).knows_token_server(registry, realm)
        is known
    )


TOKENS: dict[str, tuple[Fault, str]] = {
    "no JSON": (answer(200, b"<html>"), "is not one of a token server"),
    "a list": (answer(200, b"[]"), "is not one of a token server"),
    "no token": (answer(200, b"{}"), "holds no token"),
    "a token of two lines": (answer(200, b'{"token": "a\\r\\nX-Evil: 1"}'), "holds no token"),
    "a token of a megabyte": (answer(200, json.dumps({"token": "a" * (1 << 17)}).encode()), "holds no token"),
    "an answer without an end": (answer(200, b" " * ((1 << 20) + 1)), "is longer than 1048576 bytes"),
    "a redirect": (answer(302, Location="http://127.0.0.1:1/"), "302 Found"),
    "401": (error(401, "UNAUTHORIZED", "incorrect username or password"), "the login of me from the test"),
    "500": (error(500, "UNKNOWN"), "500 Internal Server Error"),
}


@pytest.mark.parametrize("name", TOKENS)
def test_token_servers_that_misbehave(registry: StandIn, name: str) -> None:
    fault, message = TOKENS[name]
    with stand_in() as tokens:
        tokens.fault("", fault)
        registry.fault("", needs_token(f"http://{tokens.host}/token", "t"))
        with pytest.raises(RegistryError) as caught:
            use(registry, lambda it: it.manifest("latest"))
    assert message in str(caught.value)
    assert f"token of {tokens.host}" in str(caught.value)
    assert "my secret" not in str(caught.value)


def test_a_token_that_has_expired_is_renewed(registry: StandIn) -> None:
    held(registry)
    with stand_in() as tokens:
        fresh = [answer(200, json.dumps({"access_token": each}).encode()) for each in ("one", "two")]
        tokens.fault("", *fresh)
        accepted = {"Bearer one"}

        def check(handler: Handler) -> bool:
            if handler.headers.get("Authorization") in accepted:
                return False
            return needs_token(f"http://{tokens.host}/token", "never")(handler)

        registry.fault("", check)

        def twice(repository: Repository) -> None:
            repository.manifest("latest")
            accepted.clear()
            accepted.add("Bearer two")
            repository.manifest("latest")

        use(registry, twice)
        assert len(tokens.seen) == 2


def test_a_token_is_asked_for_once_by_all_threads(registry: StandIn) -> None:
    held(registry)
    with stand_in() as tokens:
        tokens.fault("", answer(200, b'{"token": "t"}'))
        registry.fault("", needs_token(f"http://{tokens.host}/token", "t"))

        def many(repository: Repository) -> None:
            threads = [threading.Thread(target=repository.manifest, args=("latest",)) for _ in range(8)]
            for each in threads:
                each.start()
            for each in threads:
                each.join(20)

        use(registry, many)
        assert len(registry.lines("manifests")) == 8
        assert len(tokens.seen) == 1


def test_an_identity_token_is_exchanged(registry: StandIn) -> None:
    held(registry)
    with stand_in() as tokens:
        tokens.fault("^POST /token$", answer(200, b'{"access_token": "t"}'))
        registry.fault("", needs_token(f"http://{tokens.host}/token", "t"))
        who = StaticCredentials(registry.host, Credential("the test", identity_token="refresh me"))
        use(registry, lambda it: it.manifest("latest"), push=False, credentials=who)
        (asked,) = tokens.seen
        assert asked.body == (
            b"grant_type=refresh_token&client_id=sandwright&service=stand-in"
            b"&scope=repository%3Aa%2Fb%3Apull&refresh_token=refresh+me"
        )
        assert "Authorization" not in asked.headers


class TestUploads:
    """Uploads arrive complete, whatever happens on the way."""

    def test_chunks(self, registry: StandIn) -> None:
        use(registry, send_in_chunks)
        assert registry.content.blobs == {digest_of(BLOB): BLOB}
        ranges = [each.headers["Content-Range"] for each in registry.seen if each.line.startswith("PATCH")]
        assert ranges == ["0-524287", "524288-1048575", "1048576-1572863", "1572864-2097151"]

    @pytest.mark.parametrize(
        "faults",
        [
            pytest.param([honest, cut, honest], id="cut"),
            pytest.param([honest, error(500, "UNKNOWN"), honest], id="500"),
            pytest.param([honest, error(503, "UNAVAILABLE"), honest], id="503"),
            pytest.param([honest, error(429, "TOOMANYREQUESTS", Retry_After="1"), honest], id="429"),
        ],
    )
    def test_a_chunk_that_fails(self, registry: StandIn, faults: list[Fault]) -> None:
        registry.fault("^PATCH", *faults)
        use(registry, send_in_chunks)
        assert registry.content.blobs == {digest_of(BLOB): BLOB}

    def test_a_chunk_of_which_only_a_part_arrived(self, registry: StandIn) -> None:
        def half(handler: Handler) -> bool:
            name = handler.path.rpartition("/")[2].partition("?")[0]
            uploads = handler.server.content.uploads
            uploads[name] += handler.body[: len(handler.body) // 2]
            handler.cut()
            return True

        registry.fault("^PATCH", honest, half, honest)
        use(registry, send_in_chunks)
        assert registry.content.blobs == {digest_of(BLOB): BLOB}
        asked = [each.headers["Content-Range"] for each in registry.seen if each.line.startswith("PATCH")]
        assert asked[:3] == ["0-524287", "524288-1048575", "786432-1310719"]

    def test_416_tells_where_to_go_on(self, registry: StandIn) -> None:
        """The registry lost the last chunk after it had acknowledged it."""

        def forgets(handler: Handler) -> bool:
            handler.honest()
            name = handler.path.rpartition("/")[2].partition("?")[0]
            uploads = handler.server.content.uploads
            uploads[name] = uploads[name][:524288]
            return True

        registry.fault("^PATCH", honest, forgets, honest)
        use(registry, send_in_chunks)
        assert registry.content.blobs == {digest_of(BLOB): BLOB}
        assert len(registry.lines("^GET .*uploads")) == 1

    def test_an_upload_that_is_lost_is_begun_anew(self, registry: StandIn) -> None:
        registry.fault("^PATCH", honest, error(404, "BLOB_UPLOAD_UNKNOWN"), honest)
        use(registry, send_in_chunks)
        assert registry.content.blobs == {digest_of(BLOB): BLOB}
        assert len(registry.lines("^POST")) == 2

    def test_an_upload_that_is_always_lost(self, registry: StandIn) -> None:
        registry.fault("^PUT", error(404, "BLOB_UPLOAD_UNKNOWN"))
        with pytest.raises(RegistryError, match=r"push blob sha256:.*: it lost the upload 3 times"):
            use(registry, send)

    @pytest.mark.parametrize("status", [400, 405, 413, 416, 501])
    def test_a_registry_that_takes_no_chunks(self, registry: StandIn, status: int) -> None:
        registry.fault("^PATCH", error(status, "UNSUPPORTED"))
        use(registry, send_in_chunks)
        assert registry.content.blobs == {digest_of(BLOB): BLOB}
        assert len(registry.lines("^PATCH")) == (2 if status == 413 else 1), "413: once with shorter ones"

    def test_a_front_end_that_takes_only_so_much(
        self, registry: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """First the upload is one request; after 413 it is sent in chunks."""

        def too_long(handler: Handler) -> bool:
            return len(handler.body) > 1 << 20 and error(413, "SIZE_INVALID")(handler)

        monkeypatch.setattr(upload, "SMALL", 1000)
        monkeypatch.setattr(upload, "CHUNK", 1 << 20)
        registry.fault("^P(ATCH|UT)", too_long)
        assert use(registry, send) is True
        assert registry.content.blobs == {digest_of(BLOB): BLOB}
        ranges = [each.headers["Content-Range"] for each in registry.seen if each.line.startswith("PATCH")]
        assert ranges == ["0-2097151", "0-1048575", "1048576-2097151"]

    def test_an_answer_that_is_lost(self, registry: StandIn) -> None:
        def done_and_cut(handler: Handler) -> bool:
            name = handler.path.rpartition("/")[2].partition("?")[0]
            held = handler.server.content.uploads.pop(name) + handler.body
            handler.server.content.blobs[digest_of(held)] = held
            handler.cut()
            return True

        registry.fault("^PUT", done_and_cut)
        assert use(registry, send) is True
        assert len(registry.lines("^PUT")) == 1

    def test_a_registry_that_claims_more_than_it_was_sent(self, registry: StandIn) -> None:
        registry.fault("^PATCH", lambda h: answer(202, Location=h.path, Range="0-99999999")(h))
        with pytest.raises(RegistryError, match="it claims to have 100000000 bytes, and 524288 were sent"):
            use(registry, send_in_chunks)

    @pytest.mark.parametrize("last", ["0-0", "0-1"])
    def test_a_registry_that_forgets_each_chunk(self, registry: StandIn, last: str) -> None:
        """Without a limit, the registry would receive the same bytes again and again."""
        registry.fault("uploads/", honest, *[forgetful(last)] * 40, error(500, "UNKNOWN"))
        with pytest.raises(RegistryError, match=r"it has [02] bytes after 5242\d\d were sent"):
            use(registry, send_in_chunks)
        assert len(registry.lines("^PATCH")) == QUICK.attempts

    def test_a_registry_that_forgets_what_it_had(self, registry: StandIn) -> None:
        """Every other chunk is lost with all before it: some requests succeed, but there is no progress."""
        teeth = [forgetful("0-524287"), error(500, "UNKNOWN"), forgetful("0-0")] * 40
        registry.fault("uploads/", honest, *teeth, error(400, "END"))
        with pytest.raises(RegistryError, match="500"):
            use(registry, send_in_chunks)
        assert len(registry.lines("^PATCH")) == 2 * QUICK.attempts

    def test_a_registry_that_stores_something_else(self, registry: StandIn) -> None:
        registry.fault("^PUT", answer(201, Docker_Content_Digest=digest_of(b"else")))
        with pytest.raises(WrongContent, match="it stored sha256:"):
            use(registry, send)

    def test_no_location(self, registry: StandIn) -> None:
        registry.fault("^POST", answer(202))
        with pytest.raises(RegistryError, match="it does not say where the upload goes on"):
            use(registry, send)

    def test_a_source_that_is_not_what_its_digest_says(self, registry: StandIn) -> None:
        descriptor = sha256_descriptor(OCTETS, BLOB)
        changed = BLOB[:-1] + b"\0"
        with pytest.raises(IntegrityError, match="the content to be sent has the digest"):
            use(registry, lambda it: it.push_blob(descriptor, lambda: io.BytesIO(changed)))
        assert registry.content.blobs == {}
        assert registry.content.uploads == {}, "the upload is called off"

    def test_a_source_that_is_too_short(self, registry: StandIn) -> None:
        descriptor = sha256_descriptor(OCTETS, BLOB)
        with pytest.raises(IntegrityError, match=f"ends after 10 of the {len(BLOB)} bytes promised"):
            use(registry, lambda it: it.push_blob(descriptor, lambda: io.BytesIO(BLOB[:10])))

    def test_a_mount_that_is_refused_is_sent(self, registry: StandIn) -> None:
        registry.fault("mount=", error(403, "DENIED"))
        descriptor = sha256_descriptor(OCTETS, BLOB)
        assert use(
            registry, lambda it: it.push_blob(descriptor, lambda: io.BytesIO(BLOB), mount_from=["c/d"])
        )

    def test_a_mount(self, registry: StandIn) -> None:
        registry.content.blobs[digest_of(BLOB)] = BLOB
        registry.fault("^HEAD", answer(404))
        descriptor = sha256_descriptor(OCTETS, BLOB)
        assert not use(
            registry, lambda it: it.push_blob(descriptor, lambda: io.BytesIO(b""), mount_from=["c/d"])
        )
        assert registry.lines("^POST")[0].startswith("POST /v2/a/b/blobs/uploads/?mount=sha256%3A")


def test_a_blob_with_another_size_is_not_taken_for_ours(registry: StandIn) -> None:
    registry.content.blobs[digest_of(BLOB)] = BLOB[:-1]
    with pytest.raises(WrongContent, match=f"has {len(BLOB) - 1} bytes where {len(BLOB)} were promised"):
        use(registry, send)


def test_a_length_that_no_number_has(registry: StandIn) -> None:
    registry.content.blobs[digest_of(BLOB)] = BLOB
    registry.fault("^HEAD", endless("Content-Length"))
    with pytest.raises(WrongContent, match=f"where {len(BLOB)} were promised"):
        use(registry, send)


def test_a_chunk_that_no_number_has(registry: StandIn) -> None:
    """A registry's minimum chunk size is granted up to a limit."""
    least = "0" * 19 + "9" * 5000
    registry.fault("^POST", answer(202, Location="/v2/a/b/blobs/uploads/x", OCI_Chunk_Min_Length=least))
    registry.content.uploads["x"] = b""
    use(registry, send_in_chunks)
    assert registry.content.blobs == {digest_of(BLOB): BLOB}


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "[::1]", "localhost", "a.localhost", "[::ffff:127.0.0.1]"),
        *("127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0", "0.0.0.0", "[::]"),
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_registry_of_elsewhere_sends_nobody_to_this_machine(scheme: str, host: str) -> None:
    """Neither redirects nor the addresses of the next upload or list do so."""
    mine = RegistryClient("registry.example", RegistrySettings(insecure=frozenset({"registry.example"})))
    asked = RegistryOperation("registry.example", "a/b", "blob")
    with pytest.raises(RegistryError, match="which is on this machine, where it has nothing to say"):
        mine.resolve(f"{scheme}://{host}:8080/shutdown", "http://registry.example/v2/", asked)
    own = RegistryClient("localhost:5000", RegistrySettings())
    assert own.resolve(f"{scheme}://{host}:8080/x", "http://localhost:5000/v2/", asked).endswith(":8080/x")


class TestReach:
    """An unreachable registry is noticed within the time limit, instead of after a minute."""

    def test_nobody_listens(self) -> None:
        with stand_in() as server:
            host = server.host
        assert _unreachable(host) < 30

    def test_a_name_that_is_not_known(self) -> None:
        assert _unreachable("registry.invalid") < 30

    def test_names_are_not_answered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The name server's packets are dropped: the C library waits for tens of seconds."""
        import socket  # noqa: PLC0415

        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(60))
        assert _unreachable("registry.example", reach=0.5) < 30

    def test_packets_are_dropped(self) -> None:
        # 192.0.2.0/24 leads nowhere (RFC 5737).
        assert _unreachable("192.0.2.1:5000", reach=1.0) < 30

    def test_somebody_listens_and_says_nothing(self, registry: StandIn) -> None:
        registry.fault("", silent)
        assert _unreachable(registry.host, reach=1.0) < 30


def _unreachable(host: str, reach: float = 2.0) -> float:
    begun = time.monotonic()
    patience = RetryPolicy(reach=reach, connect=60.0, stall=60.0, attempts=3, pause=0.01)
    reference = parse_reference(f"{host}/a/b:latest")
    with (
        pytest.raises(Unreachable),
        open_repository(reference, RegistrySettings(patience=patience)) as repository,
    ):
        repository.manifest("latest")
    return time.monotonic() - begun


@pytest.mark.needs("openssl")
class TestTls:
    """Trust in a registry's certificate."""

    def test_a_certificate_of_an_authority_that_we_were_given(self, tmp_path: Path) -> None:
        made = make_certificates(tmp_path)
        with stand_in(certificate=(made.certificate, made.key)) as registry:
            held(registry)
            found = use(registry, lambda it: it.manifest("latest").content, authorities=made.authority)
            assert found == MANIFEST

    def test_a_certificate_of_another_authority(self, tmp_path: Path) -> None:
        made, other = make_certificates(tmp_path / "a"), make_certificates(tmp_path / "b")
        with stand_in(certificate=(made.certificate, made.key)) as registry:
            for insecure in (frozenset[str](), frozenset({registry.host})):
                with pytest.raises(RegistryError, match="its certificate is not good") as caught:
                    use(
                        registry,
                        lambda it: it.manifest("latest"),
                        authorities=other.authority,
                        insecure=insecure,
                    )
                assert not isinstance(caught.value, Unreachable), "somebody is there, and is not trusted"
                assert isinstance(caught.value, Unavailable)
            assert registry.seen == []

    def test_a_certificate_for_another_name(self, tmp_path: Path) -> None:
        made = make_certificates(tmp_path, names="DNS:registry.example")
        with (
            stand_in(certificate=(made.certificate, made.key)) as registry,
            pytest.raises(RegistryError, match="its certificate is not good"),
        ):
            use(registry, lambda it: it.manifest("latest"), authorities=made.authority)

    def test_a_redirect_that_gives_up_tls(self, tmp_path: Path) -> None:
        made = make_certificates(tmp_path)
        with stand_in(certificate=(made.certificate, made.key)) as registry, stand_in() as plain:
            registry.fault("blobs", answer(307, Location=f"http://{plain.host}/v2/a/b/blobs/x"))
            with pytest.raises(RegistryError, match="which is not https, as it is itself"):
                use(registry, fetch, authorities=made.authority)
            assert plain.seen == []

    def test_a_token_server_without_tls(self, tmp_path: Path) -> None:
        made = make_certificates(tmp_path)
        with stand_in(certificate=(made.certificate, made.key)) as registry, stand_in() as plain:
            registry.fault("", needs_token(f"http://{plain.host}/token", "t"))
            with pytest.raises(RegistryError, match="it is not https"):
                use(registry, lambda it: it.manifest("latest"), authorities=made.authority)
            assert plain.seen == []


def test_plain_http_is_not_spoken_elsewhere() -> None:
    plain = RegistrySettings()
    assert plain.may_be_plain("127.0.0.1:5000")
    assert not plain.may_be_plain("registry.example:5000")
    told = RegistrySettings(insecure=frozenset({"registry.example:5000"}))
    assert told.may_be_plain("registry.example:5000")
    assert not told.may_be_plain("registry.example:5001")


def test_connections_are_used_again(registry: StandIn) -> None:
    held(registry)

    def many(repository: Repository) -> None:
        for _ in range(5):
            assert repository.head("latest")
            assert repository.has_blob(sha256_descriptor(OCTETS, BLOB))
            assert repository.manifest("latest")
            fetch(repository)
            with pytest.raises(NotFound):
                repository.manifest("other")

    use(registry, many)
    assert len({each.client for each in registry.seen}) <= 2, "one to find it, one for the rest"


def test_an_error_in_one_thread_ends_the_others(registry: StandIn) -> None:
    """A push of two blobs, of which one is refused at once and the other would take forever."""
    from sandwright.registry.graph import ImageGraph, ManifestNode  # noqa: PLC0415
    from sandwright.registry.push import push_by_digest  # noqa: PLC0415

    other = b"other"
    registry.fault(f"^HEAD .*{digest_of(other)}", error(403, "DENIED"))
    registry.fault(f"^HEAD .*{digest_of(BLOB)}", silent)
    blobs = (sha256_descriptor(OCTETS, BLOB), sha256_descriptor(OCTETS, other))
    graph = ImageGraph((ManifestNode(sha256_descriptor(MANIFEST_TYPE, MANIFEST), MANIFEST, (), blobs),))
    patient = replace(QUICK, stall=50.0)
    begun = time.monotonic()
    with pytest.raises(Denied):
        use(registry, lambda it: push_by_digest(it, graph, lambda _: io.BytesIO(BLOB)), patience=patient)
    assert time.monotonic() - begun < 30
