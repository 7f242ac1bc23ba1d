"""The repositories that gh may name: that of the project's `origin` at the start, and those in the policy.

The token often gives access to more than the repository that the sandbox works on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sandwright.bridge.arg_types import value_fault
from sandwright.bridge.grammar import AllowedCall, Refused, quote_words
from sandwright.policy.values import ShimCommand

_OPTIONS = ("--repo", "-R")


def check_repositories(call: AllowedCall, origin: str | None, entries: Iterable[ShimCommand]) -> None:
    """Raise Refused for a call that names a repository other than those."""
    allowed = {each.lower() for each in (*([origin] if origin else []), *_listed_repositories(entries))}
    for name in _named_repositories(call):
        if name.lower() not in allowed:
            origin_text = f"origin ({origin})" if origin else "origin, which is not on GitHub"
            raise Refused(
                f"gh: {quote_words([name])} is not the repository of {origin_text}; "
                f"to allow it, list `... --repo {quote_words([name])} *` under credentials.shims.gh.allow"
            )


def _named_repositories(call: AllowedCall) -> Iterator[str]:
    yield from (value for option, value in call.options if option.kind == "repo")
    kinds = call.form.operands if call.form else ()
    yield from (value for kind, value in zip(kinds, call.operands, strict=False) if kind == "repo")


def _listed_repositories(entries: Iterable[ShimCommand]) -> Iterator[str]:
    """The values of `--repo`, and of `repo view`, in the policy's entries."""
    for entry in entries:
        for before, word in zip(("", *entry.words), entry.words, strict=False):
            option, _, value = word.partition("=")
            named = value if option in _OPTIONS else word
            behind = option in _OPTIONS or before in _OPTIONS or entry.words[:2] == ("repo", "view")
            if behind and not value_fault("repo", named):
                yield named
