"""YAML that people write: its meaning, and the refusals with their positions."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandwright.documents import yamltree
from sandwright.documents.document import field_name
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import DocumentError


def data(text: str | bytes) -> Any:
    return parse_yaml(text, file="f.yaml").data


def refusal(text: str | bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_yaml(text, file="f.yaml")
    return str(caught.value)


SCALARS: dict[str, object] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "nULL": "nULL",
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "tRUE": "tRUE",
    "yes": "yes",
    "no": "no",
    "on": "on",
    "off": "off",
    "y": "y",
    "0": 0,
    "-0": 0,
    "12": 12,
    "+12": 12,
    "-12": -12,
    "012": "012",
    "0755": "0755",
    "0o17": 15,
    "0o18": "0o18",
    "0x1F": 31,
    "0xfg": "0xfg",
    "-0x1F": "-0x1F",
    "0b11": "0b11",
    "1_000": "1_000",
    "100:50": "100:50",
    "1:2:3": "1:2:3",
    "2024-01-01": "2024-01-01",
    "1.5": 1.5,
    "-1.5e3": -1500.0,
    "1e3": 1000.0,
    ".5": 0.5,
    "5.": 5.0,
    "01.5": "01.5",
    "1.5.2": "1.5.2",
    "1e": "1e",
    ".": ".",
    "+": "+",
    ".inf": math.inf,
    "-.Inf": -math.inf,
    "=": "=",
    "1e999x": "1e999x",
    "'12'": "12",
    '"true"': "true",
    "''": "",
    '"\\u00e9\\x41"': "éA",
}


@pytest.mark.parametrize(("text", "value"), SCALARS.items(), ids=SCALARS.keys())
def test_a_scalar_means_what_the_core_schema_says(text: str, value: object) -> None:
    found = data(f"key: {text}\n")["key"]
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_a_number() -> None:
    assert math.isnan(data(".nan"))


def test_block_scalars_are_text() -> None:
    assert data("a: |\n  12\nb: >\n  true\n") == {"a": "12\n", "b": "true\n"}


DOCUMENTS: dict[str, tuple[str | bytes, object]] = {
    "nothing": ("", None),
    "only comments": ("# a\n# b\n", None),
    "an empty document": ("---\n...\n", None),
    "explicit start and end": ("---\na: 1\n...\n# end\n", {"a": 1}),
    "the directive of this version": ("%YAML 1.2\n---\na: 1\n", {"a": 1}),
    "a byte order mark": (b"\xef\xbb\xbfa: 1\n", {"a": 1}),
    "Windows' lines": ("a:\r\n  b: 1\r\n", {"a": {"b": 1}}),
    "UTF-8": ("a: äöü €😀\n".encode(), {"a": "äöü €😀"}),
    "an alias": ("a: &x [1, {k: 2}]\nb: *x\n", {"a": [1, {"k": 2}], "b": [1, {"k": 2}]}),
    "an anchored key": ("&x a: *x\n", {"a": "a"}),
    "a quoted merge key": ("'<<': 1\n", {"<<": 1}),
    "quoted numbers as keys": ("'1': x\n", {"1": "x"}),
    "a tab inside a line": ("a:\t1\t# c\n", {"a": 1}),
    "forty levels": ("[" * 40 + "]" * 40, None),
}


@pytest.mark.parametrize(("text", "value"), DOCUMENTS.values(), ids=DOCUMENTS.keys())
def test_documents_that_are_taken(text: str | bytes, value: object) -> None:
    found = data(text)
    if value is not None or not found:
        assert found == value


def test_values_of_an_alias_are_not_shared() -> None:
    found = data("a: &x [1]\nb: *x\n")
    assert found["a"] is not found["b"]


REFUSALS: dict[str, tuple[str | bytes, str]] = {
    "a key given twice": ("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: a: is given twice; first in line 1"),
    "a key given three times": (
        "a: 1\na: 2\na: 3\n",
        "f.yaml:2:1: a: is given twice; first in line 1\nf.yaml:3:1: a: is given twice; first in line 1",
    ),
    "a nested key given twice": (
        "o:\n- {x: 1, x: 2}\n",
        "f.yaml:2:10: o[0].x: is given twice; first in line 2",
    ),
    "a key given twice in two spellings": (
        "a: 1\n'a': 2\n",
        "f.yaml:2:1: a: is given twice; first in line 1",
    ),
    "a number as key": ("m:\n  1: x\n", 'f.yaml:2:3: m: a key must be text; put it in quotes: "1"'),
    "a truth value as key": ("true: x\n", 'f.yaml:1:1: a key must be text; put it in quotes: "true"'),
    "nothing as key": ("? \n: x\n", "f.yaml:1:2: a key must be text"),
    "null as key": ("~: x\n", 'f.yaml:1:1: a key must be text; put it in quotes: "~"'),
    "a list as key": ("? [a]\n: x\n", "f.yaml:1:3: a key must be text"),
    "a mapping as key": ("{{a: 1}: x}\n", "f.yaml:1:2: a key must be text"),
    "a merge key": ("a: &x {b: 1}\nc:\n  <<: *x\n", "f.yaml:3:3: c: merge keys (<<) are not used here"),
    "several faults at once": (
        "a: 1\na: 2\n3: 4\n<<: {}\n",
        "f.yaml:2:1: a: is given twice; first in line 1\n"
        'f.yaml:3:1: a key must be text; put it in quotes: "3"\n'
        "f.yaml:4:1: merge keys (<<) are not used here",
    ),
    "a tab as indentation": ("a:\n\tb: 1\n", "f.yaml:2:1: cannot indent with a tab; use spaces"),
    "a tab after spaces": ("a:\n  b: 1\n \tc: 2\n", "f.yaml:3:2: cannot indent with a tab; use spaces"),
    "a tab at the very start": ("\ta: 1\n", "f.yaml:1:1: cannot indent with a tab; use spaces"),
    "an open bracket": (
        "a: [1, 2",
        "f.yaml:1:9: is not YAML: did not find expected ',' or ']' while parsing a flow sequence",
    ),
    "an open quote": (
        "a: 'x\nb: 1\n",
        "f.yaml:3:1: is not YAML: found unexpected end of stream while scanning a quoted scalar"
        " that begins in line 1",
    ),
    "two colons": ("a: b: c\n", "f.yaml:1:5: is not YAML: mapping values are not allowed in this context"),
    "a list that turns into a mapping": (
        "- a\nb: 1\n",
        "f.yaml:2:1: is not YAML: did not find expected '-' indicator while parsing a block collection"
        " that begins in line 1",
    ),
    "a reserved character": (
        "a: @x\n",
        "f.yaml:1:4: is not YAML: found character that cannot start any token"
        " while scanning for the next token",
    ),
    "columns count characters": (
        "ä: ö: ü\n",
        "f.yaml:1:5: is not YAML: mapping values are not allowed in this context",
    ),
    "a second document": (
        "a: 1\n---\nb: 1\n",
        "f.yaml:2:1: a second document begins here; only one is taken",
    ),
    "YAML 1.1": (
        "%YAML 1.1\n---\na: 1\n",
        "f.yaml:1:1: documents are read as YAML 1.2; leave out this directive",
    ),
    "a standard tag": ("a: !!str 5\n", "f.yaml:1:4: tags are not used here: !!str"),
    "a dangerous tag": (
        "a: !!python/object/apply:os.system [id]\n",
        "f.yaml:1:4: tags are not used here: !!python/object/apply:os.system",
    ),
    "a tag on a mapping": ("a: !thing {b: 1}\n", "f.yaml:1:4: tags are not used here: !thing"),
    "an unknown anchor": ("a: *x\n", "f.yaml:1:4: there is no anchor 'x' before this alias"),
    "an alias before its anchor": (
        "a: *x\nb: &x 1\n",
        "f.yaml:1:4: there is no anchor 'x' before this alias",
    ),
    "a list in itself": ("a: &x [*x]\n", "f.yaml:1:8: alias 'x' is inside its own anchor"),
    "a mapping in itself": ("a: &x\n  b: {c: *x}\n", "f.yaml:2:10: alias 'x' is inside its own anchor"),
    "an anchor given twice": ("a: &x 1\nb: &x 2\n", "f.yaml:2:4: anchor 'x' was already given in line 1"),
    "a digit too many": (
        f"a: {'9' * 41}\n",
        "f.yaml:1:4: is a number with too many digits; put it in quotes if it is text",
    ),
    "as many digits as Python refuses": (
        f"a: {'9' * 5000}\n",
        "f.yaml:1:4: is a number with too many digits; put it in quotes if it is text",
    ),
    "a number out of range": (
        "a: 1e999\n",
        "f.yaml:1:4: is a number out of range; put it in quotes if it is text",
    ),
    "bytes that are not UTF-8": (b"a: 1\nb: \xe4\n", "f.yaml:2:4: byte 0xe4 is not valid UTF-8"),
    "a surrogate in bytes": (b"a: \xed\xa0\x80\n", "f.yaml:1:4: byte 0xed is not valid UTF-8"),
    "UTF-16": ("a: 1\n".encode("utf-16"), "f.yaml:1:1: byte 0xff is not valid UTF-8"),
    "NUL": (b"a: 1\nb: x\0y\n", "f.yaml:2:5: character U+0000 is not allowed"),
    "an escape character": ("a: \x1b[31mred\n", "f.yaml:1:4: character U+001B is not allowed"),
    "a bell in a comment": ("# \x07\n", "f.yaml:1:3: character U+0007 is not allowed"),
    "another kind of line end": ("a: 1\u2028b: 2\n", "f.yaml:1:5: character U+2028 is not allowed"),
    "next line": ("a: 1\x85b: 2\n", "f.yaml:1:5: character U+0085 is not allowed"),
    "a byte order mark inside": ("a: x\ufeff\n", "f.yaml:1:5: character U+FEFF is not allowed"),
    "a surrogate in text": ("a: \ud800\n", "f.yaml:1:4: character U+D800 is not allowed"),
    "NUL by an escape": ('a: "x\\0"\n', "f.yaml:1:4: holds an escape for a character that is not allowed"),
    "a line more than a mebibyte": ("a" * ((1 << 20) + 1), "f.yaml: is larger than 1 MiB"),
    "deep lists": ("[" * 900, "f.yaml:1:41: is nested more than 40 deep"),
    "deep mappings": ("{a: " * 100_000, "f.yaml:1:161: is nested more than 40 deep"),
    "deep blocks": ("- " * 100_000, "f.yaml:1:81: is nested more than 40 deep"),
    "many values": ("[" + "a," * 500_000 + "]", "f.yaml:1:100000: the document has more than 50000 values"),
    "deep by aliases": (
        "".join(f"a{n}: &a{n} [{f'*a{n - 1}' if n else ''}]\n" for n in range(100)),
        "f.yaml:2:10: aliases make this nested more than 40 deep",
    ),
}


@pytest.mark.parametrize(("text", "message"), REFUSALS.values(), ids=REFUSALS.keys())
@pytest.mark.timeout(10)
def test_documents_that_are_refused(text: str | bytes, message: str) -> None:
    assert refusal(text) == message


@pytest.mark.timeout(10)
def test_brackets_that_the_parser_reads_ahead_of_are_refused() -> None:
    assert re.fullmatch(r"f.yaml:1:\d+: is nested more than 40 deep", refusal("[" * 100_000))


@pytest.mark.timeout(10)
def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert refusal("\n".join(lines)).endswith("aliases make the document grow to more than 50000 values")


def test_the_parser_without_libyaml_means_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: [1, 'x', \"y\"]\nb: &q {c: true}\nd: *q\ne: |\n  text\nf:\ng: no\n"
    fast = parse_yaml(text, file="f.yaml")
    monkeypatch.setattr(yamltree, "_LOADER", yaml.SafeLoader)
    assert parse_yaml(text, file="f.yaml") == fast
    assert refusal("a: 1\na: 2\n") == "f.yaml:2:1: a: is given twice; first in line 1"
    assert refusal("a:\n\tb: 1\n") == "f.yaml:2:1: cannot indent with a tab; use spaces"
    assert refusal('a: "\\ud800"\n') == "f.yaml:1:4: holds an escape for a character that is not allowed"


# JSON leaves DEL unescaped, YAML does not; a key in YAML has at most 1024 characters as written.
_CHARACTERS = st.text(
    st.characters(
        min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\x7f"
    ),
    max_size=150,
)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | _CHARACTERS,
        lambda inner: st.lists(inner) | st.dictionaries(_CHARACTERS, inner),
        max_leaves=20,
    )
)
def test_json_is_read_as_what_it_is(value: Any) -> None:
    assert data(json.dumps(value)) == value


@given(st.text() | st.binary())
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    try:
        parse_yaml(text, file="f.yaml")
    except DocumentError as error:
        assert all(problem.message for problem in error.problems)  # noqa: PT017 - either outcome is right


def test_positions() -> None:
    found = parse_yaml("a: 1\nb:\n  - x\n  - {c: y}\nd: &n {e: z}\nf: *n\n", file="f.yaml")
    assert found.position(()) == (1, 1)
    assert found.position(("a",)) == (1, 4)
    assert found.key_position(("a",)) == (1, 1)
    assert found.position(("b", 1, "c")) == (4, 9)
    assert found.key_position(("b", 1, "c")) == (4, 6)
    assert found.position(("b", 1, "nothing", 3)) == (4, 5)
    assert found.key_position(("b", 0)) == (3, 5)
    assert found.position(("f",)) == (6, 4)
    assert found.position(("f", "e")) == (5, 11)
    assert found.position(("nothing",)) == (1, 1)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((), ""),
        (("packages", 1), "packages[1]"),
        (("filesystem", "write", 1), "filesystem.write[1]"),
        (("set", "a b"), 'set["a b"]'),
        (("entry-point",), "entry-point"),
        (("m", "", 0), 'm[""][0]'),
        ((0, "x"), "[0].x"),
    ],
)
def test_field_names(path: tuple[str | int, ...], name: str) -> None:
    assert field_name(path) == name
