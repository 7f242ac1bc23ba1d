"""C that parses survives any bytes (fuzz): plans of mounts, mountinfo, and more.

Tests of launcher/source/diag.c: the files to which listening Unix sockets are bound.
Tests of launcher/source/document.c.
Tests of launcher/source/filter.c: a seccomp filter answers as the evaluator says.
Tests of launcher/source/line.c.
Tests of launcher/source/mountinfo.c.
Tests of launcher/source/vm_relay.c.
Tests of launcher/source/watch_plan.c.
"""

from __future__ import annotations

import io
import lzma
import random
import re
import struct
import subprocess
from pathlib import Path

import pytest

from sandwright.evaluate.bpf import SystemCall, read_program, run_program
from sandwright.launcher import LAUNCH
from sandwright.seccomp import compile_profile, profile
from sandwright.seccomp.action import from_value
from sandwright.seccomp.adapt import own_unix
from support.sanitized import HARNESS, built, fed
from support.thorough import THOROUGH

CORPUS = HARNESS.with_name("corpus")
FOUND = HARNESS.with_name("found.xz")

HEAD = b"sandwright-mounts\x001\x00"
LINES = (
    b"20 1 254:0 / / ro,relatime shared:1 - ext4 /dev/vda rw\n"
    b"21 20 0:5 / /a rw,nosuid master:3 - tmpfs tmpfs rw\n"
    b"22 21 0:6 /x /a/b ro - tmpfs tmpfs rw\n"
    b"23 20 0:7 / /a\\040b ro - tmpfs tmpfs rw\n"
    b"24 21 0:8 / /a rw - tmpfs tmpfs rw\n"
)


def record(kind: bytes = b"read", target: bytes = b"/a", source: bytes = b"/b", flags: bytes = b"w") -> bytes:
    return b"\0".join((kind, target, source, flags, b""))


def found() -> list[bytes]:
    """The inputs of FOUND, each after its length, as the harness reads them."""
    content = io.BytesIO(lzma.decompress(FOUND.read_bytes()))
    return [content.read(int.from_bytes(head, "little")) for head in iter(lambda: content.read(4), b"")]


@pytest.mark.needs("cc")
def test_plans(harness: Path) -> None:
    told = {
        HEAD: "0",
        HEAD + record(): "1",
        HEAD + record() + record(b"own", b"/", b"", b"o"): "2",
        b"": "it is not a mount plan",
        HEAD[:-1]: "it is not a mount plan",
        b"x\x001\x00": "it is not a mount plan",
        b"sandwright-mounts\x002\x00": "unsupported version",
        (HEAD + record())[:-1]: "it is truncated",
        HEAD + b"read\0/a\0": "it is truncated",
        HEAD + record(kind=b"reads"): "unknown kind of mount",
        HEAD + record(flags=b"x"): "unknown flag",
        HEAD + record(source=b""): "a mount without its path on the host",
    }
    bad = (b"", b"a", b"//", b"/a/", b"/a//b", b"/a/../b", b"/.", b"/..", b"/a/.")
    told |= {HEAD + record(target=path): "a path that is not absolute and normalized" for path in bad}
    assert fed(harness, [b"m" + each for each in told]) == list(told.values())


@pytest.mark.needs("cc")
def test_what_is_seen_at_a_path(harness: Path) -> None:
    """A mount hides everything below its path."""
    assert fed(harness, [b"i" + each for each in (LINES, b"", b"1 2 3\n")]) == [
        "1 5 20 24 24 23",
        "0 0",
        "0 1",
    ]


def message(kind: int, body: bytes = b"", sequence: int = 1, flags: int = 2) -> bytes:
    """A message of netlink(7), at its offset in a datagram."""
    whole = struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body
    return whole + b"\0" * (-len(whole) % 4)


def attribute(kind: int, body: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(body), kind) + body + b"\0" * (-len(body) % 4)


def bound(device: int, inode: int) -> bytes:
    """A socket of unix_diag: a name (0), and the file to which it is bound (1)."""
    own = struct.pack("=BBBBIII", 1, 1, 10, 0, 77, 0, 0)
    return message(20, own + attribute(0, b"/a") + attribute(1, struct.pack("=II", inode, device)))


@pytest.mark.needs("cc")
def test_answers_about_sockets(harness: Path) -> None:
    done = message(3, b"\0\0\0\0")
    told = {
        bound(2, 3): "more found",
        bound(2, 4) + bound(3, 3): "more",
        bound(2, 4) + bound(2, 3) + done: "end found",
        done + bound(2, 3): "end",
        message(3, b"\0\0\0\0", flags=0x12): "end cut",
        message(2, b"\0\0\0\0"): "fault",
        message(2, b"\0\0\0\0", sequence=9): "more",
        b"": "more",
        bound(2, 3)[:-4]: "fault",
        bound(2, 3) + b"\1": "fault found",
        struct.pack("=IHHII", 15, 20, 2, 1, 0): "fault",
        message(20, struct.pack("=BBBBIII", 1, 1, 10, 0, 77, 0, 0) + b"\3\0\1\0"): "more",
        message(20, struct.pack("=BBBBIII", 1, 1, 10, 0, 77, 0, 0) + b"\x63\0\1\0abcd"): "more",
    }
    assert fed(harness, [b"q" + each for each in told]) == list(told.values())


@pytest.mark.needs("cc")
def test_addresses_of_sockets(harness: Path) -> None:
    told = {
        b"\1\0/a\0": "path /a",
        b"\1\0/a": "path /a",
        b"\1\0" + b"x" * 108: "path " + "x" * 108,
        b"\1\0" + b"x" * 109: "wrong ",
        b"\1\0\0a": "abstract ",
        b"\1\0": "wrong ",
        b"\1": "wrong ",
        b"": "wrong ",
        b"\0\0": "none ",
        b"\2\0\0\0\0\0": "other ",
    }
    assert fed(harness, [b"a" + each for each in told]) == list(told.values())


def _call(audit: int, number: int, *arguments: int) -> bytes:
    """A `struct seccomp_data`."""
    return struct.pack("<iIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))


@pytest.mark.needs("cc")
@pytest.mark.parametrize("name", ["default", "strict", "build"])
def test_a_filter_answers_as_the_evaluator_says(harness: Path, name: str) -> None:
    """For each system call, with partly granted arguments; another interpreter is the reference."""
    raw = compile_profile(own_unix(profile(name).expand(arch=("amd64",))), arch="amd64")
    program = read_program(raw, file="filter")
    values = (0, 1, 2, 3, 10, 16, 0x10000000, 0x20000, 0x541C, 0xFFFFFFFF, 1 << 40)
    calls = [
        (audit, number, one, other)
        for audit in (0xC000003E, 0x40000003, 0xC00000B7)
        for number in (*range(470), 0x40000029, 2000)
        for one, other in (
            (0, 0),
            *random.Random(number).choices([(a, b) for a in values for b in values], k=6),
        )
    ]
    said = fed(harness, [b"f" + _call(*each) + raw for each in calls])
    assert len(set(said)) > 3
    for each, answer in zip(calls, said, strict=True):
        audit, number, one, other = each
        expected = run_program(program, SystemCall(number, audit, (one, other, 0, 0, 0, 0)))
        assert from_value(int(answer, 16)) == expected, each


@pytest.mark.needs("cc")
def test_filters_that_are_not_known(harness: Path) -> None:
    def instruction(code: int, k: int = 0, true: int = 0, false: int = 0) -> bytes:
        return struct.pack("<HBBI", code, true, false, k)

    end = instruction(0x06, 0x7FFF0000)
    bad = (
        b"",
        end[:-1],
        instruction(0x20, 0),  # without an end
        instruction(0x20, 64) + end,  # after the call's data
        instruction(0x20, 2) + end,  # between words
        instruction(0x05, 1) + end,
        instruction(0x15, 1, 0, 1) + end,
        instruction(0x15, 1, 255, 0) + end,
        instruction(0x05, 0xFFFFFFFF) + end,
        instruction(0x60, 0) + end,  # scratch memory
        end * 5000,
    )
    told = fed(harness, [b"f" + _call(0xC000003E, 1) + each for each in (*bad, end)])
    assert told == [*["not known"] * len(bad), "7fff0000"]


def frame(kind: bytes, *numbers: int, body: bytes = b"") -> bytes:
    """A frame of the line to a guest kernel."""
    content = struct.pack(f"<{len(numbers)}i", *numbers) + body
    return kind + struct.pack("<I", len(content)) + content


def test_each_frame_of_the_line_has_its_own_letter() -> None:
    """A compiler does not notice that a letter has two meanings in two functions."""
    source = (LAUNCH.source / "line.h").read_text().partition("enum frame {")[2].partition("};")[0]
    letters = re.findall(r"= '(.)'", source)
    assert len(letters) == len(set(letters)) > 30


BEGIN, BYTES, TAKEN, CLOSE = b"3", b"4", b"5", b"6"
THERE, NOBODY, LATER = 3, 4, 5  # ports of the harness
AHEAD = 1 << 15


@pytest.mark.needs("cc")
def test_connections_of_a_kernel_that_was_taken_over(harness: Path) -> None:
    """The number of accepted frames, of which the last may break the rules; the kernel uses odd numbers."""
    begun, later = frame(BEGIN, 1, THERE), frame(BEGIN, 1, LATER)
    right = {
        frame(BEGIN, 255, THERE): 1,
        begun + frame(BYTES, 1, body=b"a" * AHEAD) + frame(BYTES, 1) + frame(TAKEN, 1, 100): 4,
        begun + frame(BYTES, 1) + frame(CLOSE, 1): 3,
        later + frame(BYTES, 1, body=b"a" * AHEAD): 2,
        frame(BEGIN, 1, NOBODY) + frame(BYTES, 1, body=b"a") + frame(CLOSE, 1) + begun: 4,
        b"".join(frame(BEGIN, each, THERE) for each in range(1, 256, 2)): 128,
        begun + (frame(BYTES, 1, body=b"a")) * 3000: 3001,
    }
    wrong = {
        frame(BEGIN, 0, THERE): 0,  # ours
        frame(BEGIN, -1, THERE): 0,
        frame(BEGIN, 257, THERE): 0,
        frame(BEGIN, 1, 0): 0,
        frame(BEGIN, 1, 65536): 0,
        frame(BEGIN, 1): 0,
        frame(BEGIN, 1, THERE, 0): 0,
        frame(BYTES): 0,
        frame(BYTES, 1, body=b"a"): 0,
        frame(TAKEN, 1, 1): 0,
        frame(CLOSE, 1): 0,
        frame(b"O", 1): 0,
        begun + begun: 1,
        begun + frame(BYTES, 1, body=b"a" * (AHEAD + 1)): 1,
        later + frame(BYTES, 1, body=b"a" * AHEAD) + frame(BYTES, 1, body=b"a"): 2,
        begun + frame(BYTES, 1) + frame(BYTES, 1, body=b"a"): 2,
        begun + frame(BYTES, 1) + frame(BYTES, 1): 2,
        begun + frame(CLOSE, 1) + frame(BYTES, 1, body=b"a"): 2,
        later + frame(CLOSE, 1) + frame(CLOSE, 1): 2,
        begun + frame(TAKEN, 1, 101): 1,
        begun + frame(TAKEN, 1, 0): 1,
        begun + frame(TAKEN, 1, -5): 1,
    }
    told = fed(harness, [b"g\0" + each for each in (*right, *wrong)])
    assert [each.split()[:2] for each in told] == [
        *(["1", str(count)] for count in right.values()),
        *(["0", str(count)] for count in wrong.values()),
    ]


@pytest.mark.needs("cc")
def test_what_a_kernel_that_was_taken_over_says_to_the_relay(harness: Path) -> None:
    """The relay sends no more than the kernel may receive, whatever it claims: the harness checks counts."""
    most = 1 << 31
    told = {
        b"": "nothing",
        frame(b"R"): "ready",
        b"".join(frame(each, most - 1) for each in (b"L", b"A", b"K")): "ready",
        b"".join(frame(each, -most) for each in (b"L", b"A", b"K")): "ready",
        frame(b"K", 4096) * 300: "nothing",
        frame(b"A") + frame(b"A", 1, 1): "nothing",
        frame(b"O", body=b"x" * 5000) + frame(b"E", body=b"y"): "nothing",
        frame(b"R") + frame(b"Z") * 9: "ready",
        frame(b"R") + frame(b"X", 3) + b"\xff" * 9: "ended",
        frame(b"M", body=b"\x1b[2Jno"): "refused",
        frame(b"i", body=b"x"): "refused",  # only the relay sends this
        frame(b"B", 0, 0, 4096, 1): "refused",
        b"O" + struct.pack("<I", (1 << 21) + 1): "refused",
        frame(BEGIN, 1, THERE) + frame(CLOSE, 1): "nothing",
        frame(CLOSE, 1): "refused",
    }
    assert fed(harness, [b"x" + each for each in told]) == list(told.values())


@pytest.mark.needs("cc")
def test_what_proc_tells_of_a_caller(harness: Path) -> None:
    """Signals that it would handle now, and the device of a mount."""
    sets = b"Name:\tx\nSigPnd:\t%s\nShdPnd:\t%s\nSigBlk:\t%s\nSigIgn:\t%s\n"
    told = {
        b"u" + sets % (b"0", b"0", b"0", b"0"): "0",
        b"u" + sets % (b"0", b"2000", b"0", b"0"): "1",
        b"u" + sets % (b"200", b"0", b"0", b"0"): "1",
        b"u" + sets % (b"0", b"2000", b"2000", b"0"): "0",
        b"u" + sets % (b"0", b"2000", b"0", b"2000"): "0",
        b"u": "0",
        b"w" + LINES: "1 8",
        b"w" + LINES.replace(b"24 21 0:8", b"24 21 254:16"): "1 fe00010",
        b"w" + LINES.replace(b"24 21", b"25 21"): "0 0",
        b"w": "0 0",
    }
    assert fed(harness, list(told)) == list(told.values())


@pytest.mark.needs("cc")
@pytest.mark.parametrize("name", sorted(each.name for each in CORPUS.iterdir()))
def test_hostile_bytes(harness: Path, name: str) -> None:
    """All prefixes of valid input, and mutations of it. A fuzzer starts from the same inputs."""
    right = (CORPUS / name).read_bytes()
    chance = random.Random(right)
    inputs = [right[:length] for length in range(len(right))]
    for _ in range(300_000 if THOROUGH else 1_000):
        changed = bytearray(right)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(1, len(changed) + 1)
            other = bytes([chance.choice(b'\0 \n/.-\\0129a{}":,\xff')])
            piece = right[chance.randrange(1, len(right)) :][: chance.randrange(40)]
            changed[at : at + chance.choice((0, 1, 1, 1, 9))] = chance.choice((other, other, piece))
        inputs.append(bytes(changed))
    assert len(fed(harness, inputs)) == len(inputs)


@pytest.mark.needs("cc")
def test_what_a_fuzzer_found(harness: Path) -> None:
    """The inputs that reached more of the code in hours of libFuzzer."""
    inputs = found()
    assert len(fed(harness, inputs)) == len(inputs) > 500


@pytest.mark.skipif(not THOROUGH, reason="clang is big, and only `invoke test --thorough` asks for it")
@pytest.mark.needs("clang")
def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    """The fuzzer runs for a minute, from the corpus of longer runs."""
    fuzzer = built(tmp_path / "fuzzer", "clang", "-fsanitize=fuzzer,address,undefined")
    for number, each in enumerate(found()):
        (tmp_path / f"found-{number}").write_bytes(each)
    words = ("-max_total_time=60", f"-artifact_prefix={tmp_path}/", tmp_path, CORPUS)
    ended = subprocess.run([fuzzer, *words], capture_output=True, timeout=180, check=False)
    assert ended.returncode == 0, ended.stderr.decode("utf-8", "replace")[-4000:]
