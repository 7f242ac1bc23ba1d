"""Uploads one blob: mounts it, sends it in one request, or streams it in chunks and resumes.

Protocol: distribution-spec 1.1, "Pushing blobs". Registries differ. Some refuse chunks: the blob is sent as a
whole. Some, or their front-ends, limit bodies of requests (413): chunks get shorter until they pass. Some
lose an upload: it restarts. After a failure the client queries the number of received bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import urllib.parse
from collections.abc import Callable, Iterator
from typing import BinaryIO

from sandwright.errors import IntegrityError, SandwrightError
from sandwright.progress import ProgressStep
from sandwright.registry.client import RegistryClient, RegistryRequest
from sandwright.registry.download import ByteProgress
from sandwright.registry.failure import (
    Cancelled,
    Denied,
    NotFound,
    RegistryError,
    RegistryOperation,
    WrongContent,
    printable,
)
from sandwright.registry.transport import Response, Transport
from sandwright.rootfs.descriptor import Descriptor, check_digest

Source = Callable[[], BinaryIO]
"""Opens the blob for reading, from its start."""

SMALL = 8 << 20
"""Blobs up to this size are sent in one request, which can only be repeated as a whole."""

CHUNK = 64 << 20
"""The size of chunks after a longer request failed: some front-ends limit requests to 100 MB. The first try
sends the whole blob: on a local registry, chunks of this size took a fifth longer."""

LEAST_CHUNK = 256 << 10
"""Chunks are not smaller: nginx, which serves many registries, allows 1 MiB by default."""

LARGEST_CHUNK = 1 << 30
_LONGEST_NUMBER = 19
"""Digits of a number of bytes."""

BEGINNINGS = 3
_PIECE = 1 << 18
_MAY_PASS = frozenset({0, 408, 416, 500, 502, 504})
"""Statuses, 0 for none, after which the upload may resume."""

_TOO_LONG = 413
_NO_CHUNKS = frozenset({400, 405, 411, _TOO_LONG, 415, 416, 501})
"""Answers to a first chunk of registries that accept no chunks."""

_RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,19})", re.ASCII)


class _Lost(Exception):
    """The registry lost the upload."""


class _NoChunks(Exception):
    """The registry accepts no chunks."""


class Upload:
    """The upload of one blob."""

    def __init__(
        self,
        client: RegistryClient,
        repository: str,
        scopes: tuple[str, ...],
        descriptor: Descriptor,
        source: Source,
        *,
        step: ProgressStep,
        chunk: int | None = None,
    ) -> None:
        """`chunk` is the most bytes for one request; None leaves it open."""
        self._client = client
        self._repository = repository
        self._scopes = scopes
        self._descriptor = descriptor
        self._asked = RegistryOperation(client.host, repository, f"push blob {descriptor.digest}")
        self._content = _Content(source, descriptor, self._asked, client.transport)
        self._credit = ByteProgress(step)
        self._chunk = chunk
        self._location = ""
        self._least = 0

    def mount(self, repository: str, scopes: tuple[str, ...]) -> bool:
        """Ask the registry to mount the blob from another repository; return whether it did."""
        query = urllib.parse.urlencode({"mount": self._descriptor.digest, "from": repository})
        try:
            answer = self._start_upload(f"?{query}", scopes, 201, 202)
        except (Denied, NotFound):
            return False  # not readable, or not by us
        if answer.status == 202:
            self._update_location(answer)
        return answer.status == 201

    def run(self) -> None:
        """Send the blob. Raise RegistryError when it is refused, IntegrityError for another digest."""
        chunked = self._descriptor.size > (SMALL if self._chunk is None else self._chunk)
        may_chunk = True
        for _ in range(BEGINNINGS):
            try:
                self._begin()
                if chunked:
                    self._send_chunks()
                else:
                    self._commit_blob(self._content.part(0, self._descriptor.size))
            except _Lost:
                self._location = ""
            except _NoChunks:
                self._location, chunked, may_chunk = "", False, False
            except RegistryError as error:
                if chunked or not may_chunk or not self._shrink(error, self._descriptor.size):
                    raise
                self._location, chunked = "", True
            except IntegrityError:
                self._cancel()
                raise
            else:
                self._credit.reach(self._descriptor.size)
                return
        raise RegistryError(f"{self._asked}: it lost the upload {BEGINNINGS} times")

    def _begin(self) -> None:
        if not self._location:
            self._update_location(self._start_upload("", self._scopes, 202))

    def _start_upload(self, query: str, scopes: tuple[str, ...], *expect: int) -> Response:
        url = f"/v2/{self._repository}/blobs/uploads/{query}"
        request = RegistryRequest("POST", url, self._asked, scopes, body=b"", expect=frozenset(expect))
        with self._client.send(request) as answer:
            answer.finish()
        return answer

    def _update_location(self, answer: Response) -> None:
        """Remember the location where the upload continues."""
        location = answer.headers.get("Location", "")
        if location:
            self._location = self._client.resolve(location, answer.url, self._asked)
        elif not self._location:
            raise RegistryError(f"{self._asked}: it does not say where the upload goes on (no Location)")
        least = answer.headers.get("OCI-Chunk-Min-Length", "")
        if least.isdecimal() and len(least) <= _LONGEST_NUMBER and int(least) <= LARGEST_CHUNK:
            self._least = int(least)

    def _send_chunks(self) -> None:
        """Send the blob in chunks. Failures count until the registry has more than it ever had."""
        at, furthest, troubles = 0, 0, 0
        while at < self._descriptor.size:
            end = self._end_of_chunk(at)
            try:
                at = self._send_chunk(at, end)
            except RegistryError as error:
                troubles += 1
                if self._shrink(error, end - at):
                    troubles = 0
                else:
                    self._consider(error, at, troubles)
                self._client.transport.wait(self._client.settings.patience.pause)
                at = self._received_bytes(end)
            if 0 < min(LEAST_CHUNK, self._descriptor.size - furthest) <= at - furthest:
                furthest, troubles = at, 0
            self._credit.reach(at)
        self._commit_blob(self._content.part(at, at))

    def _end_of_chunk(self, at: int) -> int:
        if self._chunk is None:
            return self._descriptor.size
        return min(at + max(self._chunk, self._least), self._descriptor.size)

    def _shrink(self, error: RegistryError, sent: int) -> bool:
        """Whether a request of `sent` bytes was too long, and the next ones can be, and are made, shorter."""
        smaller = CHUNK if sent > CHUNK else sent // 2
        if error.status != _TOO_LONG or smaller < max(LEAST_CHUNK, self._least):
            return False
        self._chunk = smaller
        return True

    def _consider(self, error: RegistryError, at: int, troubles: int) -> None:
        """Decide how the upload continues after an error; raise it when it can't."""
        if error.status == 404:
            raise _Lost from error
        if self._chunk is None and troubles > 1:
            self._chunk = CHUNK
        if at == 0 and error.status in _NO_CHUNKS:
            raise _NoChunks from error
        if error.status not in _MAY_PASS or troubles >= self._client.settings.patience.attempts:
            raise error

    def _send_chunk(self, at: int, end: int) -> int:
        """Send the bytes from `at` to `end`; return how many the registry has then.

        Raise RegistryError also when it took none of them, or next to none.
        """
        headers = {"Content-Type": "application/octet-stream", "Content-Range": f"{at}-{end - 1}"}
        part = self._content.part(at, end)
        request = RegistryRequest(
            "PATCH", self._location, self._asked, self._scopes, headers, part, frozenset({202}), again=False
        )
        with self._client.send(request) as answer:
            answer.finish()
        self._update_location(answer)
        count = self._reached(answer, end, otherwise=end)
        if count - at < min(LEAST_CHUNK, end - at):
            raise RegistryError(f"{self._asked}: it has {count} bytes after {end} were sent")
        return count

    def _received_bytes(self, sent: int) -> int:
        """Ask the registry how much it has received."""
        request = RegistryRequest(
            "GET", self._location, self._asked, self._scopes, expect=frozenset({200, 202, 204, 400, 404, 416})
        )
        with self._client.send(request) as answer:
            answer.finish()
        if answer.status in (400, 404, 416):
            raise _Lost
        self._update_location(answer)
        return self._reached(answer, sent, otherwise=0)

    def _reached(self, answer: Response, sent: int, *, otherwise: int) -> int:
        """The number of bytes that the registry has, from its `Range: 0-LAST`, which is 0-0 for none."""
        header = answer.headers.get("Range", "").strip()
        match = _RANGE.fullmatch(header)
        if match is None:
            return otherwise
        count = int(match[1]) + 1 if int(match[1]) else 0
        if count > sent:
            raise RegistryError(f"{self._asked}: it claims to have {count} bytes, and {sent} were sent")
        return count

    def _commit_blob(self, rest: _Part) -> None:
        """Send the rest, possibly empty, and commit the blob under its digest."""
        self._content.settle(whole=len(rest) == 0)
        joined = "&" if urllib.parse.urlsplit(self._location).query else "?"
        url = f"{self._location}{joined}{urllib.parse.urlencode({'digest': self._descriptor.digest})}"
        headers = {"Content-Type": "application/octet-stream"}
        request = RegistryRequest(
            "PUT", url, self._asked, self._scopes, headers, rest, frozenset({201, 204}), again=False
        )
        try:
            with self._client.send(request) as answer:
                answer.finish()
        except RegistryError as error:
            if error.status == 404 or error.status in _MAY_PASS:
                if not self._has_arrived():
                    raise _Lost from error
                return
            raise
        header = answer.headers.get("Docker-Content-Digest", "")
        if header and header != self._descriptor.digest:
            raise WrongContent(f"{self._asked}: it stored {printable(header, 100)} in its place")

    def _has_arrived(self) -> bool:
        """Whether it arrived all the same: the answer alone may have been lost."""
        url = f"/v2/{self._repository}/blobs/{self._descriptor.digest}"
        request = RegistryRequest("HEAD", url, self._asked, self._scopes, expect=frozenset({200, 404}))
        with self._client.send(request) as answer:
            return answer.status == 200

    def _cancel(self) -> None:
        if self._location:
            request = RegistryRequest(
                "DELETE", self._location, self._asked, self._scopes, expect=frozenset({200, 204})
            )
            with contextlib.suppress(SandwrightError), self._client.send(request) as answer:
                answer.finish()


class _Content:
    """The content of the upload, hashed on the way. The last bytes are sent only after the digest matches."""

    def __init__(
        self, source: Source, descriptor: Descriptor, operation: RegistryOperation, transport: Transport
    ) -> None:
        self._source = source
        self._transport = transport
        self._descriptor = descriptor
        self._asked = operation
        self._hash = hashlib.new(check_digest(descriptor.digest, str(operation)).partition(":")[0])
        self._hashed = 0

    def part(self, start: int, end: int) -> _Part:
        """The bytes from `start` to `end`."""
        return _Part(self, start, end)

    def read(self, start: int, end: int) -> Iterator[bytes]:
        """The bytes in pieces, from the source. Raise IntegrityError for another size or digest."""
        with self._source() as file:
            file.seek(start)
            at = start
            while at < end:
                if self._transport.stopped.is_set():
                    raise Cancelled
                piece = file.read(min(_PIECE, end - at))
                if not piece:
                    size = self._descriptor.size
                    raise IntegrityError(f"{self._asked}: ends after {at} of the {size} bytes promised")
                if at <= self._hashed < at + len(piece):  # pieces of another attempt begin elsewhere
                    self._hash.update(piece[self._hashed - at :])
                    self._hashed = at + len(piece)
                at += len(piece)
                self.settle(whole=self._hashed == self._descriptor.size)
                yield piece

    def settle(self, *, whole: bool) -> None:
        """With `whole`, raise IntegrityError unless everything was hashed and has the digest."""
        if whole and self._descriptor.digest.partition(":")[2] != self._hash.hexdigest():
            found = f"{self._hash.name}:{self._hash.hexdigest()}"
            raise IntegrityError(f"{self._asked}: the content to be sent has the digest {found}")


class _Part:
    """A range of the content as a request's body."""

    def __init__(self, content: _Content, start: int, end: int) -> None:
        self._content = content
        self._start = start
        self._end = end

    def __len__(self) -> int:
        return self._end - self._start

    def __iter__(self) -> Iterator[bytes]:
        return self._content.read(self._start, self._end)
