"""The rules of `network.http` that would allow a refused request, and no other."""

from __future__ import annotations

import re
from collections.abc import Callable

from sandwright.policy.http_rules import GIT_READ, GIT_WRITE, git_repository, http_method, http_path
from sandwright.policy.mcp_rules import tool_pattern
from sandwright.session.events import DeniedRequest

_GIT_REQUEST = re.compile(
    r"(?:GET /(?P<got>.+?)(?:\.git)?/info/refs\?service=|POST /(?P<sent>.+?)(?:\.git)?/)"
    rf"({GIT_READ}|{GIT_WRITE})"
)
"""The requests of Git. A rule with the path of `info/refs` would allow both services."""


def request_words(refused: DeniedRequest, host: str) -> str:
    """A request for a person: method and URL, of a call at an MCP server its tool, too."""
    words = f"{refused.method} https://{host}{refused.path}"
    call = {"tool": f" tools/call {refused.tool}", "call": f" {refused.tool}"}
    return words + call.get(refused.reason, "")


def request_rule(refused: DeniedRequest, host: str) -> str | None:
    """The rule for a request, and no other; None where none can be."""
    possible = _policy_takes(http_path, refused.path) and _policy_takes(http_method, refused.method)
    if refused.reason == "tool":
        listed = (
            possible and "*" not in refused.path + refused.tool and _policy_takes(tool_pattern, refused.tool)
        )
        paths = "" if refused.path == "/mcp" else f"paths: ['{refused.path}'], "
        return f"{{host: '{host}', {paths}mcp: {{tools: ['{refused.tool}']}}}}" if listed else None
    git = _GIT_REQUEST.fullmatch(f"{refused.method} {refused.path}")
    if git and _policy_takes(git_repository, repository := git["got"] or git["sent"]):
        access = "read" if git[3] == GIT_READ else "write"
        return f"{{host: '{host}', git: {access}, repos: ['{repository}']}}"
    return f"{{host: '{host}', methods: [{refused.method}], paths: ['{refused.path}']}}" if possible else None


def _policy_takes(check: Callable[[str], object], text: str) -> bool:
    """Whether a policy takes a value."""
    try:
        check(text)
    except ValueError:
        return False
    return True
