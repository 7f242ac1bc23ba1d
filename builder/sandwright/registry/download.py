"""Pulls one blob into a file: verified against its digest, bounded, and resumed after an interruption.

Range requests: RFC 9110, 14. A registry that does not do them sends all of it again.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import replace
from typing import BinaryIO

from sandwright.progress import ProgressStep
from sandwright.registry.client import RegistryClient, RegistryRequest
from sandwright.registry.failure import RegistryError, WrongContent, refusal
from sandwright.registry.transport import ConnectionBroken, Response
from sandwright.rootfs.descriptor import Descriptor, check_digest

_ENOUGH = 1 << 20
"""The number of new bytes after which the count of failures starts again."""

_RANGE = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)", re.ASCII)


class ByteProgress:
    """Reports each byte as done once, even when it is transferred again."""

    def __init__(self, step: ProgressStep) -> None:
        self._step = step
        self._reached = 0

    def reach(self, count: int) -> None:
        """Report that `count` bytes from the start are done."""
        if count > self._reached:
            self._step.advance(count - self._reached)
            self._reached = count


class Download:
    """The pull of one blob, which overwrites `sink`, and is verified against the descriptor's digest."""

    def __init__(
        self,
        client: RegistryClient,
        request: RegistryRequest,
        descriptor: Descriptor,
        sink: BinaryIO,
        step: ProgressStep,
    ) -> None:
        self._client = client
        self._request = request
        self._descriptor = descriptor
        self._sink = sink
        self._credit = ByteProgress(step)
        self._at = 0
        self._parts = 0
        self._algorithm = check_digest(descriptor.digest, str(request.operation)).partition(":")[0]
        self._hash = hashlib.new(self._algorithm)

    def run(self) -> None:
        """Fetch the blob. Raise RegistryError, WrongContent; OSError when writing fails."""
        patience = self._client.settings.patience
        self._restart()
        failures, furthest, anew = 0, 0, False
        while self._at < self._descriptor.size:
            try:
                self._part()
            except ConnectionBroken as problem:
                failures = 1 if self._at - furthest >= _ENOUGH else failures + 1
                furthest = max(furthest, self._at)
                if failures >= patience.attempts:
                    reached = f"{self._at} of {self._descriptor.size} bytes"
                    raise RegistryError(
                        f"{self._request.operation}: {problem}; gave up at {reached}"
                    ) from problem
                self._client.transport.wait(patience.backoff(failures))
            whole = self._at == self._descriptor.size
            if whole and not self._is_right() and self._parts > 1 and not anew:
                anew = True  # the parts may be of different files: fetch it again in one
                self._restart()
        if not self._is_right():
            found = f"{self._algorithm}:{self._hash.hexdigest()}"
            raise WrongContent(f"{self._request.operation}: the received content has the digest {found}")

    def _is_right(self) -> bool:
        return self._descriptor.digest == f"{self._algorithm}:{self._hash.hexdigest()}"

    def _restart(self) -> None:
        self._at = self._parts = 0
        self._hash = hashlib.new(self._algorithm)
        self._sink.seek(0)
        self._sink.truncate()

    def _part(self) -> None:
        """Fetch the rest, as far as possible. Raise ConnectionBroken when it ends early."""
        headers = {"Range": f"bytes={self._at}-"} if self._at else {}
        with self._client.send(replace(self._request, headers=headers)) as answer:
            self._check_offset(answer)
            self._parts += 1
            started, begun = time.monotonic(), self._at
            for chunk in answer.chunks():
                self._take_chunk(chunk)
                self._check_speed(self._at - begun, time.monotonic() - started)
        if self._at < self._descriptor.size:
            raise ConnectionBroken(f"it ended after {self._at} of {self._descriptor.size} bytes", "cut")

    def _check_offset(self, answer: Response) -> None:
        """Check that the body starts at our offset. Raise ConnectionBroken to restart."""
        operation, size = self._request.operation, self._descriptor.size
        if answer.content_type == "text/html":
            raise refusal(operation, answer.status, answer.content_type, answer.beginning(1 << 16))
        if answer.status == 416 and self._at:
            self._restart()
            raise ConnectionBroken("it has nothing from there on (416)", "cut")
        if answer.status == 416:
            raise refusal(operation, 416, answer.content_type, answer.beginning(1 << 16))
        if answer.status == 200:
            if length := answer.other_length(size):
                raise WrongContent(f"{operation}: has {length} bytes where {size} were promised")
            if self._at:
                self._restart()
            return
        match = _RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
        if match is None or int(match[1]) != self._at:
            self._restart()
            raise ConnectionBroken("it answered with another part than it was asked for", "cut")
        if match[3] not in ("*", str(size)):
            raise WrongContent(f"{operation}: has {match[3]} bytes where {size} were promised")

    def _take_chunk(self, chunk: bytes) -> None:
        self._at += len(chunk)
        if self._at > self._descriptor.size:
            promised = f"the {self._descriptor.size} bytes promised"
            raise WrongContent(f"{self._request.operation}: is longer than {promised}")
        self._hash.update(chunk)
        self._sink.write(chunk)
        self._credit.reach(self._at)

    def _check_speed(self, count: int, seconds: float) -> None:
        if self._client.settings.patience.is_slow(count, seconds):
            raise ConnectionBroken(
                f"it came with {count / seconds:.0f} bytes per second, which is too slow", "cut"
            )
