"""Watches objects of a cluster: a list once, and then each change, as the API server reports it.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from sandwright.documents import strictjson
from sandwright.errors import HostError, SandwrightError
from sandwright_kubernetes.connection import MOST, ApiRefused, ApiUnreachable, Connection, Json
from sandwright_kubernetes.objects import rows, text

WATCH = 60
"""Seconds of one watch; the next goes on from where it was."""

SILENCE = 90.0
"""Seconds after which a silent watch is started again."""

PAGE = "200"
"""Objects of one answer to a list: about 1.5 MB of Pods."""

_BREATH = 1.0


@dataclass(frozen=True)
class WatchEvent:
    """An object as it is now, or a lasting error. `removed`: as it was last."""

    kind: str
    item: Json
    removed: bool = False
    error: SandwrightError | None = None


@dataclass(frozen=True)
class Watched:
    """The objects to watch: of one kind, at a path, with the selectors."""

    kind: str
    path: str
    query: Mapping[str, str]


@contextlib.contextmanager
def watching(connection: Connection, watched: Iterable[Watched]) -> Iterator[queue.Queue[WatchEvent]]:
    """Watch for the length of a `with`; changes come in the queue, those of each kind in their order.

    An API server that does not answer is waited for, as long as any request waits for one.
    """
    found: queue.Queue[WatchEvent] = queue.Queue()
    stop = threading.Event()
    for each in watched:
        watcher = _Watcher(connection, each, found, stop)
        threading.Thread(target=watcher.run, name=f"watch-{each.kind}", daemon=True).start()
    try:
        yield found
    finally:
        stop.set()


def list_all(connection: Connection, watched: Watched) -> Iterator[tuple[Json, str]]:
    """The objects that are there, each with the version of its list, in pages."""
    query = {**watched.query, "limit": PAGE}
    while True:
        listed = connection.ask("GET", with_query(watched.path, query))
        version = text(listed, "metadata", "resourceVersion")
        for each in rows(listed, "items"):
            yield each, version
        yield {}, version
        following = text(listed, "metadata", "continue")
        if not following:
            return
        query["continue"] = following


def with_query(path: str, query: Mapping[str, str]) -> str:
    """A path with its query."""
    return f"{path}?{urlencode(query)}"


class _Watcher:
    def __init__(
        self, connection: Connection, watched: Watched, found: queue.Queue[WatchEvent], stop: threading.Event
    ) -> None:
        self._connection = connection
        self._watched = watched
        self._found = found
        self._stop = stop
        self._version = ""

    def run(self) -> None:
        """Until it is stopped, or can't go on."""
        try:
            while not self._stop.is_set():
                self._list()
                while self._version and not self._stop.is_set():
                    self._watch_once()
        except SandwrightError as error:
            self._found.put(WatchEvent(self._watched.kind, {}, error=error))

    def _list(self) -> None:
        for item, version in list_all(self._connection, self._watched):
            self._version = version
            if item:
                self._found.put(WatchEvent(self._watched.kind, item))
        if not self._version:
            raise HostError("the API server's list has no version to watch from")

    def _watch_once(self) -> None:
        """One watch. Forget the version where another list is needed."""
        query = {
            **self._watched.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH),
            "resourceVersion": self._version,
        }
        try:
            with self._connection.stream(self._watched.path, silence=SILENCE, **query) as pieces:
                for line in _split_lines(pieces):
                    if self._stop.is_set() or not self._handle_event(line):
                        return
        except ApiUnreachable:
            self._wait_before_retry()
        except ApiRefused as error:
            if error.status in (401, 403, 404):
                raise
            self._version = ""
            self._wait_before_retry()

    def _handle_event(self, line: bytes) -> bool:
        """Take in one event; False where the watch is over."""
        try:
            event = strictjson.loads_lenient(line)
        except (ValueError, RecursionError):
            event = {}
        item = event.get("object") if isinstance(event, dict) else None
        kind = text(event, "type")
        version = text(item, "metadata", "resourceVersion")
        if not isinstance(item, dict) or kind == "ERROR" or not version:
            self._version = ""
            self._wait_before_retry()
            return False
        self._version = version
        if kind != "BOOKMARK":
            self._found.put(WatchEvent(self._watched.kind, item, removed=kind == "DELETED"))
        return True

    def _wait_before_retry(self) -> None:
        self._stop.wait(_BREATH)


def _split_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream. Raise HostError for one that is larger than an answer may be."""
    pending = bytearray()
    for piece in pieces:
        pending += piece
        *whole, rest = bytes(pending).split(b"\n")
        pending = bytearray(rest)
        yield from filter(None, whole)
        if len(pending) > MOST:
            raise HostError(f"an event of the API server's is larger than {MOST} bytes")
