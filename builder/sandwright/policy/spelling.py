"""Paths as a policy spells them: variables, `~`, and refused forms.

    $PROJECT $HOME $TMP $CWD $UID   the host's own; `${PROJECT}` is the same
    $STATE $CACHE                   what sandboxes keep: for all projects of the user, for this project
    ${NAME}                         a variable of the environment
    ~  or  ~/…                      $HOME, at the start only
    $$                              a dollar sign

Any other `$` is an error, as is `..`: it means another place once a link is involved. There are no globs,
because their matches can change after the check of the policy, and because their meaning differs between
methods.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from sandwright.policy.phrasing import quoted

PATH_MAX = 4095
"""Bytes in a path that Linux takes (limits.h, without the final NUL)."""

NAME_MAX = 255
"""Bytes in one component of a path."""

PLACES = ("PROJECT", "HOME", "TMP", "CWD", "STATE", "CACHE")
"""Variables that stand for an absolute path."""

VARIABLES = (*PLACES, "UID")

_PIECE = re.compile(r"\$(?:\$|\{([^}]*)\}|([A-Za-z_][A-Za-z0-9_]*))|\$")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Variable:
    """A variable in a path."""

    name: str

    @property
    def of_environment(self) -> bool:
        """Whether the environment gives its value, and not a fact of the host."""
        return self.name not in VARIABLES


def checked_path(text: str) -> str:
    """`text` when it is a path that a policy may name. Raise ValueError with the reason if it is not.

    `expand_path` checks the parts that depend on the host (values of variables, lengths after expansion).
    """
    pieces = parse_spelling(text)
    first = pieces[0]
    if isinstance(first, str) and not first.startswith("/"):
        hint = _relative_hint(first)
        raise ValueError(f"{quoted(text)} is not an absolute path{hint}")
    if isinstance(first, Variable) and first.name == "UID":
        raise ValueError("$UID is a number; a path begins with / or a variable like $PROJECT")
    if "*" in text or "?" in text:
        raise ValueError(
            f"{quoted(text)} holds a glob; name the directory itself, which covers all inside it"
        )
    return text


@lru_cache(maxsize=4096)
def parse_spelling(text: str) -> tuple[str | Variable, ...]:
    """The pieces of a path as it is written: text and variables. Raise ValueError for faults of spelling."""
    _refuse_impossible(text)
    if text == "~" or text.startswith("~/"):
        return (Variable("HOME"), *_parse_pieces(text[1:]))
    if text.startswith("~"):
        raise ValueError(f"{quoted(text)} names another person's home; write the path itself")
    return _parse_pieces(text)


def environment_names(text: str) -> frozenset[str]:
    """The variables of the environment that a correctly spelled text uses."""
    return frozenset(
        piece.name for piece in _parse_pieces(text) if isinstance(piece, Variable) and piece.of_environment
    )


def expand_path(text: str, values: Mapping[str, str]) -> str:
    """The path that `text` stands for: absolute, without `.`, `//` or a `/` at its end, links not resolved.

    `values` holds the variables. Raise ValueError for one that is missing or no absolute path, for `..`, and
    for a path longer than a system takes.
    """
    pieces = parse_spelling(text)
    path = "".join(piece if isinstance(piece, str) else _variable_value(piece, values) for piece in pieces)
    if not path.startswith("/"):
        name = next((each.name for each in pieces if isinstance(each, Variable)), "")
        raise ValueError(f"stands for no absolute path: ${{{name}}} holds none")  # the value stays private
    if ".." in path.split("/"):  # in a value, which stays private, too
        raise ValueError(f"{quoted(text)} holds '..', which leads elsewhere if a component is a link")
    return _normalize(path)


def in_home(text: str, home: str) -> Iterator[str]:
    """The spelling of the same path in another home; none if `text` is in no home, or `home` is empty."""
    for prefix in ("~", "$HOME", "${HOME}"):
        rest = text.removeprefix(prefix)
        if home and rest != text and (not rest or rest.startswith("/")):
            yield home.replace("$", "$$") + rest


def substitute(text: str, values: Mapping[str, str]) -> str:
    """`text` with its variables replaced; it need not be a path. Raise ValueError like `expand_path`."""
    return "".join(
        piece if isinstance(piece, str) else _variable_value(piece, values) for piece in _parse_pieces(text)
    )


def checked_text(text: str) -> str:
    """`text` when the variables in it are the host's own, as a value of the environment may use them.

    Raise ValueError for any other `$`: a value that silently kept `$PROJCT`, or one with the content of the
    host's environment, would surprise.
    """
    if "\0" in text:
        raise ValueError("holds a NUL character")
    for piece in _parse_pieces(text):
        if isinstance(piece, Variable) and piece.of_environment:
            raise ValueError(
                f"${{{piece.name}}} would copy a variable of the host; list {piece.name} in environment.pass"
            )
    return text


def plain_spelling(text: str) -> str:
    """The one spelling of an absolute path without variables; empty when it is no such path."""
    try:
        return _normalize(text) if text.startswith("/") else ""
    except ValueError:
        return ""


def has_undecodable_bytes(text: str) -> bool:
    """Whether a text from the host holds bytes that are no UTF-8, which Python shows as surrogates."""
    return _SURROGATE.search(text) is not None


@lru_cache(maxsize=4096)  # a policy is resolved more than once for a run
def _parse_pieces(text: str) -> tuple[str | Variable, ...]:
    pieces: list[str | Variable] = []
    end = 0
    for found in _PIECE.finditer(text):
        pieces.append(text[end : found.start()])
        pieces.append(_parse_piece(found))
        end = found.end()
    pieces.append(text[end:])
    return tuple(_join_texts(pieces))


def _parse_piece(found: re.Match[str]) -> str | Variable:
    braced: str | None = found[1]
    plain: str = found[2]
    if found[0] == "$$":
        return "$"
    if found[0] == "$":
        raise ValueError("a single $ does not name a variable; write $$ for a dollar sign")
    if braced is not None:
        if not _NAME.fullmatch(braced):
            raise ValueError(f"{quoted(found[0])} is no variable; write $$ for a dollar sign")
        return Variable(braced)
    if plain not in VARIABLES:
        guess = difflib.get_close_matches(plain, VARIABLES, n=1)
        hint = f"did you mean ${guess[0]}?" if guess else f"write ${{{plain}}} for one of the environment"
        raise ValueError(f"there is no variable ${plain}; {hint}")
    return Variable(plain)


def _join_texts(pieces: list[str | Variable]) -> list[str | Variable]:
    """Neighbouring texts as one, without empty ones."""
    joined: list[str | Variable] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    return joined


def _variable_value(variable: Variable, values: Mapping[str, str]) -> str:
    value = values.get(variable.name)
    if value is None:
        raise ValueError(f"variable {variable.name} is not set in the environment")
    if not value:
        raise ValueError(f"variable {variable.name} is empty")
    return value


@lru_cache(maxsize=4096)
def _normalize(path: str) -> str:
    """One spelling for each path."""
    _refuse_impossible(path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if len(path) * 4 > NAME_MAX and any(len(part.encode()) > NAME_MAX for part in parts):
        raise ValueError(f"has a component longer than {NAME_MAX} bytes")
    normal = "/" + "/".join(parts)
    if len(normal.encode()) > PATH_MAX:
        raise ValueError(f"is longer than {PATH_MAX} bytes")
    return normal


def _refuse_impossible(text: str) -> None:
    if not text:
        raise ValueError("is empty")
    if "\0" in text:
        raise ValueError("holds a NUL character")
    if has_undecodable_bytes(text):
        raise ValueError("is not valid UTF-8")
    if ".." in text.split("/"):
        raise ValueError(f"{quoted(text)} holds '..', which leads elsewhere if a component is a link")


def _relative_hint(text: str) -> str:
    if re.match(r"[A-Za-z]:[\\/]", text):
        return "; paths are those of Linux and macOS"
    return f"; write $PROJECT/{text.removeprefix('./')}" if len(text) < 60 else ""
