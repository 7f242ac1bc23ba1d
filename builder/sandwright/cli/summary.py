"""The summary of all tasks, for `--help` alone: read from their sources, none of which is imported.

Importing them, and Invoke, takes longer than a person should wait for a list of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import sandwright

USAGE = """\
Usage: sandwright TASK [OPTIONS]
       sandwright TASK --help

Tasks:
"""
_HERE = Path(__file__).parent
_COLLECTION = re.compile(r"^namespace = Collection\((.*?)^\)", re.MULTILINE | re.DOTALL)
_DEF = re.compile(r"^def ", re.MULTILINE)
_TASK = re.compile(r'(\w+)\(.*?\) -> None:[^\n]*\n    """(.*?)(?:"""|\n)', re.DOTALL)


def places() -> dict[str, tuple[str, str]]:
    """By the name of each task the module that has it, and its name there."""
    listed = _COLLECTION.search((_HERE / "tasks.py").read_text(encoding="utf-8"))
    assert listed is not None
    found = (name.strip().partition(".") for name in listed[1].split(",") if name.strip())
    return {task.replace("_", "-"): (module, task) for module, _, task in found}


def tasks() -> Iterator[tuple[str, str]]:
    """Each task's name, and what it does in a line, by name."""
    found = places()
    said = {
        (module, task): about
        for module in {module for module, _ in found.values()}
        for task, about in _functions((_HERE / f"{module}.py").read_text(encoding="utf-8"))
    }
    yield from sorted((name, said[place]) for name, place in found.items())


def _functions(source: str) -> Iterator[tuple[str, str]]:
    for each in _DEF.split(source)[1:]:
        found = _TASK.match(each)
        if found:
            yield found[1], found[2]


def text() -> str:
    """The summary as it is printed."""
    lines = list(tasks())
    width = max(len(name) for name, _ in lines)
    return USAGE + "".join(f"  {name:<{width}}  {about}\n" for name, about in lines)


def version() -> str:
    """What `--version` says."""
    return f"sandwright {sandwright.__version__}\n"
