"""The kinds of values of options and operands, each with a rule for its text.

The rules are narrow on purpose. No value begins with `-`, except texts, which always follow their option's
`=`. No value contains a NUL. A word never looks like a file, a command or an address to a program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, assert_never

Kind = Literal[
    "flag",
    "word",
    "number",
    "text",
    "ref",
    "tag",
    "refspec",
    "remote",
    "repo",
    "login",
    "fields",
    "item",
    "file",
    "search",
]
"""`flag`: no value. `word`: a plain word. `number`: decimal. `text`: any text. `ref`: a branch, tag or
commit. `tag`: one that stands in the path of a URL as it is. `refspec`: a refspec of git push or git fetch.
`remote`: a remote that the bridge knows. `repo`: OWNER/NAME.
`login`: an account. `fields`: names with commas. `item`: a number of GitHub's, or a branch. `file`: a file of
the workspace, which the program gets as an open descriptor; `-` is standard input. `search`: a text of
GitHub's search within one repository."""

MAX_TEXT = 128 * 1024
"""The most bytes of one value: the limit of Linux for one argument (MAX_ARG_STRLEN)."""

_RULES: dict[str, tuple[re.Pattern[str], str]] = {
    kind: (re.compile(rule), words)
    for kind, rule, words in (
        ("word", r"[A-Za-z0-9_][A-Za-z0-9_.+,-]{0,127}", "a plain word"),
        ("number", r"[0-9]{1,9}", "a number"),
        ("repo", r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}", "OWNER/NAME"),
        ("login", r"@?[A-Za-z0-9][A-Za-z0-9-]{0,38}(?:/[A-Za-z0-9_.-]{1,99})?(?:\[bot\])?", "an account"),
        ("fields", r"[A-Za-z]{1,40}(?:,[A-Za-z]{1,40}){0,60}", "names of fields, with commas"),
        ("remote", r"(?!.*::)[A-Za-z0-9_][A-Za-z0-9_./:@~%+-]{0,499}", "a remote"),
    )
}
_WIDER = re.compile(r"(?i:\b(?:repo|repository|org|user|owner|enterprise)\s*:)|\bOR\b|[()]")
"""Qualifiers of GitHub that extend a search beyond the repository, and operators that disable its
restriction."""

_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+#@%=,!-]{0,249}")
_COMPONENT_FAULT = re.compile(r"\.\.|//|/\.|@\{|\.lock(?:/|$)|[./]$|^@$")


@dataclass(frozen=True)
class WorkspaceFile:
    """A value that names a file of the workspace: the path as it was given, below the working directory."""

    path: str


def value_fault(kind: Kind, text: str) -> str:  # noqa: PLR0911 - a row for each kind
    """The reason why a text is not a valid value of a kind; empty if it is valid."""
    if "\0" in text:
        return "holds a NUL"
    if len(text.encode("utf-8", "surrogateescape")) > MAX_TEXT:
        return "is too long"
    match kind:
        case "flag":
            return "takes no value"
        case "text":
            return ""
        case "search":
            return "searches other repositories, too" if _WIDER.search(text) else ""
        case "ref":
            return "" if is_ref(text) else "is no name of a branch, tag or commit"
        case "tag":  # gh 2.23 does not escape it, and a server may read %2e%2e as ".."
            return "" if is_ref(text) and not set(text) & set("%#") else "is no plain name of a tag"
        case "item":
            return "" if re.fullmatch(r"[0-9]{1,9}", text) or is_ref(text) else "is no number and no branch"
        case "refspec":
            return "" if _is_refspec(text) else "is no plain refspec"
        case "file":
            return _file_fault(text)
        case "word" | "number" | "repo" | "login" | "fields" | "remote":
            rule, words = _RULES[kind]
            return "" if rule.fullmatch(text) else f"is not {words}"
        case _:
            assert_never(kind)


def is_ref(text: str) -> bool:
    """Whether a text is a valid ref name of git-check-ref-format(1), with neither a leading `-` nor globs."""
    return bool(_REF.fullmatch(text)) and not _COMPONENT_FAULT.search(text)


def _is_refspec(text: str) -> bool:
    """`[+]source[:target]`, `:target` to delete; no globs, no `~`, `^` or `@{…}`."""
    source, colon, target = text.removeprefix("+").partition(":")
    if colon and not is_ref(target):
        return False
    return is_ref(source) or (not source and bool(colon))


def _file_fault(text: str) -> str:
    if text == "-":
        return ""
    if not text or text.startswith("-") or len(text) > 4096:
        return "is no path"
    return "leaves the workspace" if ".." in text.split("/") else ""
