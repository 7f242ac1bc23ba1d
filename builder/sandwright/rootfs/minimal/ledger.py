"""Records a growing selection: kept paths with reasons, left-out paths, missing files, open questions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from sandwright.errors import ArchiveRefused
from sandwright.rootfs.minimal import patterns
from sandwright.rootfs.minimal.selection import Question, Reason, Selection, path_text
from sandwright.rootfs.securejoin import ResolvedPath, Root


class Ledger:
    """The state of one selection. `new` are kept paths that were not examined yet, oldest first."""

    def __init__(self, root: Root, drop: Iterable[bytes]) -> None:
        """`drop` are patterns of paths that are never kept."""
        self.new: deque[bytes] = deque()
        self._root = root
        self._drop = tuple(drop)
        self._kept: dict[bytes, dict[Reason, None]] = {}
        self._left_out: dict[bytes, str] = {}
        self._missing: dict[tuple[bytes, bytes], str] = {}
        self._asked: dict[tuple[str, bytes], dict[bytes, None]] = {}

    def __contains__(self, path: bytes) -> bool:
        return path in self._kept

    def keep(self, path: bytes, reason: Reason) -> ResolvedPath | None:
        """Keep the target of `path` and every link on the way; None when nothing is there.

        `reason` is that of the name itself: where that is a link, the link is the reason for its target.
        """
        named = self._root.locate(path, follow=False)
        if named.status is None:
            return None
        for step in named.links:
            self._add_path(step, Reason("link", named.path, "a directory on the way"))
        self._add_path(named.path, reason)
        if not named.is_link:
            return named
        try:
            target = self._root.locate(named.path)
        except ArchiveRefused:
            self.miss(named.path, named.path, "it is a link that leads in a circle")
            return None
        for step in target.links[1:]:
            self._add_path(step, Reason("link", named.path))
        if target.status is None:
            self.miss(named.path, target.path, "it is a link to nothing")
            return None
        self._add_path(target.path, Reason("link", named.path))
        return target

    def leave_out(self, path: bytes, why: str) -> None:
        """Record that `path` belongs to something kept but is left out, unless something else keeps it."""
        self._left_out.setdefault(path, why)

    def miss(self, asker: bytes, name: bytes, what: str) -> None:
        """Record that `asker`, which is kept, needs something that does not exist."""
        self._missing.setdefault((asker, name), what)

    def missed_by(self, askers: set[bytes]) -> list[str]:
        """The missing things that any of `askers` needs."""
        found = [(asker, what) for (asker, _), what in self._missing.items() if asker in askers]
        return [f"{path_text(asker)}: {what}" for asker, what in found]

    def ask(self, about: str, raised_by: bytes, among: bytes = b"") -> None:
        """Record a question, open until all matches of the pattern `among` are kept; without it, always."""
        self._asked.setdefault((about, among), {})[raised_by] = None

    def selection(self, programs: Iterable[bytes]) -> Selection:
        """The selection so far."""
        reasons = {path: tuple(self._kept[path]) for path in sorted(self._kept)}
        return Selection(
            programs=tuple(programs),
            kept=reasons,
            left_out={path: why for path, why in sorted(self._left_out.items()) if path not in reasons},
            missing=tuple(self._missing_lines({path.rpartition(b"/")[2] for path in reasons})),
            questions=tuple(self._questions()),
        )

    def _add_path(self, path: bytes, reason: Reason) -> None:
        if any(patterns.matches(pattern, path) for pattern in self._drop):
            self._left_out[path] = f"dropped as asked, although wanted: {reason}"
            return
        if path not in self._kept:
            self._kept[path] = {}
            self.new.append(path)
        self._kept[path][reason] = None

    def _missing_lines(self, names: set[bytes]) -> Iterator[str]:
        """Missing paths, one line each, without libraries that are kept under one of their `names`."""
        askers: dict[str, list[bytes]] = {}
        for (asker, name), what in self._missing.items():
            if name not in names:
                askers.setdefault(what, []).append(asker)
        for what, each in askers.items():
            more = f" and {len(each) - 1} more" if len(each) > 1 else ""
            yield f"{path_text(each[0])}{more}: {what}"

    def _questions(self) -> Iterator[Question]:
        for (about, among), raised_by in self._asked.items():
            if not among or any(path not in self._kept for path in patterns.find(self._root, among)):
                yield Question(about, tuple(raised_by))
