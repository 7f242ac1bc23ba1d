"""Reads Dockerfiles, and finds the faults that hadolint would find: its rules by number, implemented again.

hadolint's own list explains each rule (https://github.com/hadolint/hadolint#rules). The rules about other
systems' package managers are missing, and so are DL3026 (allowed registries; off by default), DL3057 (no
HEALTHCHECK; off by default) and DL3066 (a user with a name, which is in the image's own files).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Instruction:
    """One instruction, its continued lines joined. `stage` counts from 1."""

    stage: int
    word: str
    rest: str

    @property
    def words(self) -> list[str]:
        """The words after the instruction, without flags; an array's members."""
        rest = re.sub(r"^(?:--\S+\s+)+", "", self.rest)
        return [str(word) for word in json.loads(rest)] if rest.startswith("[") else rest.split()

    def flag(self, name: str) -> str | None:
        """The value of `--name=value`."""
        match = re.match(rf"(?:--\S+\s+)*--{name}=(\S+)", self.rest)
        return match[1] if match else None


def parse(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile."""
    lines = [line for line in text.split("\n") if not re.match(r"\s*#", line)]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found: list[Instruction] = []
    stage = 0
    for line in joined.split("\n"):
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            stage += word == "FROM"
            found.append(Instruction(stage, word, rest.strip()))
    return found


def faults(text: str) -> list[str]:
    """Every rule that the Dockerfile breaks: `DL3007: FROM debian:latest`."""
    found = parse(text)
    return [f"{name}: {fault}" for name, rule in RULES.items() for fault in rule(found)]


Rule = Callable[[Sequence[Instruction]], Iterator[str]]


def _each(word: str, broken: Callable[[Instruction], object]) -> Rule:
    def rule(found: Sequence[Instruction]) -> Iterator[str]:
        for each in found:
            if each.word == word and broken(each):
                yield f"{each.word} {each.rest}"

    return rule


def _run(pattern: str, unless: str = "(?!)") -> Rule:
    return _each("RUN", lambda each: re.search(pattern, each.rest) and not re.search(unless, each.rest))


def _stages(found: Sequence[Instruction]) -> list[str]:
    named = (re.search(r" AS (\S+)$", each.rest) for each in found if each.word == "FROM")
    return [match[1] for match in named if match]


def _tag(each: Instruction) -> str:
    return each.words[0].rpartition("/")[2]


def _untagged(found: Sequence[Instruction]) -> Iterator[str]:
    named = {"scratch", *_stages(found)}
    for each in found:
        if each.word == "FROM" and each.words[0] not in named and not re.search("[:@]", _tag(each)):
            yield each.rest


def _last_user(found: Sequence[Instruction]) -> Iterator[str]:
    users = [each.words[0] for each in found if each.word == "USER" and each.stage == found[-1].stage]
    if users and re.fullmatch(r"(root|0)(:.*)?", users[-1]):
        yield f"USER {users[-1]}"


def _unknown_stage(found: Sequence[Instruction]) -> Iterator[str]:
    for at, each in enumerate(found):
        source = each.flag("from") if each.word == "COPY" else ""
        if source and ":" not in source and source not in _stages(found[:at]):  # with a colon it is an image
            yield each.rest


def _own_stage(found: Sequence[Instruction]) -> Iterator[str]:
    names = {each.stage: _stages([each]) for each in found if each.word == "FROM"}
    for each in found:
        if each.word == "COPY" and each.flag("from") in names.get(each.stage, []):
            yield each.rest


def _relative_copy(found: Sequence[Instruction]) -> Iterator[str]:
    for at, each in enumerate(found):
        before = {one.word for one in found[:at] if one.stage == each.stage}
        if each.word == "COPY" and not each.words[-1].startswith("/") and "WORKDIR" not in before:
            yield each.rest


def _repeated_names(found: Sequence[Instruction]) -> Iterator[str]:
    names = _stages(found)
    yield from (name for name in names if names.count(name) > 1)


def _pipe_without_pipefail(found: Sequence[Instruction]) -> Iterator[str]:
    shells: dict[int, str] = {}
    for each in found:
        if each.word == "SHELL":
            shells[each.stage] = each.rest
        shell_form = each.word == "RUN" and not each.rest.startswith("[")
        if (
            shell_form
            and re.search(r"[^|]\|[^|]", each.rest)
            and "pipefail" not in shells.get(each.stage, "")
        ):
            yield each.rest


def _twice(word: str) -> Rule:
    def rule(found: Sequence[Instruction]) -> Iterator[str]:
        for stage in {each.stage for each in found}:
            if sum(each.word == word and each.stage == stage for each in found) > 1:
                yield f"{word} in stage {stage}"

    return rule


def _consecutive_runs(found: Sequence[Instruction]) -> Iterator[str]:
    for one, next_one in itertools.pairwise(found):
        if one.word == next_one.word == "RUN":
            yield next_one.rest


def _variable_of_itself(found: Sequence[Instruction]) -> Iterator[str]:
    for each in found:
        if each.word == "ENV":
            names = re.findall(r"(\w+)=\"", each.rest)
            used = re.findall(r"(?<!\\)\$\{?(\w+)", each.rest)
            yield from (name for name in used if name in names)


_SECRET = re.compile(r"(?i)(pass(word|wd)?|secret|token|api_?key|private_?key|credential)s?$")


def _secrets(found: Sequence[Instruction]) -> Iterator[str]:
    for each in found:
        if each.word in {"ENV", "ARG"}:
            yield from (name for name in re.findall(r"(\w+)=", each.rest) if _SECRET.search(name))


def _is_archive(source: str) -> bool:
    return bool(re.search(r"\.(tar|tar\.\w+|tgz|tbz2?|txz|gz|bz2|xz|zst|lz|lzma|tzst|Z)$", source))


RULES: dict[str, Rule] = {
    "DL3000": _each("WORKDIR", lambda each: not re.match(r'"?(/|\$)', each.rest)),
    "DL3001": _run(r"(^|[;&|] *)(ssh|vim|shutdown|service|ps|free|top|kill|mount|ifconfig)( |$)"),
    "DL3002": _last_user,
    "DL3003": _run(r"(^|[;&] *)cd "),
    "DL3004": _run(r"\bsudo\b"),
    "DL3006": _untagged,
    "DL3007": _each("FROM", lambda each: _tag(each).endswith(":latest")),
    "DL3008": _run(r"apt-get .*install"),
    "DL3010": _each("COPY", lambda each: not each.flag("from") and any(map(_is_archive, each.words[:-1]))),
    "DL3015": _run(r"apt-get .*install", unless="--no-install-recommends"),
    "DL3018": _run(r"apk .*add"),
    "DL3020": _each("ADD", lambda each: not all(map(_is_archive, each.words[:-1]))),
    "DL3021": _each("COPY", lambda each: len(each.words) > 2 and not each.words[-1].endswith("/")),
    "DL3022": _unknown_stage,
    "DL3023": _own_stage,
    "DL3024": _repeated_names,
    "DL3025": lambda found: (
        each.rest for each in found if each.word in {"CMD", "ENTRYPOINT"} and not each.rest.startswith("[")
    ),
    "DL3027": _run(r"\bapt (install|update)\b"),
    "DL3029": _each("FROM", lambda each: each.flag("platform")),
    "DL3044": _variable_of_itself,
    "DL3045": _relative_copy,
    "DL3047": _run(r"\b(wget|curl)\b"),
    "DL3048": _each("LABEL", lambda each: re.search(r'(^|\s)"?[^a-z0-9"\s][^=\s]*"?=', each.rest)),
    "DL3059": _consecutive_runs,
    "DL3061": lambda found: iter([] if found[0].word in {"FROM", "ARG"} else [found[0].word]),
    "DL3064": _secrets,
    "DL3067": _each("COPY", lambda each: each.flag("from") and each.words == ["/", "/"]),
    "DL4000": _each("MAINTAINER", lambda _: True),
    "DL4003": _twice("CMD"),
    "DL4004": _twice("ENTRYPOINT"),
    "DL4005": _run(r"\bln\b.*/bin/sh\b"),
    "DL4006": _pipe_without_pipefail,
}
