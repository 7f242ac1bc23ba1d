"""The reader of profiles: its data with their positions, and the texts that it refuses."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.evaluate.sbpl.datum import (
    NIL,
    Char,
    Pair,
    Symbol,
    Value,
    Vector,
    scheme_list,
    symbol,
    write_datum,
)
from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.reader import MAX_NESTING, MAX_SIZE, Datum, one_line, read_data
from sandwright.evaluate.sbpl.source import SourceFile, Span, octets, readable


def read_all_data(text: str | bytes, *, file: str = "profile.sb") -> list[Datum]:
    return list(read_data(SourceFile(file, text)))


def shown(text: str | bytes) -> list[str]:
    return [readable(write_datum(datum.value)) for datum in read_all_data(text)]


READ = {
    "nothing": ("", []),
    "only comments": ("; one\n#! two\n  #| three #| nested |# |#", []),
    "list": ("(a (b c) ())", ["(a (b c) ())"]),
    "dotted": ("(a b . c)", ["(a b . c)"]),
    "dot in a name": ("(a .b ...)", ["(a .b ...)"]),
    "quotes": ("'a `(b ,c ,@d)", ["(quote a)", "(quasiquote (b (unquote c) (unquote-splicing d)))"]),
    "numbers": (
        "1 -2 +3 1.5 -.5 1e3 #x1F #o4000 #b101 #d9",
        ["1", "-2", "3", "1.5", "-0.5", "1000.0", "31", "2048", "5", "9"],
    ),
    "truth": ("#t #f", ["#t", "#f"]),
    "characters": (
        r"#\a #\space #\x41 #\x #\( #\newline",
        [r"#\a", r"#\space", r"#\A", r"#\x", r"#\(", r"#\newline"],
    ),
    "vector": ("#(1 (2) #())", ["#(1 (2) #())"]),
    "datum comment": ("(a #;(b c) d #;e)", ["(a d)"]),
    "datum comment before a quote": ("#;'a b", ["b"]),
    "case counts": ("AF_SYSTEM af_system", ["AF_SYSTEM", "af_system"]),
    "quote mark inside a name": ("ab'c", ["ab'c"]),
    "string after a name": ('a"b"', ['a"b"']),
    "raw string": (r'#"^/a\.b\\c$"', [r'"^/a\\.b\\\\c$"']),
    "raw string over lines": ('#"a\nb"', [r'"a\nb"']),
    "square brackets are letters": ("[a]", ["[a]"]),
    "utf-8": ('"é" é', ['"é"', "é"]),
}


@pytest.mark.parametrize(("text", "expected"), READ.values(), ids=READ)
def test_reads(text: str, expected: list[str]) -> None:
    assert shown(text) == expected


STRINGS = {
    "plain": (r'"abc"', "abc"),
    "quote and backslash": (r'"a\"b\\c"', 'a"b\\c'),
    "newline tab return": (r'"\n\t\r"', "\n\t\r"),
    "hexadecimal": (r'"\x41\X42"', "AB"),
    "octal": (r'"\101\7"', "A\x07"),
    "octal takes three digits": (r'"\1011"', "A1"),
    "an unknown escape is its letter": (r'"\u00e9\b\f\."', "u00e9bf."),
    "newline as it is": ('"a\nb"', "a\nb"),
    "bytes of UTF-8": (r'"\xc3\xa9"', octets("é")),
    "comment sign inside": ('"a;b"', "a;b"),
}


@pytest.mark.parametrize(("text", "expected"), STRINGS.values(), ids=STRINGS)
def test_reads_strings(text: str, expected: str) -> None:
    (datum,) = read_all_data(text)
    assert datum.value == expected


REFUSED = {
    "open list": ("(a\n  (b c)", "p.sb:1:1: this list is never closed"),
    "open inner list": ("(a\n  (b c", "p.sb:2:3: this list is never closed"),
    "too many closed": ("(a))\n", "p.sb:1:4: this ) closes nothing"),
    "open string": ('(a\n "b', "p.sb:2:2: this string is never closed"),
    "string that ends in a backslash": ('"a\\"', "p.sb:1:1: this string is never closed"),
    "open raw string": ('(a #"b', "p.sb:1:4: this raw string is never closed"),
    "open comment": ("a #| b #| c |#", "p.sb:1:3: this block comment is never closed"),
    "open vector": ("#(a", "p.sb:1:1: this vector is never closed"),
    "quote before nothing": ("(a ')", "p.sb:1:4: nothing follows this quotation"),
    "quote at the end": ("'", "p.sb:1:1: nothing follows this quotation"),
    "dot first": ("(. a)", "p.sb:1:2: a dot must stand between the last two data of a list"),
    "two after a dot": ("(a . b c)", "p.sb:1:8: exactly one datum must follow the dot of a list"),
    "none after a dot": ("(a . )", "p.sb:1:6: exactly one datum must follow the dot of a list"),
    "two dots": ("(a . . b)", "p.sb:1:6: a dot must stand between the last two data of a list"),
    "dot alone": (" .", "p.sb:1:2: a dot must stand between the last two data of a list"),
    "unknown sharp": ("#q", "p.sb:1:1: #q is an unknown # expression"),
    "no octal number": ("#o9", "p.sb:1:1: #o9 is an unknown # expression"),
    "no character": (r"#\foo", r"p.sb:1:1: #\foo is no character"),
    "half a hexadecimal escape": (r'"\x4"', r"p.sb:1:1: \x in a string needs two hexadecimal digits"),
    "octal above a byte": (r'"\777"', r"p.sb:1:1: \777 is no byte"),
    "NUL": ("(a \0)", "p.sb:1:4: a profile cannot hold the byte 0x00"),
    "a number of 100 digits": ("9" * 100, "p.sb:1:1: this number is too long"),
    "columns are characters": ('("éé" ]))', "p.sb:1:9: this ) closes nothing"),
    "deep nesting": ("(" * 600, f"p.sb:1:{MAX_NESTING + 1}: lists nest deeper than {MAX_NESTING}"),
    "size": (" " * (MAX_SIZE + 1), f"p.sb:1:1: the profile is longer than {MAX_SIZE} bytes"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        read_all_data(text, file="p.sb")
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def test_every_datum_knows_its_place() -> None:
    (datum,) = read_all_data('(allow\n   file-read*  ; why\n   (literal "é" 12))', file="p.sb")
    places = []
    rest = datum.value
    while isinstance(rest, Pair):
        assert rest.origin is not None
        places.append((str(rest.origin.position), rest.origin.text))
        rest = rest.cdr
    assert str(datum.span.position) == "p.sb:1:1"
    assert places == [
        ("p.sb:1:2", "allow"),
        ("p.sb:2:4", "file-read*"),
        ("p.sb:3:4", '(literal "é" 12)'),
    ]


def test_columns_count_characters_not_bytes() -> None:
    first, second = read_all_data('"日本" x', file="p.sb")
    assert (first.span.position.column, second.span.position.column) == (1, 6)


def test_invalid_utf8_passes_through() -> None:
    (datum,) = read_all_data(b'"\xff\xfe"')
    assert datum.value == "\xff\xfe"


def test_one_line_drops_comments_and_keeps_spelling() -> None:
    text = '(allow file-read*   ; one  two\n   (regex #"^/a;b\\.c$"   "x  y")\n  \'z )'
    source = SourceFile("p.sb", text)
    assert one_line(Span(source, 0, len(text))) == '(allow file-read* (regex #"^/a;b\\.c$" "x  y") \'z)'


octet_text = st.text(st.characters(max_codepoint=255)).map(str)
names = st.from_regex(r"[a-zA-Z%*!?<>=/_.-][a-zA-Z0-9%*!?<>=/_.:-]*", fullmatch=True).filter(
    lambda name: name not in (".",) and not name.replace(".", "", 1).isdigit() and name[0] not in ".+-"
)
atoms: st.SearchStrategy[Value] = st.one_of(
    octet_text,
    names.map(symbol),
    st.integers(-(2**62), 2**62),
    st.booleans(),
    st.characters(max_codepoint=255).map(Char),
    st.just(NIL),
)
data: st.SearchStrategy[Value] = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5).map(scheme_list),
        st.tuples(st.lists(inner, min_size=1, max_size=3), names.map(symbol)).map(
            lambda pair: scheme_list(*pair)
        ),
        st.lists(inner, max_size=3).map(Vector),
    ),
    max_leaves=20,
)


def same(left: Value, right: Value) -> bool:
    """Structural equality of data, written without the code under test."""
    if isinstance(left, Pair):
        return isinstance(right, Pair) and same(left.car, right.car) and same(left.cdr, right.cdr)
    if isinstance(left, Vector):
        return isinstance(right, Vector) and all(map(same, left.items, right.items))
    if isinstance(left, Symbol):
        return left is right
    return type(left) is type(right) and left == right


@given(data)
def test_what_is_written_reads_back(value: Value) -> None:
    (datum,) = read_all_data(write_datum(value).encode("latin-1"))
    assert same(datum.value, value)


@given(st.text())
def test_any_text_reads_or_is_refused_with_a_place(text: str) -> None:
    fault: ProfileError | None = None
    try:
        read_all_data(text, file="p.sb")
    except ProfileError as error:
        fault = error
    if fault is not None:
        assert re.match(r"p\.sb:[1-9]\d*:[1-9]\d*: ", str(fault))
