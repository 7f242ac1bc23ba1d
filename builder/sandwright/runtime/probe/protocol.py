"""The probe's protocol: a line for each attempt, and a line for each answer (`source/main.c`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["ok", "errno", "signal", "late", "unknown", "none"]
"""The outcome of an attempt. `none`: no answer came, as the sandbox or the program ended before."""

Word = bytes | str | int | os.PathLike[str]


@dataclass(frozen=True)
class Attempt:
    """An operation of the probe program, and its arguments: any bytes but NUL."""

    operation: str
    arguments: tuple[bytes, ...] = ()

    def __str__(self) -> str:
        """As a person would write it; long arguments are cut."""
        arguments = (repr(os.fsdecode(each))[1:-1][:120] for each in self.arguments)
        return " ".join([self.operation, *arguments])


@dataclass(frozen=True)
class ProbeAnswer:
    """The result of an attempt.

    `detail` is the error's name or the signal's number, 0 for a process that ended without one and without
    output; for `none` it is the reason why there is no answer, if known. `value` is the value of `ok`.
    """

    kind: Kind
    detail: str = ""
    value: bytes = b""

    @property
    def name(self) -> str:
        """The name in the table of expected results: `ok`, `EROFS`, `SIGKILL`, `late`, `none`, …."""
        if self.kind == "signal":
            if self.detail == "0":
                return "ended"
            signal_names = [each.name for each in signal.Signals if str(each.value) == self.detail]
            return signal_names[0] if signal_names else f"signal {self.detail}"
        return self.detail if self.kind == "errno" else self.kind

    def __str__(self) -> str:
        """`EROFS`, or `ok` and the beginning of its value."""
        if not self.value:
            return self.name
        return f"{self.name} {self.value[:160].decode(errors='backslashreplace').strip()!r}"


NO_ANSWER = ProbeAnswer("none")


def attempt(operation: str, *words: Word) -> Attempt:
    """An attempt with arguments of several types: numbers are written in decimal."""
    return Attempt(operation, tuple(_word_bytes(word) for word in words))


def requests(attempts: Sequence[Attempt], *, word: str) -> bytes:
    """The program's standard input. `word` marks its answers; it holds no space."""
    return "".join(
        f"{request_line(each, index, word=word)}\n" for index, each in enumerate(attempts)
    ).encode()


def request_line(attempt: Attempt, index: int, *, word: str) -> str:
    """One line of the program's standard input, or one argument behind `--lines`."""
    arguments = (_hex(argument) for argument in attempt.arguments)
    return " ".join([word, str(index), attempt.operation, *arguments])


def parse_answers(output: bytes, count: int, *, word: str, why: str = "") -> list[ProbeAnswer]:
    """The answers in the program's output, one for each of `count` attempts; other output is passed over.

    `why` is the reason for each that has none.
    """
    found: dict[str, ProbeAnswer] = {}
    for answered in output.decode(errors="replace").splitlines():
        words = answered.split(" ")
        if len(words) == 4 and words[0] == word:
            found.setdefault(words[1], _parse_answer(words[2], words[3]))
    parsed = (found.get(str(index), NO_ANSWER) for index in range(count))
    return [each if each.kind != "none" else ProbeAnswer("none", why) for each in parsed]


_KINDS: Mapping[str, Kind] = {
    "ok": "ok",
    "errno": "errno",
    "signal": "signal",
    "late": "late",
    "unknown": "unknown",
}


def _parse_answer(kind: str, detail: str) -> ProbeAnswer:
    answer_kind = _KINDS.get(kind)
    if answer_kind == "ok":
        try:
            return ProbeAnswer("ok", value=b"" if detail == "-" else bytes.fromhex(detail))
        except ValueError:
            return NO_ANSWER
    return ProbeAnswer(answer_kind, detail) if answer_kind else NO_ANSWER


def _word_bytes(word: Word) -> bytes:
    if isinstance(word, bytes):
        return word
    return str(word).encode() if isinstance(word, int) else os.fsencode(word)


def _hex(argument: bytes) -> str:
    return argument.hex() or "-"
