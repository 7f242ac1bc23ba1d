"""What the launcher parses: plans of mounts and mountinfo are read, and hostile bytes do nothing."""

from __future__ import annotations

import io
import lzma
import random
import subprocess
from pathlib import Path

import pytest

from sanitized import HARNESS, built, fed
from thorough import THOROUGH

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
    """The inputs of FOUND, each behind its length, as the harness reads them."""
    content = io.BytesIO(lzma.decompress(FOUND.read_bytes()))
    return [content.read(int.from_bytes(head, "little")) for head in iter(lambda: content.read(4), b"")]


@pytest.mark.needs("cc")
def test_plans(harness: Path) -> None:
    told = {
        HEAD: "0",
        HEAD + record(): "1",
        HEAD + record() + record(b"own", b"/", b"", b"o"): "2",
        b"": "it is no plan of mounts",
        HEAD[:-1]: "it is no plan of mounts",
        b"x\x001\x00": "it is no plan of mounts",
        b"sandwright-mounts\x002\x00": "it has another version",
        (HEAD + record())[:-1]: "it ends in the middle",
        HEAD + b"read\0/a\0": "it ends in the middle",
        HEAD + record(kind=b"reads"): "a kind of mount that is not known",
        HEAD + record(flags=b"x"): "a flag that is not known",
        HEAD + record(source=b""): "a mount without its path on the host",
    }
    bad = (b"", b"a", b"//", b"/a/", b"/a//b", b"/a/../b", b"/.", b"/..", b"/a/.")
    told |= {HEAD + record(target=path): "a path that is not absolute and plain" for path in bad}
    assert fed(harness, [b"m" + each for each in told]) == list(told.values())


@pytest.mark.needs("cc")
def test_what_is_seen_at_a_path(harness: Path) -> None:
    """What lies over something hides what is below that too."""
    assert fed(harness, [b"i" + each for each in (LINES, b"", b"1 2 3\n")]) == [
        "1 5 20 24 24 23",
        "0 0",
        "0 1",
    ]


@pytest.mark.needs("cc")
@pytest.mark.parametrize("name", sorted(each.name for each in CORPUS.iterdir()))
def test_hostile_bytes(harness: Path, name: str) -> None:
    """Every beginning of what is right, and mutations of it. A fuzzer starts from the same."""
    right = (CORPUS / name).read_bytes()
    chance = random.Random(right)
    inputs = [right[:length] for length in range(len(right))]
    for _ in range(300_000 if THOROUGH else 3_000):
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
    """What hours of libFuzzer left of the inputs that reach something more."""
    inputs = found()
    assert len(fed(harness, inputs)) == len(inputs) > 500


@pytest.mark.skipif(not THOROUGH, reason="clang is big, and only `invoke test --thorough` asks for it")
@pytest.mark.needs("clang")
def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    """In a minute, from where longer runs ended."""
    fuzzer = built(tmp_path / "fuzzer", "clang", "-fsanitize=fuzzer,address,undefined")
    for number, each in enumerate(found()):
        (tmp_path / f"found-{number}").write_bytes(each)
    words = ("-max_total_time=60", f"-artifact_prefix={tmp_path}/", tmp_path, CORPUS)
    ended = subprocess.run([fuzzer, *words], capture_output=True, timeout=180, check=False)
    assert ended.returncode == 0, ended.stderr.decode("utf-8", "replace")[-4000:]
