"""The shipped rules for the content of a minimal root file system (`oci/minimal.json`)."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from sandwright.resources import data_json


@dataclass(frozen=True)
class KeepRule:
    """Files that go with a file: for paths that match `when` whole, `keep`, and the questions of `ask`.

    `links` are kept where they are links, without the entries of a target directory. All of them, and
    the pairs (pattern, question) of `ask`, may hold references to groups of `when`.
    """

    name: str
    when: re.Pattern[bytes]
    keep: tuple[bytes, ...]
    links: tuple[bytes, ...]
    ask: tuple[tuple[bytes, str], ...]


@dataclass(frozen=True)
class KeepRules:
    """All rules that ship.

    `leave` pairs patterns with reasons; `imports` are the open questions of calls of functions, if the image
    has files of a pattern.
    """

    programs: frozenset[bytes]
    leave: tuple[tuple[bytes, str], ...]
    but: tuple[bytes, ...]
    rules: tuple[KeepRule, ...]
    imports: tuple[tuple[frozenset[bytes], bytes, str], ...]


@functools.cache
def load_rules() -> KeepRules:
    """The rules that ship with this installation."""
    data = data_json("oci", "minimal.json")
    return KeepRules(
        programs=frozenset(path.encode() for path in data["programs"]),
        leave=tuple((row["path"].encode(), row["reason"]) for row in data["leave"]),
        but=tuple(row["path"].encode() for row in data["but"]),
        rules=tuple(
            KeepRule(
                row["name"],
                re.compile(row["when"].encode()),
                tuple(pattern.encode() for pattern in row["keep"]),
                tuple(path.encode() for path in row.get("links", ())),
                tuple((ask["if"].encode(), ask["question"]) for ask in row["ask"]),
            )
            for row in data["rules"]
        ),
        imports=tuple(
            (frozenset(name.encode() for name in row["functions"]), row["if"].encode(), row["question"])
            for row in data["imports"]
        ),
    )
