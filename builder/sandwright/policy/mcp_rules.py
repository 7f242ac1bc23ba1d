"""Rules about tools of MCP servers (Model Context Protocol): patterns of names, and their comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandwright.policy.phrasing import quoted

METHODS = frozenset(("POST", "GET", "DELETE"))
"""The methods of Streamable HTTP: messages, the stream of a server's own messages, the end of a session."""

PATHS = ("/mcp",)
"""The default of `paths`."""

MAX_NAME = 128
"""Characters of a tool's name (MCP 2025-11-25, "Tool Names")."""

_CHARACTER = "[A-Za-z0-9_./-]"
_PATTERN = re.compile(r"[A-Za-z0-9_./*-]+")


def tool_pattern(text: str) -> str:
    """The name of a tool, in which `*` stands for any part. Raise ValueError for anything else."""
    if not _PATTERN.fullmatch(text):
        raise ValueError(f"{quoted(text)} is no tool like search or repos_*: letters, digits, and _ . / - *")
    if len(text) > MAX_NAME:
        raise ValueError(f"{quoted(text[:40])}… is longer than {MAX_NAME} characters")
    return text


def tool_regex(pattern: str) -> str:
    """The regular expression of a pattern, for whole names of at most `MAX_NAME` characters."""
    parts = (
        re.escape(each) if each.strip("*") else f"{_CHARACTER}*" for each in re.findall(r"\*+|[^*]+", pattern)
    )
    return rf"(?=.{{1,{MAX_NAME}}}\Z)" + "".join(parts)


def lists_tool(patterns: Iterable[str], name: str) -> bool:
    """Whether one of some patterns is about a tool."""
    return any(re.fullmatch(tool_regex(each), name) for each in patterns)


def includes_tools(wider: Iterable[str], narrower: Iterable[str]) -> bool:
    """Whether every tool of some patterns is one of the others'; where it takes two patterns, False."""
    regexes = [tool_regex(each).replace(_CHARACTER, "[A-Za-z0-9_./*-]") for each in wider]
    return all(any(re.fullmatch(regex, each) for regex in regexes) for each in narrower)
