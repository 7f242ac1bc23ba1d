"""Downloading packages (fetch, cache, retry): a real server on loopback that misbehaves in every way.

Tests of image/download.py: size and SHA-256 of a download, and the failures that are retried.
Tests of image/fetcher.py: cache, store, mirrors.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import socket
import ssl
import sys
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.errors import FetchError, HostError, IntegrityError
from sandwright.image import transfer
from sandwright.image.cache import Cache, default_cache
from sandwright.image.fetch import fetch
from sandwright.image.lock import LockedPackage, PackageGone
from sandwright.image.mirrors import Mirrors
from sandwright.image.transfer import MIRROR_RETRIES
from sandwright.progress import ProgressStep
from support.localhttp import QuietHandler
from support.smallworld import small_world
from support.waiting import until

pytestmark = pytest.mark.timeout(60)

CONTENT = bytes(range(256)) * 4096
QUICK = replace(MIRROR_RETRIES, attempts=3, pause=0.01, longest=0.05, connect=2.0, stall=1.0)

Answer = Callable[["Handler", bytes], None]


def package(name: str = "libfoo", content: bytes = CONTENT, **changes: Any) -> LockedPackage:
    values: dict[str, Any] = {
        "name": name,
        "version": "1.0-1",
        "architecture": "amd64",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "archive": "debian",
        "path": f"pool/main/{name[0]}/{name}/{name}_1.0-1_amd64.deb",
        "source": name,
        "source_version": "1.0-1",
        "installed": 1,
    }
    return LockedPackage(**{**values, **changes})


class Handler(QuietHandler):
    """Answers each path with the test's responses for it, in order; the last one forever."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        path = urllib.parse.unquote(self.path).partition("?")[0]
        self.server.requests.append((path, dict(self.headers)))
        name = Path(path).name.split("_")[0]
        answers = self.server.answers.get(name)
        if not answers:
            missing(self, b"")
            return
        with self.server.lock:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
        answer(self, self.server.contents.get(name, CONTENT))

    def reply(
        self, status: int, body: bytes = b"", *, length: int | str | None = None, **headers: str
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def cut(self) -> None:
        """End the connection in the middle, with a reset."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.close_connection = True
        self.connection.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, list[Answer]] = {}
        self.contents: dict[str, bytes] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.lock = threading.Lock()
        self.released = threading.Event()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/debian"

    def serve(self, name: str, *answers: Answer, content: bytes = CONTENT) -> LockedPackage:
        self.answers[name] = list(answers)
        self.contents[name] = content
        return package(name, content)

    def counts(self) -> Counter[str]:
        return Counter(Path(path).name.split("_")[0] for path, _ in self.requests)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect, because the tests make them do so."""


def whole(handler: Handler, content: bytes) -> None:
    handler.reply(200, content)


def missing(handler: Handler, _: bytes) -> None:
    handler.reply(404)


def in_parts(handler: Handler, content: bytes) -> None:
    """The requested range of the content."""
    start = int(handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
    said = f"bytes {start}-{len(content) - 1}/{len(content)}"
    if start:
        handler.reply(206, content[start:], Content_Range=said)
    else:
        handler.reply(200, content)


def other_part(handler: Handler, content: bytes) -> None:
    handler.reply(206, content[5:], Content_Range=f"bytes 5-{len(content) - 1}/{len(content)}")


def part_without_a_place(handler: Handler, content: bytes) -> None:
    handler.reply(206, content[len(content) // 2 :])


def part_of_something_longer(handler: Handler, content: bytes) -> None:
    half = len(content) // 2
    handler.reply(206, content[half:], Content_Range=f"bytes {half}-{len(content) - 1}/{len(content) + 1}")


def part_of_something_else(handler: Handler, content: bytes) -> None:
    half = len(content) // 2
    said = f"bytes {half}-{len(content) - 1}/{len(content)}"
    handler.reply(206, bytes(len(content) - half), Content_Range=said)


def nothing_from_there(handler: Handler, _: bytes) -> None:
    handler.reply(416)


def removed(handler: Handler, _: bytes) -> None:
    handler.reply(410)


def busy(handler: Handler, _: bytes) -> None:
    handler.reply(503, Retry_After="1")


def forbidden(handler: Handler, _: bytes) -> None:
    handler.reply(403)


def flipped(handler: Handler, content: bytes) -> None:
    middle = len(content) // 2
    handler.reply(200, content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])


def short(handler: Handler, content: bytes) -> None:
    handler.reply(200, content[:-1])


def long(handler: Handler, content: bytes) -> None:
    handler.reply(200, content + b"x")


def cut_off(handler: Handler, content: bytes) -> None:
    handler.reply(200, content[: len(content) // 2], length=len(content))
    handler.cut()


def closed_early(handler: Handler, content: bytes) -> None:
    handler.reply(200, content[: len(content) // 2], length=len(content))
    handler.close_connection = True


def never_ending(handler: Handler, content: bytes) -> None:
    """An endless chunked body without a length."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(10_000):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))


def silent(handler: Handler, content: bytes) -> None:
    handler.reply(200, content[:1000], length=len(content))
    handler.server.released.wait(50)


def mute(handler: Handler, _: bytes) -> None:
    handler.server.released.wait(50)


def dripping(handler: Handler, content: bytes) -> None:
    handler.reply(200, b"", length=len(content))
    with contextlib.suppress(OSError):
        for position in range(len(content)):
            handler.wfile.write(content[position : position + 1])
            if handler.server.released.wait(0.05):
                return


def beginning_for_ever(handler: Handler, _: bytes) -> None:
    with contextlib.suppress(OSError):
        while not handler.server.released.wait(0.05):
            handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def chunk_for_ever(handler: Handler, _: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    with contextlib.suppress(OSError):
        handler.wfile.write(b"1;")
        while not handler.server.released.wait(0.05):
            handler.wfile.write(b"x")


def encoded(handler: Handler, content: bytes) -> None:
    handler.reply(200, content, Content_Encoding="gzip")


def portal(handler: Handler, _: bytes) -> None:
    handler.reply(200, b"<html>Please log in</html>", Content_Type="text/html")


def round_and_round(handler: Handler, _: bytes) -> None:
    handler.reply(302, Location=handler.path)


def elsewhere(handler: Handler, _: bytes) -> None:
    handler.reply(302, Location=handler.path.replace("libfoo", "other"))


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield started
        finally:
            started.released.set()
            started.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def get(
    packages: Sequence[LockedPackage], server: Server, cache: Cache, *others: str, **options: Any
) -> dict[str, Path]:
    bases = (server.base, *others)
    mirrors = Mirrors({"debian": bases, "debian-security": bases})
    return fetch(packages, mirrors=mirrors, cache=cache, **{"patience": QUICK, **options})


def files(cache: Cache) -> list[str]:
    return sorted(path.name for path in cache.root.rglob("*") if path.is_file())


def test_packages_come_and_stay(server: Server, cache: Cache) -> None:
    packages = [server.serve(f"lib{n}", whole, content=CONTENT[n:]) for n in range(20)]
    found = get(packages, server, cache)
    assert {sha256: path.read_bytes() for sha256, path in found.items()} == {
        hashlib.sha256(CONTENT[n:]).hexdigest(): CONTENT[n:] for n in range(20)
    }
    some = packages[7]
    assert found[some.sha256] == cache.root / "sha256" / some.sha256[:2] / some.sha256
    assert files(cache) == sorted(found)
    assert get(packages, server, cache) == found
    assert server.counts() == Counter({f"lib{n}": 1 for n in range(20)})


def test_the_same_bytes_are_fetched_once(server: Server, cache: Cache) -> None:
    one = server.serve("libfoo", whole)
    assert len(get([one, package("libfoo", architecture="all")], server, cache)) == 1
    assert server.counts() == Counter({"libfoo": 1})


def test_nothing_wanted_is_nothing_done(server: Server, cache: Cache) -> None:
    assert get([], server, cache) == {}
    assert not cache.root.exists()


def test_an_address_is_escaped(server: Server, cache: Cache) -> None:
    special = package("libstdc++6", path="pool/main/g/gcc/libstdc++6_1%2~a:b_amd64.deb")
    server.serve("libstdc++6", whole)
    get([special], server, cache)
    assert server.requests[0][0] == "/debian/pool/main/g/gcc/libstdc++6_1%2~a:b_amd64.deb"


def test_what_is_asked_for_is_plain(server: Server, cache: Cache) -> None:
    get([server.serve("libfoo", whole)], server, cache)
    headers = server.requests[0][1]
    assert headers["Accept-Encoding"] == "identity"
    assert headers["User-Agent"].startswith("sandwright/")


def test_an_archive_of_its_own_for_security(server: Server, cache: Cache) -> None:
    fix = server.serve("libfoo", whole)
    mirrors = Mirrors({"debian": ("http://127.0.0.1:9/",), "debian-security": (server.base,)})
    fetch([package("libfoo", archive="debian-security")], mirrors=mirrors, cache=cache, patience=QUICK)
    assert cache.has(fix)
    with pytest.raises(HostError, match=r"^no mirror of the archive 'debian' is known; "):
        fetch([package("libbar", b"x")], mirrors=Mirrors({}), cache=cache, patience=QUICK)


PASSING: dict[str, Answer] = {
    "an error of the server": lambda handler, _: handler.reply(500),
    "a busy server": busy,
    "too many requests": lambda handler, _: handler.reply(429),
    "a connection that is cut": cut_off,
    "a connection that ends early": closed_early,
    "a connection that ends at once": lambda handler, _: handler.cut(),
    "a flipped bit": flipped,
    "a byte less": short,
    "a byte more": long,
    "a page to log in": portal,
    "a server that falls silent": silent,
}


@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING.keys())
def test_what_passes_is_waited_for(server: Server, cache: Cache, failure: Answer) -> None:
    wanted = server.serve("libfoo", failure, whole)
    assert get([wanted], server, cache)[wanted.sha256].read_bytes() == CONTENT
    assert server.counts() == Counter({"libfoo": 2})
    assert files(cache) == [wanted.sha256]


def ranges(server: Server) -> list[str | None]:
    return [headers.get("Range") for _, headers in server.requests]


HALF = f"bytes={len(CONTENT) // 2}-"


@pytest.mark.parametrize("cut", [closed_early, silent], ids=["ended early", "silent"])
def test_a_transfer_that_breaks_off_goes_on_from_there(server: Server, cache: Cache, cut: Answer) -> None:
    wanted = server.serve("libfoo", cut, in_parts)
    assert get([wanted], server, cache)[wanted.sha256].read_bytes() == CONTENT
    assert ranges(server) == [None, "bytes=1000-" if cut is silent else HALF]
    assert files(cache) == [wanted.sha256]


def test_it_goes_on_from_another_mirror(server: Server, cache: Cache) -> None:
    wanted = server.serve("libfoo", closed_early, in_parts)
    with Server() as second:
        thread = threading.Thread(target=second.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            second.serve("libfoo", in_parts)
            assert get([wanted], server, cache, second.base)[wanted.sha256].read_bytes() == CONTENT
            assert (ranges(server), ranges(second)) == ([None], [HALF])
        finally:
            second.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [other_part, part_without_a_place, part_of_something_longer, part_of_something_else, nothing_from_there],
    ids=lambda answer: answer.__name__,
)
def test_a_part_that_does_not_fit_is_begun_anew(server: Server, cache: Cache, answer: Answer) -> None:
    wanted = server.serve("libfoo", closed_early, answer, whole)
    assert get([wanted], server, cache)[wanted.sha256].read_bytes() == CONTENT
    assert ranges(server) == [None, HALF, None]
    assert files(cache) == [wanted.sha256]


SHA, OTHER = hashlib.sha256(CONTENT).hexdigest(), hashlib.sha256(b"").hexdigest()
FLIPPED = hashlib.sha256(CONTENT[:524288] + bytes([CONTENT[524288] ^ 1]) + CONTENT[524289:]).hexdigest()
LASTING: dict[str, tuple[Answer, type[Exception], str, int]] = {
    "an error of the server": (
        lambda handler, _: handler.reply(500),
        FetchError,
        "answered 500 Internal Server Error",
        3,
    ),
    "a busy server": (busy, FetchError, "answered 503 Service Unavailable", 3),
    "a server that denies": (forbidden, FetchError, "answered 403 Forbidden", 1),
    "an answer in part": (
        lambda handler, _: handler.reply(206),
        FetchError,
        "answered 206 Partial Content",
        1,
    ),
    "an answer without content": (
        lambda handler, _: handler.reply(204),
        FetchError,
        "answered 204 No Content",
        1,
    ),
    "a flipped bit": (flipped, IntegrityError, f"has SHA-256 {FLIPPED}, the lock says {SHA}", 3),
    "a byte less": (short, IntegrityError, "has 1048575 bytes, the lock says 1048576", 3),
    "a byte more": (long, IntegrityError, "has 1048577 bytes, the lock says 1048576", 3),
    "no end": (never_ending, IntegrityError, "is longer than the 1048576 bytes that the lock says", 3),
    "a page to log in": (portal, IntegrityError, "has 26 bytes, the lock says 1048576", 3),
    "a redirection to nowhere": (
        lambda handler, _: handler.reply(302, Location="http://[::1"),
        FetchError,
        "it redirects to an invalid URL",
        1,
    ),
    "a length of five thousand digits": (
        lambda handler, _: handler.reply(200, length="9" * 5000),
        IntegrityError,
        "has 99999999999999999999… bytes, the lock says 1048576",
        3,
    ),
    "an endless redirection": (round_and_round, FetchError, "it redirects without an end", 31),
}


@pytest.mark.parametrize("case", LASTING.values(), ids=LASTING.keys())
def test_what_lasts_is_an_error(
    server: Server, cache: Cache, case: tuple[Answer, type[Exception], str, int]
) -> None:
    answer, kind, message, requests = case
    wanted = server.serve("libfoo", answer)
    with pytest.raises(kind) as caught:
        get([wanted], server, cache)
    address = f"{server.base}/pool/main/l/libfoo/libfoo_1.0-1_amd64.deb"
    assert str(caught.value) == f"libfoo 1.0-1 (amd64) from {address}: {message}"
    assert server.counts() == Counter({"libfoo": requests})
    assert files(cache) == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("answer", [cut_off, silent, mute, beginning_for_ever, chunk_for_ever])
def test_a_transfer_that_never_works_is_an_error(server: Server, cache: Cache, answer: Answer) -> None:
    wanted = server.serve("libfoo", answer)
    with pytest.raises(
        FetchError, match=r"^libfoo 1\.0-1 \(amd64\) from http://127\.0\.0\.1:\d+/debian/pool/"
    ):
        get([wanted], server, cache, patience=replace(MIRROR_RETRIES, attempts=2, pause=0.01, stall=0.3))
    assert server.counts() == Counter({"libfoo": 2})
    assert files(cache) == []


def test_a_server_that_drips_is_given_up(server: Server, cache: Cache) -> None:
    wanted = server.serve("libfoo", dripping)
    with pytest.raises(FetchError, match=r"came with \d+ bytes per second, which is too slow$"):
        get(
            [wanted],
            server,
            cache,
            patience=replace(MIRROR_RETRIES, attempts=1, stall=5.0, grace=0.3, slowest=1000.0),
        )


def test_no_server_is_an_error(cache: Cache) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        base = f"http://me:secret@127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(FetchError) as caught:
            fetch([package()], mirrors=Mirrors({"debian": (base,)}), cache=cache, patience=QUICK)
    assert "Connection refused" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_content_that_claims_to_be_encoded_is_taken_as_it_is(server: Server, cache: Cache) -> None:
    wanted = server.serve("libfoo", encoded)
    assert get([wanted], server, cache)[wanted.sha256].read_bytes() == CONTENT


def test_the_body_of_a_redirection_is_not_read(server: Server, cache: Cache) -> None:
    """The body would fill the memory: no reader needs it and no limit applies."""
    sent: list[int] = []

    def much(handler: Handler, content: bytes) -> None:
        handler.send_response(302)
        handler.send_header("Location", handler.path.replace("libfoo", "other"))
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.close_connection = True
        with contextlib.suppress(OSError):
            for _ in range(64):
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
                sent.append(len(content))

    wanted = server.serve("libfoo", much)
    server.serve("other", whole)
    assert get([wanted], server, cache)[wanted.sha256].read_bytes() == CONTENT
    assert sum(sent) < 32 << 20


def test_a_redirection_is_followed(server: Server, cache: Cache) -> None:
    wanted = server.serve("libfoo", elsewhere)
    server.serve("other", whole)
    assert get([wanted], server, cache)[wanted.sha256].read_bytes() == CONTENT


def test_reading_stops_soon_after_the_promised_size(server: Server, cache: Cache) -> None:
    wanted = server.serve("libfoo", never_ending)
    started = time.monotonic()
    with pytest.raises(IntegrityError):
        get([wanted], server, cache, patience=replace(MIRROR_RETRIES, attempts=1))
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("answer", [missing, removed], ids=["404", "410"])
def test_packages_that_are_gone_are_all_named(server: Server, cache: Cache, answer: Answer) -> None:
    there = server.serve("libfoo", whole)
    gone = [server.serve(name, answer, content=name.encode()) for name in ("liba", "libb")]
    with pytest.raises(PackageGone) as caught:
        get([gone[0], there, gone[1]], server, cache)
    assert caught.value.packages == tuple(gone)
    assert str(caught.value) == (
        f"no longer on {server.base}: liba 1.0-1 (amd64), libb 1.0-1 (amd64); "
        "lock again with 'sandwright lock-images'"
    )
    assert server.counts() == Counter({"liba": 1, "libb": 1, "libfoo": 1})
    assert files(cache) == [there.sha256]


class TestSeveralMirrors:
    @pytest.fixture
    def second(self) -> Iterator[Server]:
        with Server() as started:
            thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield started
            finally:
                started.released.set()
                started.shutdown()
                thread.join()

    @pytest.mark.parametrize("answer", [missing, forbidden, flipped, cut_off, busy])
    def test_the_second_has_what_the_first_has_not(
        self, server: Server, second: Server, cache: Cache, answer: Answer
    ) -> None:
        wanted = server.serve("libfoo", answer)
        second.serve("libfoo", whole)
        assert get([wanted], server, cache, second.base)[wanted.sha256].read_bytes() == CONTENT
        assert (server.counts(), second.counts()) == (Counter({"libfoo": 1}), Counter({"libfoo": 1}))

    def test_gone_is_what_all_say(self, server: Server, second: Server, cache: Cache) -> None:
        with pytest.raises(PackageGone, match=f"^no longer on {server.base}, {second.base}: libfoo"):
            get([package()], server, cache, second.base)

    def test_one_that_fails_may_still_have_it(self, server: Server, second: Server, cache: Cache) -> None:
        second.serve("libfoo", busy)
        with pytest.raises(FetchError, match=r"answered 503"):
            get([package()], server, cache, second.base)
        assert (server.counts(), second.counts()) == (Counter({"libfoo": 1}), Counter({"libfoo": 3}))


@pytest.mark.parametrize("rest", [silent, mute], ids=["in the middle", "before the answer"])
def test_a_failure_stops_the_rest(server: Server, cache: Cache, rest: Answer) -> None:
    packages = [server.serve("bad", forbidden, content=b"bad")]
    packages += [server.serve(f"lib{n}", rest, content=CONTENT[n:]) for n in range(10)]
    started = time.monotonic()
    with pytest.raises(FetchError, match=r"^bad 1\.0-1 .* answered 403 Forbidden$"):
        get(packages, server, cache, jobs=3, patience=replace(MIRROR_RETRIES, stall=50.0))
    assert time.monotonic() - started < 30
    assert files(cache) == []


def test_downloads_are_so_many_at_a_time(server: Server, cache: Cache) -> None:
    now, most = [0], [0]
    lock = threading.Lock()

    def counted(handler: Handler, content: bytes) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.05)
        with lock:
            now[0] -= 1
        whole(handler, content)

    get([server.serve(f"lib{n}", counted, content=CONTENT[n:]) for n in range(12)], server, cache, jobs=3)
    assert most == [3]


class TestTheCache:
    def test_a_file_of_another_size_is_fetched_again(self, server: Server, cache: Cache) -> None:
        wanted = server.serve("libfoo", whole)
        path = get([wanted], server, cache)[wanted.sha256]
        path.write_bytes(CONTENT[:-1])
        assert get([wanted], server, cache)[wanted.sha256].read_bytes() == CONTENT
        assert server.counts() == Counter({"libfoo": 2})

    def test_content_is_looked_at_when_asked(self, server: Server, cache: Cache) -> None:
        wanted = server.serve("libfoo", whole)
        path = get([wanted], server, cache)[wanted.sha256]
        path.write_bytes(CONTENT[:-1] + b"x")
        get([wanted], server, cache)
        assert server.counts() == Counter({"libfoo": 1})
        assert get([wanted], server, cache, verify=True)[wanted.sha256].read_bytes() == CONTENT
        assert server.counts() == Counter({"libfoo": 2})
        get([wanted], server, cache, verify=True)
        assert server.counts() == Counter({"libfoo": 2})

    def test_a_link_is_not_a_file(self, server: Server, cache: Cache, tmp_path: Path) -> None:
        wanted = server.serve("libfoo", whole)
        (tmp_path / "elsewhere").write_bytes(b"x" * len(CONTENT))
        path = cache.path(wanted.sha256)
        path.parent.mkdir(parents=True)
        path.symlink_to(tmp_path / "elsewhere")
        assert get([wanted], server, cache)[wanted.sha256].read_bytes() == CONTENT
        assert not path.is_symlink()
        assert (tmp_path / "elsewhere").read_bytes() == b"x" * len(CONTENT)

    def test_what_a_killed_run_left_is_swept(self, server: Server, cache: Cache) -> None:
        wanted = server.serve("libfoo", whole)
        (cache.root / "partial").mkdir(parents=True)
        (cache.root / "partial" / f"{wanted.sha256}.{'0' * 32}").write_bytes(b"half")
        get([wanted], server, cache)
        assert files(cache) == [wanted.sha256]

    def test_what_another_run_writes_stays(self, server: Server, cache: Cache) -> None:
        wanted = server.serve("libfoo", whole)
        with cache.adding(OTHER):
            get([wanted], server, cache)
            assert len(files(cache)) == 2
        assert files(cache) == sorted([wanted.sha256, OTHER])

    def test_an_error_leaves_nothing(self, cache: Cache) -> None:
        with pytest.raises(ValueError, match="no"), cache.adding(SHA) as file:  # noqa: PT012
            file.write(b"half")
            raise ValueError("no")
        assert files(cache) == []

    def test_two_runs_share_it(self, server: Server, cache: Cache) -> None:
        packages = [server.serve(f"lib{n}", whole, content=CONTENT[n:]) for n in range(30)]
        failures: list[BaseException] = []

        def run() -> None:
            try:
                get(packages, server, Cache(cache.root))
            except BaseException as error:  # noqa: BLE001 - told to the test's own thread
                failures.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert files(cache) == sorted(each.sha256 for each in packages)
        assert all(cache.has(each, verify=True) for each in packages)

    def test_a_full_disk_is_told(self, server: Server, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("sandwright.image.cache.os.fsync", full)
        wanted = server.serve("libfoo", whole)
        with pytest.raises(HostError) as caught:
            get([wanted], server, cache)
        assert str(caught.value) == f"cannot write to the cache {cache.root}: No space left on device"
        assert files(cache) == []
        assert server.counts() == Counter({"libfoo": 1})

    def test_a_disk_that_is_full_for_real(self, server: Server) -> None:
        wanted = server.serve("libfoo", whole)
        with small_disk() as disk, pytest.raises(HostError, match=r"No space left on device$"):
            get([wanted], server, Cache(disk / "cache"))

    def test_a_cache_that_can_not_be_made(self, server: Server, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        wanted = server.serve("libfoo", whole)
        with pytest.raises(HostError, match=r"^cannot (write to|read) .*: Not a directory$"):
            get([wanted], server, Cache(tmp_path / "file"))


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    """A file system of half a mebibyte, if we are root; otherwise the test is skipped."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mount = Path("/run") / f"sandwright-test-{os.getpid()}"
    mount.mkdir()
    try:
        made = process.run("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", mount, check=False)
        if not made:
            pytest.skip(f"mount: {made.stderr.strip()}")
        try:
            yield mount
        finally:
            process.run("umount", mount)
    finally:
        mount.rmdir()


KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from sandwright.image.cache import Cache
from sandwright.image.fetch import fetch
from sandwright.image.lock import LockedPackage
from sandwright.image.mirrors import Mirrors
base, root, sha256, size = sys.argv[1:]
wanted = LockedPackage("libfoo", "1.0-1", "amd64", int(size), sha256, "debian",
                 "pool/main/l/libfoo/libfoo_1.0-1_amd64.deb", "libfoo", "1.0-1", 1)
try:
    fetch([wanted], mirrors=Mirrors({"debian": (base,)}), cache=Cache(Path(root)))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("number", "left", "said"), [(signal.SIGKILL, 1, b""), (signal.SIGINT, 0, b"interrupted\n")]
)
def test_a_run_that_is_ended_leaves_nothing_in_the_cache(
    server: Server, cache: Cache, number: signal.Signals, left: int, said: bytes
) -> None:
    wanted = server.serve("libfoo", silent, whole)
    argv = (sys.executable, "-c", KILLED, server.base, cache.root, wanted.sha256, wanted.size)
    with process.start(*map(str, argv)) as running:
        until(lambda: server.requests, "the download never began", within=40)
        time.sleep(0.3)
        running.send_signal(number)
        out, _ = running.communicate(timeout=30)
    assert out == said
    assert len(files(cache)) == left
    assert not cache.has(wanted)
    assert get([wanted], server, cache)[wanted.sha256].read_bytes() == CONTENT
    assert files(cache) == [wanted.sha256]


class TestProxies:
    def test_the_environment_s_is_used(
        self, server: Server, cache: Cache, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", server.base.removesuffix("/debian"))
        server.serve("libfoo", whole)
        fetch(
            [package()],
            mirrors=Mirrors({"debian": ("http://one.invalid/debian",)}),
            cache=cache,
            patience=QUICK,
        )
        assert [path for path, _ in server.requests] == [
            "http://one.invalid/debian/pool/main/l/libfoo/libfoo_1.0-1_amd64.deb"
        ]

    def test_apt_s_is_used(self, server: Server, cache: Cache) -> None:
        server.serve("libfoo", whole)
        mirrors = Mirrors(
            {"debian": ("http://one.invalid/debian",)}, {"http": server.base.removesuffix("/debian")}
        )
        fetch([package()], mirrors=mirrors, cache=cache, patience=QUICK)
        assert server.counts() == Counter({"libfoo": 1})

    def test_the_environment_s_comes_before_apt_s(
        self, server: Server, cache: Cache, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("http_proxy", server.base.removesuffix("/debian"))
        server.serve("libfoo", whole)
        mirrors = Mirrors({"debian": ("http://one.invalid/debian",)}, {"http": "http://127.0.0.1:9"})
        fetch([package()], mirrors=mirrors, cache=cache, patience=QUICK)
        assert server.counts() == Counter({"libfoo": 1})


@pytest.mark.needs("openssl")
class TestHttps:
    @pytest.fixture
    def secured(self, server: Server, tmp_path: Path) -> Server:
        """The server with a self-made certificate, `tmp_path/certificate`."""
        certificate, key = tmp_path / "certificate", tmp_path / "key"
        request = ("req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", "-subj", "/CN=test")
        extension = ("-addext", "subjectAltName=IP:127.0.0.1")
        process.run("openssl", *request, *extension, "-keyout", key, "-out", certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.serve("libfoo", whole)
        return server

    def get(self, server: Server, cache: Cache) -> dict[str, Path]:
        mirrors = Mirrors({"debian": (server.base.replace("http:", "https:"),)})
        return fetch([package()], mirrors=mirrors, cache=cache, patience=QUICK)

    def test_whom_the_machine_trusts_is_trusted(
        self, secured: Server, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(transfer, "AUTHORITIES", tmp_path / "certificate")
        assert len(self.get(secured, cache)) == 1

    def test_the_environment_comes_first(
        self, secured: Server, cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "certificate"))
        assert len(self.get(secured, cache)) == 1

    def test_nobody_else_is(self, secured: Server, cache: Cache) -> None:
        with pytest.raises(FetchError, match="certificate verify failed"):
            self.get(secured, cache)


class TestADirectoryAsMirror:
    def test_files_are_copied_and_checked(self, cache: Cache, tmp_path: Path) -> None:
        wanted = package()
        path = tmp_path / "mirror here/debian" / wanted.path
        path.parent.mkdir(parents=True)
        mirrors = Mirrors({"debian": (f"file://{tmp_path}/mirror%20here/debian",)})
        with pytest.raises(PackageGone):
            fetch([wanted], mirrors=mirrors, cache=cache, patience=QUICK)
        path.write_bytes(CONTENT[:-1] + b"x")
        with pytest.raises(IntegrityError, match=r"has SHA-256"):
            fetch([wanted], mirrors=mirrors, cache=cache, patience=QUICK)
        path.write_bytes(CONTENT[:-1])
        with pytest.raises(FetchError, match=r"ended after 1048575 of 1048576 bytes$"):
            fetch([wanted], mirrors=mirrors, cache=cache, patience=QUICK)
        path.write_bytes(CONTENT)
        assert fetch([wanted], mirrors=mirrors, cache=cache)[wanted.sha256].read_bytes() == CONTENT


class Recorded:
    """A `Progress` that remembers."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int | None, str]] = []
        self.done = 0
        self._lock = threading.Lock()

    def step(
        self, label: str, total: int | None = None, *, unit: str = "bytes"
    ) -> AbstractContextManager[ProgressStep]:
        self.steps.append((label, total, unit))
        return contextlib.nullcontext(self)

    def advance(self, amount: int) -> None:
        assert amount > 0
        with self._lock:
            self.done += amount

    def note(self, text: str) -> None:
        raise AssertionError(text)


def test_progress_counts_each_byte_once(server: Server, cache: Cache) -> None:
    packages = [
        server.serve("liba", cut_off, flipped, whole, content=CONTENT[1:]),
        server.serve("libb", whole, content=CONTENT[2:]),
    ]
    progress = Recorded()
    get(packages, server, cache, progress=progress)
    assert progress.steps == [("2 packages", 2 * len(CONTENT) - 3, "bytes")]
    assert progress.done == 2 * len(CONTENT) - 3
    get(packages, server, cache, progress=progress)
    assert len(progress.steps) == 1


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SANDWRIGHT_CACHE": "/c", "XDG_CACHE_HOME": "/x"}, "/c"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/sandwright"),
        ({"XDG_CACHE_HOME": "x"}, "/home/me/.cache/sandwright"),
        ({"SANDWRIGHT_CACHE": ""}, "/home/me/.cache/sandwright"),
        ({"SANDWRIGHT_CACHE": "~/c"}, "/home/me/c"),
    ],
)
def test_where_the_cache_is(
    environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert default_cache(environment) == Path(expected)


def test_packages_in_the_cache_need_no_http_client(tmp_path: Path) -> None:
    """Loading it takes 0.1 s of a build. Registries and mirrors are for missing packages."""
    world = small_world(tmp_path)
    world.build()
    code = (
        "import sys; from pathlib import Path; from sandwright.image.build import build_images\n"
        "from sandwright.image.cache import Cache; from sandwright.image.definition import load_catalogue\n"
        "from sandwright.image.fetcher import Fetcher; images, output, cache = map(Path, sys.argv[1:])\n"
        "supply = Fetcher(Cache(cache), lambda: sys.exit('a package is missing'))\n"
        "build_images(load_catalogue(images), output=output, supply=supply, frozen=True)\n"
        "print([name for name in ('requests', 'urllib3') if name in sys.modules])\n"
    )
    words = (sys.executable, "-c", code, world.images, world.root / "again", world.cache.root)
    assert process.run(*words, timeout=60).text == "[]"
