"""JSON that means one thing to every program that reads it."""

from __future__ import annotations

import json

import pytest

from sandwright.documents import strictjson

REFUSED = {
    "a key twice": (b'{"a": 1, "a": 2}', "key 'a' twice"),
    "a key twice inside": (b'[{"b": {"a": 1, "a": 2}}]', "key 'a' twice"),
    "no number": (b"NaN", "NaN is no number of JSON"),
    "infinity": (b"[-Infinity]", "-Infinity is no number of JSON"),
    "a number that is infinite": (b"1e999", "1e999 is larger than any number that is kept"),
    "nesting": (b"[" * 100_000, "nested too deep"),
    "too much": (b" " * ((16 << 20) + 1), "larger than 16 MiB"),
    "not UTF-8": (b'"\xff"', "can't decode byte 0xff"),
    "two values": (b"1 2", "Extra data"),
    "nothing": (b"", "Expecting value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    raw, message = REFUSED[name]
    for read in (strictjson.loads, strictjson.loads_record):
        with pytest.raises(ValueError, match=message):
            read(raw)


def test_what_is_read() -> None:
    text = '{"a": [1, 1.5, -2e3, true, null, "\\ud83d\\ude00 é"]}'
    for read in (strictjson.loads, strictjson.loads_record, strictjson.loads_lenient):
        assert read(text) == read(text.encode()) == json.loads(text)


def test_half_a_character_is_only_in_records_of_ours() -> None:
    name = "a\udcff"
    assert strictjson.loads_record(json.dumps(name)) == name
    with pytest.raises(ValueError, match="half of a character"):
        strictjson.loads(json.dumps(name).encode())


def test_answers_of_other_programs_may_repeat_a_key_and_are_bounded() -> None:
    assert strictjson.loads_lenient('{"a": 1, "a": 2}') == {"a": 2}
    with pytest.raises(ValueError, match="nested too deep"):
        strictjson.loads_lenient("[" * 100_000)
