"""The spelling of paths: the accepted forms, their meaning, and the messages for the refused ones."""

# A row of a table is a line, however long.
# ruff: noqa: E501

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright.policy.spelling import checked_path, checked_text, environment_names, expand_path, substitute


def exactly(message: str) -> str:
    """The pattern that only this message matches."""
    return rf"\A{re.escape(message)}\Z"


VALUES = {
    "PROJECT": "/work/p",
    "HOME": "/home/u",
    "TMP": "/tmp",
    "CWD": "/work/p/sub",
    "UID": "1000",
    "DATA": "/data",
    "RELATIVE": "data",
    "CLIMBS": "/data/../etc",
    "EMPTY": "",
    "DOLLAR": "/a$HOME",
}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/", "/"),
        ("/usr/lib", "/usr/lib"),
        ("//usr///lib//", "/usr/lib"),
        ("/usr/./lib/.", "/usr/lib"),
        ("~", "/home/u"),
        ("~/", "/home/u"),
        ("~/.ssh", "/home/u/.ssh"),
        ("$HOME", "/home/u"),
        ("${HOME}/x", "/home/u/x"),
        ("$PROJECT/a b", "/work/p/a b"),
        ("$PROJECT-old", "/work/p-old"),
        ("$CWD", "/work/p/sub"),
        ("$TMP/x", "/tmp/x"),
        ("/run/user/$UID/bus", "/run/user/1000/bus"),
        ("${DATA}/x", "/data/x"),
        ("/x${DATA}", "/x/data"),
        ("/price/$$5", "/price/$5"),
        ("/price/$$HOME", "/price/$HOME"),
        ("${DOLLAR}", "/a$HOME"),
        ("/a/~/b", "/a/~/b"),
        ("/a/...", "/a/..."),
        ("/a/..b", "/a/..b"),
        ('/quote"s/\'and\'', '/quote"s/\'and\''),
        ("/back\\slash\\n", "/back\\slash\\n"),
        ("/new\nline", "/new\nline"),
        ("/tab\tand\x01", "/tab\tand\x01"),
        ("/(paren)s;#'`", "/(paren)s;#'`"),
        ("/-leading", "/-leading"),
        ("/app/[id]/{slug}", "/app/[id]/{slug}"),
        ("/caf\u00e9", "/caf\u00e9"),
        ("/cafe\u0301", "/cafe\u0301"),
        ("/\U0001f4a9", "/\U0001f4a9"),
        ("/" + "/".join(["x" * 250] * 16), "/" + "/".join(["x" * 250] * 16)),
    ],
)  # fmt: skip
def test_taken(text: str, path: str) -> None:
    assert checked_path(text) == text
    assert expand_path(text, VALUES) == path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("src", "'src' is not an absolute path; write $PROJECT/src"),
        ("./src", "'./src' is not an absolute path; write $PROJECT/src"),
        ("-rf", "'-rf' is not an absolute path; write $PROJECT/-rf"),
        ("C:\\Users", "'C:\\\\Users' is not an absolute path; paths are those of Linux and macOS"),
        ("~root/x", "'~root/x' names another person's home; write the path itself"),
        ("$PROJCT/x", "there is no variable $PROJCT; did you mean $PROJECT?"),
        ("$XDG_CACHE_HOME", "there is no variable $XDG_CACHE_HOME; write ${XDG_CACHE_HOME} for one of the environment"),
        ("/a/$", "a single $ does not name a variable; write $$ for a dollar sign"),
        ("/a/$1", "a single $ does not name a variable; write $$ for a dollar sign"),
        ("/a/${}", "'${}' is no variable; write $$ for a dollar sign"),
        ("/a/${A-b}", "'${A-b}' is no variable; write $$ for a dollar sign"),
        ("/a/${A", "a single $ does not name a variable; write $$ for a dollar sign"),
        ("/a/../b", "'/a/../b' holds '..', which leads elsewhere if a component is a link"),
        ("$PROJECT/..", "'$PROJECT/..' holds '..', which leads elsewhere if a component is a link"),
        ("/a\0b", "holds a NUL character"),
        ("/a\ud800b", "is not valid UTF-8"),
        ("/src/*.py", "'/src/*.py' holds a glob; name the directory itself, which covers all inside it"),
        ("/src/?", "'/src/?' holds a glob; name the directory itself, which covers all inside it"),
        ("$UID/x", "$UID is a number; a path begins with / or a variable like $PROJECT"),
    ],
)  # fmt: skip
def test_refused_as_written(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        checked_path(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${NOWHERE}", "variable NOWHERE is not set in the environment"),
        ("${EMPTY}/x", "variable EMPTY is empty"),
        ("${RELATIVE}/x", "stands for no absolute path: ${RELATIVE} holds none"),
        ("${CLIMBS}", "'${CLIMBS}' holds '..', which leads elsewhere if a component is a link"),
        ("/" + "x" * 256, "has a component longer than 255 bytes"),
        ("/" + "\u00e9" * 128, "has a component longer than 255 bytes"),
        ("/" + "x/" * 2048, "is longer than 4095 bytes"),
    ],
)
def test_refused_on_a_host(text: str, message: str) -> None:
    checked_path(text)
    with pytest.raises(ValueError, match=exactly(message)):
        expand_path(text, VALUES)


def test_the_longest_path_is_taken() -> None:
    path = "/" + "x/" * 2046 + "yy"
    assert len(path) == 4095
    assert expand_path(path, VALUES) == path


def test_variables_of_the_environment_are_named() -> None:
    assert environment_names("${DATA}/$UID/${HOME}/${OTHER}/$$") == {"DATA", "OTHER"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("$PROJECT/.venv", "/work/p/.venv"), ("a $$5 note", "a $5 note"), ("", ""), ("x y\nz", "x y\nz")],
)
def test_values_of_variables(text: str, value: str) -> None:
    assert substitute(checked_text(text), VALUES) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${SECRET}", "${SECRET} would copy a variable of the host; list SECRET in environment.pass"),
        ("$PROJCT", "there is no variable $PROJCT; did you mean $PROJECT?"),
        ("a\0b", "holds a NUL character"),
    ],
)
def test_refused_values_of_variables(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=exactly(message)):
        checked_text(text)


@settings(deadline=None)
@given(
    st.lists(
        st.text(
            st.characters(exclude_characters="/\0$*?", exclude_categories=["Cs"]), min_size=1, max_size=30
        )
    )
)
def test_expanding_is_idempotent(names: list[str]) -> None:
    text = "/" + "/".join(name for name in names if name != "..")
    once = expand_path(text, VALUES)
    assert expand_path(once, VALUES) == once
    assert checked_path(once) == once
