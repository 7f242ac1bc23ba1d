"""Circles of C files, as in test_architecture.py for modules: a file uses another file's definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from sandwright.launcher import GUEST, LAUNCH, LAUNCH_INIT, LAUNCH_VM
from sandwright.prebuilt import PrebuiltProgram

MOST = 6
"""The size of the largest circle, which is the guest's."""

FUNCTION = re.compile(r"^(?!static\b|typedef\b)[A-Za-z_][\w *]*?\b(\w+)\([^;{]*\)\n\{", re.MULTILINE)
VALUE = re.compile(
    r"^(?!static\b|typedef\b|extern\b)"
    r"(?:const )?[a-z]\w*(?: \w+)? \*?\(?\*?(\w+)\)?[^\n(]*(?:\(int \w+\) )?= ",
    re.MULTILINE,
)
OWN = re.compile(r"^static\b[^;{=(]*?\b(\w+) ?[(=;\[,]", re.MULTILINE)
INCLUDE = re.compile(r'^#include "([\w.]+)"', re.MULTILINE)
USED = re.compile(r"(?<![\w.>])([a-z]\w+)\b")


def _code(text: str) -> str:
    """The code without comments and strings."""
    return re.sub(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', " ", text, flags=re.DOTALL)


def _included(name: str, texts: Mapping[str, str], seen: set[str]) -> Iterator[str]:
    for header in INCLUDE.findall(texts.get(name, "")):
        if header not in seen:
            seen.add(header)
            yield header
            yield from _included(header, texts, seen)


def uses(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """For each C file, the files whose functions and variables it uses through a header."""
    code = {name: _code(text) for name, text in texts.items()}
    sources = {name: text for name, text in code.items() if name.endswith(".c")}
    defined = {
        each: name
        for name, text in sources.items()
        for each in (*FUNCTION.findall(text), *VALUE.findall(text))
    }
    found: dict[str, set[str]] = {}
    for name, text in sources.items():
        headers = [code.get(each, "") for each in _included(name, texts, set())]
        declared = {each for header in headers for each in USED.findall(header)}
        named = (set(USED.findall(text)) & declared) - set(OWN.findall(text))
        found[name] = {defined[each] for each in named & defined.keys()} - {name}
    return found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of files in which each leads to each other, the largest first."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            new = graph[left.pop()] - seen
            seen |= new
            left += new
        return seen

    all_reached = {name: reached(name) for name in graph}
    found = {frozenset(b for b in all_reached[a] if a in all_reached[b]) for a in graph}
    return sorted((sorted(each) for each in found if each), key=len, reverse=True)


@pytest.mark.parametrize("program", [LAUNCH, LAUNCH_INIT, LAUNCH_VM, GUEST], ids=lambda each: each.name)
def test_no_circle_is_large(program: PrebuiltProgram) -> None:
    graph = uses({each.name: each.read_text() for each in program.sources()})
    assert sum(map(len, graph.values())) > len(graph)
    assert [each for each in circles(graph) if len(each) > MOST] == []


def test_a_circle_is_seen() -> None:
    """The control: a local name that equals a name in another file is no use of that file."""
    texts = {
        "all.h": "void one(void);\nvoid two(void);\nextern int three;\n",
        "one.c": '#include "all.h"\nvoid one(void)\n{\n    two();\n}\n',
        "two.c": '#include "all.h"\nvoid two(void)\n{\n    three++;\n}\n',
        "three.c": '#include "all.h"\nint three = 1;\nstatic void more(void)\n{\n    one();\n}\n',
        "other.c": "static void one(void)\n{\n}\nvoid other(void)\n{\n    one();\n}\n",
    }
    assert circles(uses(texts)) == [["one.c", "three.c", "two.c"]]
