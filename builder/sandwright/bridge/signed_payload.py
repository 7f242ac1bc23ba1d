"""Parses a text to sign: a commit or a tag, in the form that git writes before it adds the signature.

git-commit(1) and git-tag(1) hand their whole object to the program that signs, without `gpgsig`. It is parsed
more narrowly than Git does: each header once and in Git's order, names of objects that all have one length,
people as Git writes them, no NUL. So a signed text can never be taken for something else, such as a
certificate of `git push --signed`, a file or a message.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from sandwright.bridge.grammar import Refused, quote_words

MAX_PAYLOAD = 1 << 20
"""Bytes of a commit or tag."""

MAX_PARENTS = 64

Kind = Literal["commit", "tag", "tree", "blob"]

_HEX = rb"[0-9a-f]{40}|[0-9a-f]{64}"
_PERSON = rb"[^<>\n]*<[^<>\n]*> [0-9]{1,12} [+-][0-9]{4}"
_COMMIT = re.compile(
    rb"tree (?P<tree>" + _HEX + rb")\n"
    rb"(?P<parents>(?:parent (?:" + _HEX + rb")\n)*)"
    rb"author " + _PERSON + rb"\n"
    rb"committer " + _PERSON + rb"\n"
    rb"(?P<mergetags>(?:mergetag [^\n]*\n(?: [^\n]*\n)*)*)"
    rb"(?:encoding [A-Za-z0-9._:-]{1,64}\n)?"
    rb"(?:change-id [a-z0-9-]{1,128}\n)?"
    rb"\n(?P<text>.*)",
    re.DOTALL,
)
_TAG = re.compile(
    rb"object (?P<object>" + _HEX + rb")\n"
    rb"type (?P<type>commit|tag|tree|blob)\n"
    rb"tag (?P<name>[^\x00-\x20\x7f~^:?*\[\\]{1,250})\n"
    rb"tagger " + _PERSON + rb"\n"
    rb"\n(?P<text>.*)",
    re.DOTALL,
)
_SIGNED = re.compile(rb"^-----BEGIN (?:PGP (?:SIGNATURE|MESSAGE)|SIGNED MESSAGE|SSH SIGNATURE)-----", re.M)
"""The lines at which Git ends a tag's text and begins its signature (gpg-interface.c)."""


@dataclass(frozen=True)
class SignedPayload:
    """A commit or tag. `objects` are those that its repository must have, each with its type."""

    kind: Literal["commit", "tag"]
    objects: tuple[tuple[str, Kind], ...]

    def __str__(self) -> str:
        name, kind = self.objects[0]
        return f"{self.kind} of {kind} {name}"


def parse_payload(data: bytes) -> SignedPayload:
    """Parse the text to be signed. Raise Refused unless it is a commit or a tag."""
    if len(data) > MAX_PAYLOAD:
        raise Refused(f"more than {MAX_PAYLOAD} bytes are not signed")
    if b"\0" in data:
        raise Refused("a commit or tag with a NUL is not signed")
    payload = _parse_tag(data) if data.startswith(b"object ") else _parse_commit(data)
    if len({len(name) for name, _ in payload.objects}) != 1:
        raise Refused("a commit or tag with names of SHA-1 and of SHA-256 is not signed")
    return payload


def _parse_commit(data: bytes) -> SignedPayload:
    found = _COMMIT.fullmatch(data)
    if found is None:
        raise Refused(_payload_fault(data, ("tree", "parent", "author", "committer")))
    parents = found["parents"].decode("ascii").split()[1::2]
    if len(parents) > MAX_PARENTS:
        raise Refused(f"a commit with more than {MAX_PARENTS} parents is not signed")
    objects: list[tuple[str, Kind]] = [(found["tree"].decode("ascii"), "tree")]
    return SignedPayload("commit", (*objects, *((name, "commit") for name in parents)))


def _parse_tag(data: bytes) -> SignedPayload:
    found = _TAG.fullmatch(data)
    if found is None:
        raise Refused(_payload_fault(data, ("object", "type", "tag", "tagger")))
    if _SIGNED.search(found["text"]):
        raise Refused("a tag that has a signature already is not signed")
    kinds: dict[bytes, Kind] = {b"commit": "commit", b"tag": "tag", b"tree": "tree", b"blob": "blob"}
    return SignedPayload("tag", ((found["object"].decode("ascii"), kinds[found["type"]]),))


def _payload_fault(data: bytes, expected: tuple[str, ...]) -> str:
    """The reason why a text is not a commit or tag, by its headers."""
    head = data.partition(b"\n\n")[0].decode(errors="replace")
    names = [line.partition(" ")[0] for line in head.split("\n") if not line.startswith(" ")]
    if names[:1] != [expected[0]]:
        first = quote_words([head.partition("\n")[0][:40]])
        return f"only commits and tags are signed, and this begins with {first!r}"
    if any(name.startswith("gpgsig") for name in names):
        return "a commit that has a signature already is not signed"
    counted = Counter(names)
    repeated = sorted({name for name, count in counted.items() if count > 1} - {"parent", "mergetag"})
    if repeated:
        return f"a commit or tag with two headers {quote_words(repeated)} is not signed"
    return f"the headers are not those that Git writes: {quote_words(names[:12])}"
