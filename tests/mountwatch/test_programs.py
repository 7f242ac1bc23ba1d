"""The program that watches mounts: its parsers hold against hostile bytes."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from sandwright.mountwatch import MOUNT_WATCH

HEAD = b"sandwright-mounts\x001\x00"
LINES = (
    b"20 1 254:0 / / ro,relatime shared:1 - ext4 /dev/vda rw\n"
    b"21 20 0:5 / /a rw,nosuid master:3 - tmpfs tmpfs rw\n"
    b"22 21 0:6 /x /a/b ro - tmpfs tmpfs rw\n"
    b"23 20 0:7 / /a\\040b ro - tmpfs tmpfs rw\n"
    b"24 21 0:8 / /a rw - tmpfs tmpfs rw\n"
)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The parsers, built to end at the first access that is wrong."""
    made = tmp_path_factory.mktemp("harness") / "harness"
    sources = [
        MOUNT_WATCH.source / "plan.c",
        MOUNT_WATCH.source / "mounts.c",
        Path(__file__).with_name("harness.c"),
    ]
    flags = ("-std=c11", "-g", "-Wall", "-Wextra", "-Werror", "-fno-sanitize-recover=all")
    words: tuple[str | Path, ...] = (
        "cc",
        *flags,
        "-fsanitize=address,undefined",
        f"-I{MOUNT_WATCH.source}",
        *sources,
        "-o",
        made,
    )
    built = subprocess.run(words, capture_output=True, timeout=120, check=False)
    if b"cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert built.returncode == 0, built.stderr
    return made


def fed(harness: Path, kind: bytes, inputs: list[bytes]) -> list[str]:
    sent = b"".join(kind + len(each).to_bytes(4, "little") + each for each in inputs)
    ended = subprocess.run([harness], input=sent, capture_output=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode().splitlines()


def record(kind: bytes = b"read", target: bytes = b"/a", source: bytes = b"/b", flags: bytes = b"w") -> bytes:
    return b"\0".join((kind, target, source, flags, b""))


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
    assert fed(harness, b"p", list(told)) == list(told.values())


@pytest.mark.needs("cc")
def test_what_is_seen_at_a_path(harness: Path) -> None:
    """What lies over something hides what is below that too."""
    assert fed(harness, b"m", [LINES, b"", b"1 2 3\n"]) == ["1 5 20 24 24 23", "0 0", "0 1"]


@pytest.mark.needs("cc")
def test_hostile_bytes(harness: Path) -> None:
    """Every beginning, and 20,000 mutations of what is right."""
    chance = random.Random(7)
    plan = HEAD + record() + record(b"mask-file", b"/a/b", b"/a/b", b"wa") + record(b"own", b"/", b"", b"o")
    for kind, right in ((b"p", plan), (b"m", LINES)):
        inputs = [right[:length] for length in range(len(right))]
        for _ in range(10_000):
            changed = bytearray(right)
            for _ in range(chance.randint(1, 6)):
                at = chance.randrange(len(changed))
                changed[at : at + chance.choice((0, 1, 1, 1, 9))] = bytes(
                    [chance.choice(b"\0 \n/.-\\0129a\xff")]
                )
            inputs.append(bytes(changed))
        if kind == b"m":
            inputs = [each.replace(b"\0", b"x") for each in inputs]
        assert len(fed(harness, kind, inputs)) == len(inputs)
