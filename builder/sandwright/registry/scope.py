"""The scopes of tokens: `repository:library/alpine:pull,push`. Pure.

Grammar: "Docker Registry v2 authentication: token scope" of the distribution project.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SCOPE = re.compile(
    r"(?P<kind>[a-z0-9]+(?:\([a-z0-9]+\))?):(?P<name>[^\s,]+):(?P<actions>[a-zA-Z*,]+)", re.ASCII
)

PULL = ("pull",)
PUSH = ("pull", "push")


def repository_scope(repository: str, actions: Iterable[str]) -> str:
    """The scope of actions on a repository."""
    return f"repository:{repository}:{','.join(sorted(set(actions)))}"


def united(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes, sorted, each resource once with all its actions. Malformed scopes are dropped."""
    actions: dict[str, set[str]] = {}
    for scope in scopes:
        match = _SCOPE.fullmatch(scope)
        if match is not None:
            allowed_actions = actions.setdefault(f"{match['kind']}:{match['name']}", set())
            allowed_actions.update(filter(None, match["actions"].split(",")))
    return tuple(f"{resource}:{','.join(sorted(actions[resource]))}" for resource in sorted(actions))
