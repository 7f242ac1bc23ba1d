"""Patterns for all the names that a file system takes for the same.

Filters compare bytes. For an existing file the kernel reports the stored spelling, but a denied path
may not exist yet: on a volume that ignores case, `.GIT/hooks` would be made beside the rule and found as
`.git/hooks`. So rules that deny match every spelling, and rules that allow only the stored one.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable, Iterator, Mapping

from sandwright.methods.seatbelt.quoting import escape_regex

_HFS_IGNORES = (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
_IGNORED = "|".join(map(chr, _HFS_IGNORES))
IGNORED = f"/[ -.0-~]*({_IGNORED})([ -.0-~]|{_IGNORED})*(/|$)"
"""A pattern for paths with a name of ASCII and characters that HFS+ takes for none (Apple's TN1150)."""

Key = Callable[[str], str]
"""Gives equal text for names that are the same (`sandwright.policy.paths.same_name`)."""

_LETTERS = (
    range(0x20, 0x2000), range(0x2000, 0x2E00), range(0xA640, 0xAC00), range(0xF900, 0xFB50),
    range(0xFF00, 0xFF60), range(0x10400, 0x10600), range(0x1E900, 0x1E950),
)  # fmt: skip
"""The ranges of letters with case and of characters with another normal form; Hangul is composed by rule."""

_MAX_BLOCK = 6


class Spellings:
    """The spellings of names on one volume."""

    def __init__(self, key: Key) -> None:
        """`key` is the volume's."""
        self._key = key
        self._names: dict[str, str] = {}

    def name(self, name: str) -> str:
        """A pattern for all spellings of one name."""
        if name not in self._names:
            self._names[name] = self._name_pattern(name)
        return self._names[name]

    def below(self, path: str, prefix: str) -> str:
        """A pattern for a path: as it is down to `prefix`, above it or itself, any spelling from there."""
        fixed = "" if prefix == "/" else prefix
        rest = path[len(fixed) :] if path != "/" else ""
        return escape_regex(fixed) + "/".join(self.name(each) for each in rest.split("/"))

    def is_plain(self, path: str, prefix: str) -> bool:
        """Whether a path below `prefix` has one spelling."""
        return self.below(path, prefix) == escape_regex(path)

    def _name_pattern(self, name: str) -> str:
        folded = self._key(name)
        table = _folding_table(self._key)
        pattern, start = "", 0
        while start < len(folded):
            end = _find_block_end(folded, start, table)
            pattern += _block_alternatives(folded[start:end], table)
            start = end
        return pattern


@functools.cache
def _folding_table(key: Key) -> Mapping[str, tuple[str, ...]]:
    """By folded text: the characters that fold to it."""
    found: dict[str, dict[str, None]] = {}
    for letters in _LETTERS:
        for character in map(chr, letters):
            folded = key(character)
            if folded != character:
                found.setdefault(folded, {})[character] = None
    return {folded: tuple(each) for folded, each in found.items()}


def _find_block_end(folded: str, start: int, table: Mapping[str, tuple[str, ...]]) -> int:
    """The end of the block of text that begins at `start`: no character folds to text across it."""
    end = start + 1
    position = start
    while position < end and position < len(folded):
        for length in (4, 3, 2):
            piece = folded[position : position + length]
            if len(piece) == length and (piece in table or _composed(piece) is not None):
                end = max(end, position + length)
                break
        position += 1
    return end


def _block_alternatives(block: str, table: Mapping[str, tuple[str, ...]]) -> str:
    if len(block) > _MAX_BLOCK:  # more than is meant, as all combinations would be too many
        single = {each for size in range(1, 5) for each in _block_pieces(block, size, table)}
        return f"({'|'.join(map(escape_regex, sorted(single)))})+"
    found = sorted(set(_sequences(block, table)))
    if len(found) == 1:
        return escape_regex(found[0])
    if all(len(each) == 1 and each.isascii() and each.isalnum() for each in found):
        return f"[{''.join(found)}]"
    return f"({'|'.join(map(escape_regex, found))})"


def _block_pieces(block: str, size: int, table: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for start in range(len(block) - size + 1):
        yield from _of(block[start : start + size], table)


def _sequences(block: str, table: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    if not block:
        yield ""
        return
    for size in range(1, len(block) + 1):
        for first in _of(block[:size], table):
            for rest in _sequences(block[size:], table):
                yield first + rest


def _of(piece: str, table: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The characters that fold to a piece of text."""
    if len(piece) == 1:
        yield piece
    yield from table.get(piece, ())
    composed = _composed(piece)
    if composed is not None:
        yield composed


def _composed(piece: str) -> str | None:
    """The Hangul syllable of some letters, None for other text."""
    if len(piece) < 2 or not "\u1100" <= piece[0] <= "\u1112":
        return None
    composed = unicodedata.normalize("NFC", piece)
    return composed if len(composed) == 1 else None
