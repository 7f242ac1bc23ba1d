"""Policies and edits of them, made up by hypothesis."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

Data = dict[str, Any]

ROOTS = ("$PROJECT", "$HOME")
NAMES = ("a", "b", ".ssh", ".git", ".git/hooks", "a/b", "a/b/c", ".bashrc")
PATHS = (*ROOTS, *(f"{root}/{name}" for root in ROOTS for name in NAMES))
OUTSIDE = ("/etc", "/srv", "/srv/data")
HOSTS = ("a.example", "*.a.example", "b.example:8443", "*.b.example:*", "192.0.2.7:22", "*:8000")
VARIABLES = ("FOO", "FOO_*", "BAR_*", "LC_*", "CI")
PROFILES = ("default", "strict", "build")


def text(data: Data) -> str:
    """As a policy's file: JSON is YAML."""
    return json.dumps(data)


def base() -> Data:
    """The data that edits begin with."""
    return {
        "schema": 1,
        "method": "bwrap",
        "filesystem": {"read": ["/"], "write": ["$PROJECT"], "readonly": [], "deny": ["$HOME/.ssh"]},
        "network": {"mode": "proxy", "allow": ["a.example"]},
        "environment": {"pass": ["FOO"], "set": {}},
        "process": {},
        "resources": {},
    }


def _in_list(section: str, key: str, values: tuple[str, ...]) -> st.SearchStrategy[Callable[[Data], None]]:
    def edit(value: str) -> Callable[[Data], None]:
        def toggle(data: Data) -> None:
            found = data[section].setdefault(key, [])
            found.remove(value) if value in found else found.append(value)

        return toggle

    return st.sampled_from(values).map(edit)


def _value(section: str, key: str, values: tuple[object, ...]) -> st.SearchStrategy[Callable[[Data], None]]:
    def edit(value: object) -> Callable[[Data], None]:
        def put(data: Data) -> None:
            data[section][key] = value

        return put

    return st.sampled_from(values).map(edit)


def _hosts_go_without_a_proxy(data: Data) -> Data:
    if data["network"].get("mode") != "proxy":
        data["network"].pop("allow", None)
    return data


def edits(paths: tuple[str, ...] = (*PATHS, *OUTSIDE)) -> st.SearchStrategy[Callable[[Data], None]]:
    """One edit of a policy."""
    return st.one_of(
        *(_in_list("filesystem", kind, paths) for kind in ("read", "write", "readonly", "deny")),
        _in_list("network", "allow", HOSTS),
        _value("network", "mode", ("none", "proxy", "host")),
        _in_list("environment", "pass", VARIABLES),
        _value("environment", "set", ({}, {"CI": "1"}, {"FOO": "x"})),
        _value("process", "seccomp", PROFILES),
        _value("resources", "files", (64, 4096)),
        _value("resources", "time", ("1m", "1h")),
        _value("filesystem", "tmp", ("private", "shared")),
    )


@st.composite
def changes(draw: st.DrawFn, paths: tuple[str, ...] = (*PATHS, *OUTSIDE)) -> tuple[str, str]:
    """The texts of two policies, which one to three edits are between."""
    old = base()
    for edit in draw(st.lists(edits(paths), max_size=3)):
        edit(old)
    new = copy.deepcopy(old)
    for edit in draw(st.lists(edits(paths), min_size=1, max_size=3)):
        edit(new)
    return text(_hosts_go_without_a_proxy(old)), text(_hosts_go_without_a_proxy(new))
