"""The account files as the first process reads and writes them: C code with any input, under sanitizers.

The expected result is stated twice: by a table, and by a model in Python for the inputs of hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.image.init import INIT
from support.thorough import examples

pytestmark = [pytest.mark.needs("gcc"), pytest.mark.timeout(180)]

NONE = (1 << 32) - 1


@dataclass(frozen=True)
class Case:
    """A file (None: it is missing), a name, and the numbers it gets."""

    file: bytes | None
    name: bytes = b"agent"
    uid: int = 501
    gid: int = 20
    kind: str = "u"

    def encode(self) -> bytes:
        size = -1 if self.file is None else len(self.file)
        head = b"%s %d %s %d %d %d\n" % (
            self.kind.encode(),
            len(self.name),
            self.name,
            self.uid,
            self.gid,
            size,
        )
        return head + (self.file or b"")


Found = tuple[int, int, bytes, bytes] | None
"""uid, gid, name and home."""


@dataclass(frozen=True)
class Answer:
    by_name: Found
    by_number: Found
    written: bytes


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("harness") / "harness"
    flags = ("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wconversion", f"-I{INIT.source}")
    checks = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-static-libasan")
    process.run("gcc", *flags, *checks, "-o", made, Path(__file__).parent / "accounts_harness.c", timeout=120)
    return made


def ask(harness: Path, cases: list[Case]) -> list[Answer]:
    result = process.run(harness, stdin=b"".join(map(Case.encode, cases)), timeout=60)
    answers = list(_answers(result.stdout))
    assert len(answers) == len(cases)
    return answers


def _answers(output: bytes) -> Iterator[Answer]:
    while output:
        by_name, output = _found(output)
        by_number, output = _found(output)
        size, _, output = output.partition(b"\n")
        yield Answer(by_name, by_number, output[: int(size)])
        output = output[int(size) :]


def _found(output: bytes) -> tuple[Found, bytes]:
    if output.startswith(b"none\n"):
        return None, output[5:]
    uid, gid, length, rest = output.split(b" ", 3)
    name, rest = rest[: int(length)], rest[int(length) + 1 :]
    length, _, rest = rest.partition(b" ")
    return (int(uid), int(gid), name, rest[: int(length)]), rest[int(length) + 1 :]


ROOT = b"root:x:0:0:root:/root:/bin/sh\n"
AGENT = b"agent:x:1000:1000:Agent,,,:/home/agent:/bin/sh\n"
MOVED = b"agent:x:501:20:Agent,,,:/home/agent:/bin/sh\n"
ITSELF = (1000, 1000, b"agent", b"/home/agent")

USERS = {
    "plain": (ROOT + AGENT, ITSELF, None, MOVED + ROOT),
    "without a line feed at its end": (ROOT + AGENT[:-1], ITSELF, None, MOVED + ROOT),
    "another has the number": (
        b"www:x:501:501::/var/www:/x\n" + AGENT,
        ITSELF,
        (501, 501, b"www", b"/var/www"),
        MOVED + b"www:x:501:501::/var/www:/x\n",
    ),
    "a name that begins like it": (
        b"agent2:x:5:5::/:/x\n" + AGENT + b"myagent:x:6:6::/:/x\n",
        ITSELF,
        None,
        MOVED + b"agent2:x:5:5::/:/x\nmyagent:x:6:6::/:/x\n",
    ),
    "the first of two counts": (
        AGENT + b"agent:x:0:0::/root:/bin/sh\n",
        ITSELF,
        None,
        MOVED,
    ),
    "its password goes": (
        b"agent:$6$x:1000:1000::/h:/s",
        (1000, 1000, b"agent", b"/h"),
        None,
        b"agent:x:501:20::/h:/s\n",
    ),
    "one that has none, too": (
        b"agent::1000:1000::/h:/s",
        (1000, 1000, b"agent", b"/h"),
        None,
        b"agent:x:501:20::/h:/s\n",
    ),
    "NIS and comments": (
        b"+agent:x:1:1::/:/\n+::::::\n-bad\n#agent:x:2:2::/:/\n" + AGENT,
        ITSELF,
        None,
        MOVED + b"+agent:x:1:1::/:/\n+::::::\n-bad\n#agent:x:2:2::/:/\n",
    ),
    "lines that end in CR LF": (
        AGENT[:-1] + b"\r\nx:x:501:1::/:/\r\n",
        ITSELF,
        (501, 1, b"x", b"/"),
        MOVED[:-1] + b"\r\nx:x:501:1::/:/\r\n",
    ),
    "empty lines stay": (b"\n\n" + AGENT + b"\n", ITSELF, None, MOVED + b"\n\n\n"),
    "fields too many": (
        b"agent:x:1000:1000::/h:/s:more:\n",
        (1000, 1000, b"agent", b"/h"),
        None,
        b"agent:x:501:20::/h:/s:more:\n",
    ),
    "a blank before it, which some C libraries pass over": (
        b" agent:x:501:1::/:/\n" + AGENT,
        ITSELF,
        (501, 1, b" agent", b"/"),
        MOVED + b" agent:x:501:1::/:/\n",
    ),
    "leading zeros": (
        b"agent:x:0001000:01::/h:/s",
        (1000, 1, b"agent", b"/h"),
        None,
        b"agent:x:501:20::/h:/s\n",
    ),
}
NO_ACCOUNT = {
    "no file": None,
    "an empty file": b"",
    "fields too few": b"agent:x:1000:1000::/home/agent\n",
    "no number": b"agent:x::1000::/:/\n",
    "a sign": b"agent:x:+1000:1000::/:/\nagent:x:-1:1::/:/\n",
    "white space": b"agent:x: 1000:1000::/:/\nagent:x:1000\t:1000::/:/\n",
    "hexadecimal": b"agent:x:0x3e8:1000::/:/\n",
    "none of the ids": b"agent:x:4294967295:1000::/:/\n",
    "past 32 bits, where some see 0": b"agent:x:4294967296:0::/:/\n",
    "past 64 bits": b"agent:x:18446744073709551616:0::/:/\n",
    "a gid past its end": b"agent:x:1:99999999999999999999::/:/\n",
    "a thousand digits": b"agent:x:" + b"9" * 1000 + b":0::/:/\n",
    "a line of a mebibyte": b"a" * (1 << 20),
    "colons only": b":" * 5000,
    "no name": b":x:1000:1000::/:/\n",
}
"""The name or number is not found; text without the name at its beginning stays as it is."""


@pytest.mark.parametrize("name", USERS)
def test_users(harness: Path, name: str) -> None:
    file, by_name, by_number, written = USERS[name]
    assert ask(harness, [Case(file)]) == [Answer(by_name, by_number, written)]


@pytest.mark.parametrize("name", NO_ACCOUNT)
def test_what_is_no_account(harness: Path, name: str) -> None:
    (answer,) = ask(harness, [Case(NO_ACCOUNT[name], uid=1000)])
    assert (answer.by_name, answer.by_number) == (None, None)


GROUPS = {
    "plain": (b"root:x:0:\nagent:x:1000:\n", (0, 1000, b"agent", b""), None, b"agent:x:20:\nroot:x:0:\n"),
    "members stay": (b"agent:x:1000:a,b\n", (0, 1000, b"agent", b""), None, b"agent:x:20:a,b\n"),
    "not there": (b"root:x:0:", None, None, b"agent:x:20:\nroot:x:0:\n"),
    "another has the number": (
        b"dialout:x:20:root\n",
        None,
        (0, 20, b"dialout", b""),
        b"agent:x:20:\ndialout:x:20:root\n",
    ),
    "no file": (None, None, None, b"agent:x:20:\n"),
}


@pytest.mark.parametrize("name", GROUPS)
def test_groups(harness: Path, name: str) -> None:
    file, by_name, by_number, written = GROUPS[name]
    assert ask(harness, [Case(file, kind="g")]) == [Answer(by_name, by_number, written)]


def model(case: Case) -> Answer:
    """An independent model of the C functions."""
    user = case.kind == "u"
    lines = [] if case.file is None else case.file.split(b"\n")
    entries = [entry for line in lines if (entry := _entry(line, user=user))]
    named = [entry for entry in entries if entry[0][2] == case.name]
    wanted = case.uid if user else case.gid
    numbered = [entry for entry in entries if entry[0][0 if user else 1] == wanted]
    numbers = b"%d:%d" % (case.uid, case.gid) if user else b"%d" % case.gid
    kept = [line for line in lines if not line.startswith(case.name + b":")]
    if lines and lines[-1] == b"":
        kept.pop()
    tail = named[0][1] if named else b""
    written = [b"%s:x:%s:%s" % (case.name, numbers, tail), *kept]
    return Answer(
        named[0][0] if named else None,
        numbered[0][0] if numbered else None,
        b"".join(line + b"\n" for line in written),
    )


def _entry(line: bytes, *, user: bool) -> tuple[tuple[int, int, bytes, bytes], bytes] | None:
    fields = line.split(b":")
    if len(fields) < (7 if user else 4) or not fields[0] or fields[0][:1] in (b"#", b"+", b"-", b"\0"):
        return None
    numbers = fields[2:4] if user else fields[2:3]
    if not all(_is_id(each) for each in numbers):
        return None
    ids = (int(fields[2]), int(fields[3])) if user else (0, int(fields[2]))
    return (*ids, fields[0], fields[5] if user else b""), b":".join(fields[4 if user else 3 :])


def _is_id(field: bytes) -> bool:
    return field.isdigit() and int(field) < NONE


NAMES = st.sampled_from([b"agent", b"root", b"a", b"www-data"])
IDS = st.one_of(st.integers(0, 3), st.sampled_from([1000, NONE - 1]))
FIELD = st.one_of(
    NAMES,
    st.sampled_from([b"", b"x", b"0", b"1", b"1000", b"4294967294", b"4294967295", b"00", b"+", b"#"]),
    st.binary(max_size=6),
)
LINE = st.lists(FIELD, max_size=9).map(b":".join)
FILE = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.tuples(st.lists(LINE, max_size=6), st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\0"])).map(
        lambda parts: parts[1].join(parts[0])
    ),
)
CASES = st.builds(Case, FILE, NAMES, IDS, IDS, st.sampled_from("ug"))


@settings(max_examples=examples(20))
@given(st.lists(CASES, min_size=20, max_size=60))
def test_anything(harness: Path, cases: list[Case]) -> None:
    assert ask(harness, cases) == [model(case) for case in cases]
