"""The rules of the filter of MCP messages: its settings, which `evaluate` also reads back."""

import re
from dataclasses import dataclass

from sandwright.mcp.methods import CALL, NOTIFICATIONS, REQUESTS


@dataclass(frozen=True)
class ToolRule:
    """The tools that are listed for some paths: regular expressions, each for the whole text."""

    paths: tuple[str, ...]
    tools: tuple[str, ...]


@dataclass(frozen=True)
class FilteredHost:
    """A host with rules about tools. `index` is its place in `network.http`."""

    index: int
    name: str
    rules: tuple[ToolRule, ...]

    def has_path(self, target: str) -> bool:
        """Whether a rule is about a target: a path without a query."""
        return "?" not in target and any(_matches_any(rule.paths, target) for rule in self.rules)

    def allows(self, target: str, tool: str) -> bool:
        """Whether a rule for a path lists a tool."""
        return any(_matches_any(rule.paths, target) and _matches_any(rule.tools, tool) for rule in self.rules)

    def passes(self, target: str, call: str) -> bool:
        """Whether a client's message passes: its method, and for `tools/call` the tool behind a space."""
        method, _, tool = call.partition(" ")
        return self.allows(target, tool) if method == CALL else method in REQUESTS | NOTIFICATIONS


@dataclass(frozen=True)
class Entrance:
    """A host, and the first line of its connections on each side."""

    host: FilteredHost
    greeting: str
    onward: str


@dataclass(frozen=True)
class FilterSettings:
    """The settings that the filter is started with. It sends requests on to the relay's port `out`."""

    entrances: tuple[Entrance, ...]
    out: int


def _matches_any(patterns: tuple[str, ...], text: str) -> bool:
    return any(re.fullmatch(each, text) for each in patterns)
