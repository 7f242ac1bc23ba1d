"""Entries of the render cache: one table in C and Python, and hostile bytes have no effect in C.

Tests of front/source/fields.h.
Tests of front/source/questions.c: C and Python answer each question alike.
Tests of questions.py: C and Python answer each question alike.
Tests of session/entry.py.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright.errors import RenderError
from sandwright.front import FRONT
from sandwright.inputs import LiveHost, Recording, changed
from sandwright.launcher.plan import fields_of
from sandwright.mount_aliases import read_mounts
from sandwright.questions import KINDS, sockets_of
from sandwright.session.entry import CacheEntry, entry_bytes, parse_entry, question_words
from support.thorough import THOROUGH

FLAGS = ("-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined")
HARNESS = Path(__file__).with_name("harness.c")
ROUNDS = 200_000 if THOROUGH else 4_000
BATCH = 2_000
"""Entries for one process."""
NO_LANDLOCK = 77


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("front") / "harness"
    sources = [each for each in FRONT.sources() if each.suffix == ".c" and each.name != "start.c"]
    words: list[str | Path] = ["cc", *FLAGS, "-fno-sanitize-recover=all", f"-I{made.parent / 's'}", HARNESS]
    copied = made.parent / "s"  # in one directory, as the build has them: the launcher's header is another
    copied.mkdir()
    headers = (each for each in FRONT.sources() if each.suffix == ".h")
    for each in (*sources, *headers):
        shutil.copy(each, copied)
    ended = subprocess.run(
        [*words, *(copied / each.name for each in sources), "-o", made], capture_output=True, check=False
    )
    if b"cannot find" in ended.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert ended.returncode == 0, ended.stderr.decode()
    return made


def _fed(harness: Path, inputs: list[bytes], writable: Path | None = None, note: str = "") -> list[str]:
    """Feed entries to the harness, which can write only below `writable` if that is given (Landlock).

    A scan replaces the file that the entry names. Hostile entries would replace /dev/null or /bin/sh as root.
    """
    words = [harness] if writable is None else [harness, writable]
    sent = b"".join(len(each).to_bytes(4, "little") + each for each in inputs)
    environ = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # it soon ends or becomes another program
    ended = subprocess.run(words, input=sent, capture_output=True, timeout=600, check=False, env=environ)
    if ended.returncode == NO_LANDLOCK:
        pytest.skip("this kernel has no Landlock, without which hostile entries would change files")
    assert (ended.returncode, ended.stderr) == (0, b""), f"{note}: {ended.stderr.decode()[-3000:]}"
    return ended.stdout.decode(errors="replace").splitlines()


def test_one_table() -> None:
    text = (FRONT.source / "fields.h").read_text()
    table = {name: kind for kind, name in re.findall(r"^FIELD\((\w+), (\w+)\)", text, re.MULTILINE)}
    assert table == dict(fields_of(CacheEntry))
    assert list(table) == list(fields_of(CacheEntry))


def read_points() -> list[str]:
    return [each.point for each in read_mounts()]


def _recorded(folder: Path) -> LiveHost:
    """Each kind of question, with an answer and without."""
    (folder / "a/b/.vscode").mkdir(parents=True)
    (folder / "a/node_modules/x").mkdir(parents=True)
    (folder / "hidden").mkdir()
    (folder / "a/file").write_text("content\n")
    (folder / "a/link").symlink_to("file")
    (folder / "a/dangling").symlink_to("nowhere")
    os.mkfifo(folder / "a/pipe")
    (folder / "a/placeholder").mkdir()
    (folder / "a/placeholder").chmod(0o1555)
    (folder / "a/ä").write_text("")
    (folder / "index").write_bytes(b"DIRC\0\0\0\2\0\0\0\0")
    (folder / "links").write_bytes(b"DIRC\0\0\0\2\0\0\0\1" + bytes(24) + b"\0\0\xe0\0" + bytes(40))
    for name, size in (("split", 20), ("not-split", 0), ("cut", 21), ("long", 1 << 27)):
        extension = b"link" + size.to_bytes(4, "big") + b"\1" * 20
        (folder / name).write_bytes(b"DIRC\0\0\0\2\0\0\0\0" + extension)
    (folder / "large").write_bytes(b"x" * ((1 << 20) + 5))
    asking = LiveHost()
    for name in ("file", "link", "dangling", "pipe", "placeholder", "ä", "missing", "b"):
        asking.entry(f"{folder}/a/{name}")
        asking.ask("status", f"{folder}/a/{name}")
        asking.ask("content", f"{folder}/a/{name}")
        asking.ask("stamp", f"{folder}/a/{name}")
        asking.ask("artifact", f"{folder}/a/{name}")
        asking.ask("listing", f"{folder}/a/{name}")
        asking.ask("index", f"{folder}/a/{name}")
    for path in ("/", "/proc/self/status", "/dev/null", f"{folder}/missing/x", "/proc/sys/kernel/osrelease"):
        asking.entry(path)
        asking.ask("stamp", path) if path != "/proc/self/status" else None
    for path in ("/proc/sys/kernel/osrelease", "/dev/null", f"{folder}/large", "/etc"):
        asking.ask("content", path)
    for name in ("index", "links", "missing", "split", "not-split", "cut", "long"):
        asking.ask("index", f"{folder}/{name}")
    asking.ask("listing", f"{folder}/a")
    asking.ask("nested", str(folder), ".vscode", "a/file", "a/missing", ".git", "x")
    asking.ask("nested", str(folder), "/a", ".vscode", "file", "index")
    asking.ask("nested", f"{folder}/missing", ".vscode")
    asking.ask("aliases", "/", "/proc/self", "/dev/pts", str(folder), "/missing/x", *read_points()[:20])
    asking.ask("tree", f"{folder}/a", f"{folder}/missing", f"{folder}/a/file")
    asking.ask(*sockets_of([str(folder)], [f"{folder}/hidden"]))
    asking.ask(*sockets_of([], ["/"]))
    for name in ("HOME", "NOWHERE", "PATH"):
        asking.variable(name)
    asking.ask("machine")
    asking.program("sh")
    asking.program("nowhere")
    return asking


def _entry(recording: Recording) -> bytes:
    return entry_bytes(CacheEntry(questions=question_words(recording)))


@pytest.mark.needs("cc")
def test_a_directory_that_root_closed_has_an_answer(harness: Path) -> None:
    """Otherwise other users' runs would start Python after root's Podman: /var/lib/containers is closed."""
    with tempfile.TemporaryDirectory(prefix="sandwright-test-", dir="/var/tmp") as base:
        other = None if os.geteuid() else 12345
        closed = Path("/root") if os.geteuid() else Path(base) / "closed"
        closed.mkdir(mode=0o700, exist_ok=True)
        if closed.stat().st_uid != 0 or closed.stat().st_mode & 0o077:
            pytest.skip(f"{closed} isn't root's alone")
        Path(base).chmod(0o755)
        copied = shutil.copy(harness, base)
        questions = (("listing", str(closed)), ("nested", str(closed), ".git"))
        sent = entry_bytes(CacheEntry(questions=question_words([(each, ()) for each in questions])))
        ended = subprocess.run(
            [copied],
            input=len(sent).to_bytes(4, "little") + sent,
            capture_output=True,
            timeout=60,
            check=True,
            cwd="/",
            env={"ASAN_OPTIONS": "detect_leaks=0"},
            user=other,
            group=other,
            extra_groups=None if other is None else (),
        )
    assert ended.stdout.split()[:1] == [b"holds"]


@pytest.mark.needs("cc")
def test_both_have_the_same_answers(harness: Path, tmp_path: Path) -> None:
    """If the answers differed for a kind, every run would start Python; each kind has one example here."""
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(tmp_path / "s"))
        one.listen()
        asking = _recorded(tmp_path)
        other.bind(str(tmp_path / "hidden/t"))
        other.listen()
        recording = asking.recording()
        assert {question[0] for question, _ in recording} == {*KINDS, "entries"} - {"minute"}
        each = [entry_bytes(CacheEntry(questions=question_words([question]))) for question in recording]
        told = dict(zip((str(question) for question, _ in recording), _fed(harness, each), strict=True))
        assert {question: said for question, said in told.items() if said != "holds"} == {}
        assert changed(recording) is None
    for index, (question, answer) in enumerate(recording):
        other_answer = (*answer[:-1], f"{answer[-1]}0") if answer else ("0",)
        each[index] = _entry([(question, other_answer)])
    assert set(_fed(harness, each)) == {"differs"}


WORDS = (*b"|0|1|2|99999999999999999999|-1|/|end|.|..|+|*".split(b"|"), b"x" * 5000)


def _mutated(chance: random.Random, whole: bytes, other: bytes) -> bytes:
    """An entry with one change: cut off, another byte, a word removed, replaced or repeated, another end."""
    words = whole.split(b"\0")
    at = chance.randrange(len(words))
    match chance.randrange(7):
        case 0:
            return whole[: chance.randrange(len(whole) + 1)]
        case 1 | 2:
            byte = chance.randrange(len(whole)) if whole else 0
            return whole[:byte] + bytes([chance.randrange(256)]) + whole[byte + 1 :]
        case 3:
            return b"\0".join([*words[:at], *words[at + 1 :]])
        case 4:
            return b"\0".join([*words[:at], chance.choice((*WORDS, *words)), *words[at + 1 :]])
        case 5:
            end = chance.randrange(at, len(words))
            return b"\0".join([*words[:end], *words[at:]])
        case _:
            return whole[: chance.randrange(len(whole) + 1)] + other[chance.randrange(len(other) + 1) :]


@pytest.mark.needs("cc")
@pytest.mark.timeout(0)
def test_hostile_entries(harness: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """For any content, an entry is read within its bounds, and holds only as it was recorded.

    `--fuzz-seconds N` sets the duration; `-s` shows the number of tried entries.
    """
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    until = time.monotonic() + request.config.getoption("--fuzz-seconds")
    base = _full_entry(tmp_path)
    assert _fed(harness, [base], tmp_path) == ["holds"]
    pool, tried, held = [base], 0, 0
    while tried < ROUNDS or time.monotonic() < until:
        inputs = []
        for _ in range(BATCH):
            made = chance.choice(pool)
            for _ in range(chance.choice((1, 1, 2, 4, 8))):
                made = _mutated(chance, made, base)
            inputs.append(made)
        told = _fed(harness, inputs, tmp_path, f"seed {seed}, {tried} entries before")
        assert len(told) == BATCH
        readable = [content for content, said in zip(inputs, told, strict=True) if said != "damaged"]
        held += told.count("holds")
        for content, said in zip(inputs, told, strict=True):
            if said == "holds":
                parse_entry(content)
        pool = [base, *pool[-200:], *readable[:20]]  # readable entries lead further in
        tried += BATCH
    print(f"{tried} entries of seed {seed}, {held} held")  # noqa: T201 - shown with -s


@pytest.mark.needs("cc")
def test_entries_change_nothing_elsewhere(harness: Path, tmp_path: Path) -> None:
    """The harness of the fuzzer ran without a sandbox, and replaced /bin/sh of the machine."""
    writable, elsewhere = tmp_path / "writable", tmp_path / "elsewhere"
    (writable / "root").mkdir(parents=True)
    base = replace(parse_entry(_full_entry(writable)), roots=(str(writable / "root"),))
    for path in (writable / "known", elsewhere):
        path.write_text('{"full": "1"}')
        padded = [entry_bytes(replace(base, known=str(path), record="x" * size)) for size in range(16)]
        assert set(_fed(harness, padded, writable)) == {"holds"}
    assert (writable / "known").read_text() != elsewhere.read_text() == '{"full": "1"}'


def _full_entry(folder: Path) -> bytes:
    """A complete entry with valid questions."""
    recording = _recorded(folder).recording()
    (folder / "known").write_text(f'{{"full": "{int(time.time())}"}}')
    entry = CacheEntry(
        questions=question_words([each for each in recording if ("content", f"{folder}/large") != each[0]]),
        excepted=("git", "claude"),
        said=("a line",),
        launcher=("/launch", "--"),
        environment=(("A", "b"),),
        sessions=str(folder / "sessions"),
        guards=str(folder / "guards"),
        record="{}",
        report=("/python", "-m", "x"),
        roots=(str(folder / "a"), str(folder / "hidden")),
        closed=(str(folder / "a/b"),),
        git=(str(folder / "a/.git"),),
        names=(".vscode", "*.pth"),
        known=str(folder / "known"),
        sandbox="{}",
    )
    assert len(fields_of(CacheEntry)) == sum(bool(value) for value in vars(entry).values())
    return entry_bytes(entry)


def test_python_reads_what_it_wrote() -> None:
    recording: Recording = [(("entries", "/", "a\udcff", ""), ("l\n", "")), (("machine", ""), ())]
    entry = CacheEntry(questions=question_words(recording), environment=(("A", "b"),), said=("a line",))
    assert parse_entry(entry_bytes(entry)) == entry
    assert entry.recording() == recording
    with pytest.raises(RenderError):
        parse_entry(entry_bytes(entry)[:-1])
