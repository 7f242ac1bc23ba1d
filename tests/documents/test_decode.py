"""The decoding of documents to dataclasses, and the errors for documents that do not fit."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from sandwright.documents.checks import DISTINCT, NONEMPTY_LIST, NONEMPTY_TEXT, expected, in_range, matching
from sandwright.documents.decode import decode
from sandwright.documents.document import FieldErrors, without_positions
from sandwright.documents.model import ValueCheck, keys, plain
from sandwright.documents.record import decode_record, encode_record
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import DocumentError
from sandwright.session.absent_guard import GuardRecord
from sandwright.signalling import identity
from sandwright_kubernetes.records import JobRecord


def not_bad(value: str) -> str:
    if value == "bad":
        raise ValueError("is a bad title")
    return value


def whole(value: "Shapes") -> "Shapes":
    if value.title == "faulty":
        raise FieldErrors([(("inners", "x", "size"), "is too small"), (("words",), "are too few")])
    return value


@dataclass(frozen=True)
class Inner:
    name: Annotated[str, NONEMPTY_TEXT] = "n"
    size: int = 1
    edge_length: int = field(default=0, metadata={"key": "edge-length"})


@dataclass(frozen=True)
class Required:
    kind: Literal["circle", "square"]
    radius: Annotated[int, in_range(1, 9)]


@dataclass(frozen=True)
class ByName:
    debian: Literal["bookworm", "trixie"]


@dataclass(frozen=True)
class ByImage:
    image: Annotated[str, matching("[a-z]+", "a name")]


@dataclass(frozen=True)
class Shapes:
    title: Annotated[str, ValueCheck(not_bad)] = "t"
    schema: Literal[1] = 1
    count: Annotated[int, in_range(1, 9)] = 1
    ratio: float = 1.0
    flag: bool = False
    colour: Literal["red", "green"] = "red"
    words: tuple[str, ...] = ()
    unique: Annotated[tuple[str, ...], DISTINCT] = ()
    shapes: tuple[Required, ...] = ()
    base: ByName | ByImage | None = None
    text_or_list: str | tuple[str, ...] = ""
    owner: Annotated[str, matching("[a-z]+", "a name")] | Annotated[int, in_range(0, 9)] = "root"
    inner: Inner | None = None
    inners: dict[str, Inner] = field(default_factory=dict)
    names: dict[Annotated[str, matching("[A-Z]+", "a name in capitals")], str] = field(default_factory=dict)
    limit: Annotated[tuple[int, ...], NONEMPTY_LIST] = (1,)
    bytes_: Annotated[int, expected("a number of bytes", lambda each: type(each) is int and each >= 0)] = (
        field(default=0, metadata={"key": "bytes"})
    )
    anything: Any = None
    folder: str = field(default="", metadata={"key": None})


Thing = Annotated[Shapes, ValueCheck(whole)]


COMPLAINTS: dict[str, tuple[str, str]] = {
    "nothing at all": ("", "f.yaml:1:1: must be a mapping, not null"),
    "a list": ("- 1\n", "f.yaml:1:1: must be a mapping, not a list"),
    "a file of somebody else's": ("https://ada:s3cret@host\n", "f.yaml:1:1: must be a mapping, not text"),
    "a number alone": ("481516\n", "f.yaml:1:1: must be a mapping, not a number"),
    "an unknown key": ("titel: x\n", "f.yaml:1:1: titel: no such key; did you mean 'title'?"),
    "an unknown key inside": (
        "inner:\n  nam: x\n",
        "f.yaml:2:3: inner.nam: no such key; did you mean 'name'?",
    ),
    "an unknown key in a mapping of models": (
        "inners: {a: {sice: 1}}\n",
        "f.yaml:1:14: inners.a.sice: no such key; did you mean 'size'?",
    ),
    "a key like no other": (
        "inner: {xyz: 1}\n",
        "f.yaml:1:9: inner.xyz: no such key; there is name, size, edge-length",
    ),
    "text for a number": ("count: '1'\n", "f.yaml:1:8: count: must be a whole number, not '1'"),
    "a fraction for a whole number": ("count: 1.5\n", "f.yaml:1:8: count: must be a whole number, not 1.5"),
    "a truth value for a number": ("count: true\n", "f.yaml:1:8: count: must be a whole number, not true"),
    "text for a truth value": ("flag: yes\n", "f.yaml:1:7: flag: must be true or false, not 'yes'"),
    "a number for a truth value": ("flag: 1\n", "f.yaml:1:7: flag: must be true or false, not 1"),
    "a number for text": ("title: 1\n", "f.yaml:1:8: title: must be text, not 1; put it in quotes"),
    "a truth value for text": (
        "title: true\n",
        "f.yaml:1:8: title: must be text, not true; put it in quotes",
    ),
    "null for text": ("title:\n", "f.yaml:1:7: title: must be text, not null"),
    "a list for text": ("title: [a]\n", "f.yaml:1:8: title: must be text, not a list"),
    "text for a list": ("words: a\n", "f.yaml:1:8: words: must be a list, not 'a'"),
    "long text is cut": (
        f"words: {'a' * 70}\n",
        f"f.yaml:1:8: words: must be a list, not '{'a' * 57}...'",
    ),
    "a mapping for a list": ("unique: {}\n", "f.yaml:1:9: unique: must be a list, not a mapping"),
    "an item that is wrong": (
        "words: [a, 2]\n",
        "f.yaml:1:12: words[1]: must be text, not 2; put it in quotes",
    ),
    "a value that is none of an enum's": (
        "colour: gren\n",
        "f.yaml:1:9: colour: must be one of red, green, not 'gren'; did you mean 'green'?",
    ),
    "too little": ("count: 0\n", "f.yaml:1:8: count: must be at least 1, not 0"),
    "too much": ("count: 10\n", "f.yaml:1:8: count: must be at most 9, not 10"),
    "infinite": ("count: .inf\n", "f.yaml:1:8: count: must be a whole number, not inf"),
    "empty text": ("inner: {name: ''}\n", "f.yaml:1:15: inner.name: must not be empty"),
    "an empty list": ("limit: []\n", "f.yaml:1:8: limit: must not be empty"),
    "an item twice": ("unique: [a, b, a]\n", "f.yaml:1:16: unique[2]: 'a' is there twice"),
    "a version that only equals it": ("schema: true\n", "f.yaml:1:9: schema: must be one of 1, not true"),
    "a version that is not this one": ("schema: 2\n", "f.yaml:1:9: schema: must be one of 1, not 2"),
    "a value that a predicate refuses": ("bytes: -1\n", "f.yaml:1:8: bytes: must be a number of bytes"),
    "a kind that a predicate refuses": ("bytes: x\n", "f.yaml:1:8: bytes: must be a number of bytes"),
    "a scalar of several kinds": (
        "owner: true\n",
        "f.yaml:1:8: owner: must be text or a whole number, not true",
    ),
    "one kind of several that does not fit": ("owner: 10\n", "f.yaml:1:8: owner: must be at most 9, not 10"),
    "a field that no document has": (
        "inner: {}\nfolder: x\n",
        "f.yaml:2:1: folder: no such key; there is title, schema, count, ratio, flag, colour, words, unique, "
        "shapes, base, text_or_list, owner, inner, inners, names, limit, bytes, anything",
    ),
    "a key that does not match": (
        "names: {a: x}\n",
        "f.yaml:1:9: names.a: 'a' is not a name in capitals",
    ),
    "a key that is missing": ("shapes:\n- radius: 1\n", "f.yaml:2:3: shapes[0].kind: is required"),
    "a field of an item": (
        "shapes:\n- {kind: circle, radius: 10}\n",
        "f.yaml:2:26: shapes[0].radius: must be at most 9, not 10",
    ),
    "a key with another name in Python": (
        "inner: {edge_length: 10}\n",
        "f.yaml:1:9: inner.edge_length: no such key; did you mean 'edge-length'?",
    ),
    "the right form of two is found by its key": (
        "base: {debian: bookwurm}\n",
        "f.yaml:1:16: base.debian: must be one of bookworm, trixie, not 'bookwurm'; did you mean 'bookworm'?",
    ),
    "the right form of two is found by a key like its own": (
        "base: {debain: bookworm}\n",
        "f.yaml:1:7: base.debian: is required\nf.yaml:1:8: base.debain: no such key; did you mean 'debian'?",
    ),
    "neither form": ("base: {other: 1}\n", "f.yaml:1:8: base.other: no such key; there is debian, image"),
    "nothing of either form": ("base: {}\n", "f.yaml:1:7: base: must have one of debian, image"),
    "both forms": (
        "base: {image: a, debian: bookworm}\n",
        "f.yaml:1:7: base: can have only one of debian, image",
    ),
    "a scalar for forms": ("base: debian\n", "f.yaml:1:7: base: must be a mapping, not 'debian'"),
    "none of several kinds": (
        "text_or_list: {}\n",
        "f.yaml:1:15: text_or_list: must be text or a list, not a mapping",
    ),
    "an item in one of several kinds": (
        "text_or_list: [a, 1]\n",
        "f.yaml:1:19: text_or_list[1]: must be text, not 1; put it in quotes",
    ),
    "a validator's words": ("title: bad\n", "f.yaml:1:8: title: is a bad title"),
    "faults that a validator found inside": (
        "title: faulty\ninners:\n  x: {size: 3}\n",
        "f.yaml:1:1: words: are too few\nf.yaml:3:13: inners.x.size: is too small",
    ),
    "all at once, in order": (
        "title: 1\nxyzzy: 1\ncount: x\ninner: {size: y}\n",
        "f.yaml:1:8: title: must be text, not 1; put it in quotes\n"
        "f.yaml:2:1: xyzzy: no such key; there is title, schema, count, ratio, flag, colour, words, unique, "
        "shapes, base, text_or_list, owner, inner, inners, names, limit, bytes, anything\n"
        "f.yaml:3:8: count: must be a whole number, not 'x'\n"
        "f.yaml:4:15: inner.size: must be a whole number, not 'y'",
    ),
}


@pytest.mark.parametrize(("text", "message"), COMPLAINTS.values(), ids=COMPLAINTS.keys())
def test_a_document_that_does_not_fit(text: str, message: str) -> None:
    with pytest.raises(DocumentError) as caught:
        decode(Thing, parse_yaml(text, file="f.yaml"))
    assert str(caught.value) == message


FILLED = """\
title: no
ratio: 2
flag: true
colour: green
words: [a, b]
unique: [c]
shapes: [{kind: square, radius: 4}]
base: {image: x}
owner: 7
inners: {q: {name: z, edge-length: 3}}
anything: [1, {a: b}]
"""


def test_a_document_that_fits() -> None:
    assert decode(Shapes, parse_yaml(FILLED, file="f.yaml")) == Shapes(
        title="no",
        ratio=2.0,
        flag=True,
        colour="green",
        words=("a", "b"),
        unique=("c",),
        shapes=(Required("square", 4),),
        base=ByImage("x"),
        owner=7,
        inners={"q": Inner("z", edge_length=3)},
        anything=[1, {"a": "b"}],
    )


def test_what_is_decoded_is_written_as_it_was_read() -> None:
    document = parse_yaml(FILLED, file="f.yaml")
    written = plain(decode(Shapes, document))
    assert set(written) == {key.name for key in keys(Shapes)}
    assert "folder" not in written
    assert written["inners"] == {"q": {"name": "z", "size": 1, "edge-length": 3}}
    assert decode(Shapes, without_positions(written, file="f")) == decode(Shapes, document)


def test_the_context_reaches_checks() -> None:
    @dataclass(frozen=True)
    class Asking:
        word: Annotated[str, ValueCheck(lambda value, suffix: value + suffix, context=True)]

    assert decode(Asking, parse_yaml("word: a", file="f"), context="b").word == "ab"


def test_a_document_without_positions_names_file_and_field() -> None:
    with pytest.raises(DocumentError, match=r"^f\.json: inner\.size: must be a whole number, not 'x'$"):
        decode(Shapes, without_positions({"inner": {"size": "x"}}, file="f.json"))


def test_records_of_processes_are_read_as_they_were_written() -> None:
    record = GuardRecord(process=identity(), policy="/p", absent=("/a",))
    assert decode_record(GuardRecord, encode_record(record)) == record
    job = JobRecord("s", "j", "n", "k", "c", record.process)
    assert decode_record(JobRecord, encode_record(job)) == job


def test_postponed_annotations_are_refused_before_anything_is_written() -> None:
    @dataclass(frozen=True)
    class Postponed:
        size: "int"

    for use in (lambda: plain(Postponed(1)), lambda: decode(Postponed, parse_yaml("size: 1", file="f"))):
        with pytest.raises(TypeError, match="postpones the annotations"):
            use()
