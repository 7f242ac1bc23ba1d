"""Shims under Seatbelt, simulated: the evaluator answers for the profile, a stand-in starts the launcher."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.api import Policy
from sandwright.evaluate.sbpl import Evaluator, compile_profile
from sandwright.evaluate.sbpl.request import ResourceValue
from sandwright.methods.registry import render
from sandwright.policy.facts import HostEntry, HostFacts

PUBLIC = "/Users/u/.cache/sandwright/bridge/0123456789ab/public"
SHIMS = {"gh": {"secrets": {"GH_TOKEN": "${SANDBOX_GH_TOKEN}"}, "allow": ["pr *"]}}
STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" >"${0%/*}/arguments"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


def _artifacts(tmp: str, shims: object = SHIMS) -> dict[str, bytes]:
    facts = HostFacts(
        os="darwin", home="/Users/u", project="/Users/u/p", tmp=tmp, platform="darwin/arm64",
        entries=dict.fromkeys(("/", "/Users", "/Users/u", "/Users/u/p"), HostEntry("directory")),
    )  # fmt: skip
    data = {
        "schema": 1, "method": "seatbelt", "extends": [], "credentials": {"shims": shims},
        "filesystem": {"read": ["$PROJECT"], "write": ["$PROJECT"], "deny": ["~/.cache"]},
        "environment": {"set": {"PATH": "/usr/bin:/bin"}},
    }  # fmt: skip
    policy = Policy.from_text(json.dumps(data)).resolve(facts)
    return {each.name: each.content for each in render(policy, "seatbelt").artifacts}


def _evaluator(shims: object = SHIMS, **params: str) -> Evaluator:
    profile = _artifacts("/private/var/folders/x/T/sw", shims)["profile.sb"]
    return Evaluator(compile_profile(profile, params=params))


QUESTIONS: list[tuple[str, dict[str, ResourceValue], bool]] = [
    ("file-read-data", {"path": f"{PUBLIC}/shim"}, True),
    ("process-exec*", {"path": f"{PUBLIC}/bin/gh"}, True),
    ("file-read-metadata", {"path": "/Users/u/.cache/sandwright"}, True),
    ("network-outbound", {"unix": f"{PUBLIC}/socket"}, True),
    ("network-outbound", {"unix": f"{PUBLIC}/other"}, False),
    ("network-outbound", {"unix": "/Users/u/.cache/sandwright/bridge/ffffffffffff/public/socket"}, False),
    ("network-outbound", {"unix": "/private/var/run/mDNSResponder"}, False),
    ("network-bind", {"unix": f"{PUBLIC}/socket"}, False),
    ("file-read-data", {"path": "/Users/u/.cache/sandwright/bridge/0123456789ab/private/x"}, False),
    ("file-read-data", {"path": "/Users/u/.cache/sandwright"}, False),
    ("file-write-create", {"path": f"{PUBLIC}/bin/sh"}, False),
    ("file-write-unlink", {"path": f"{PUBLIC}/socket"}, False),
    ("file-write-data", {"path": f"{PUBLIC}/shim"}, False),
    ("file-write-mode", {"path": f"{PUBLIC}/socket"}, False),
]


@pytest.mark.parametrize(("operation", "resource", "allowed"), QUESTIONS)
def test_what_the_profile_says(operation: str, resource: dict[str, ResourceValue], allowed: bool) -> None:
    assert _evaluator(SHIMS=PUBLIC).decide(operation, resource).allowed is allowed


@pytest.mark.parametrize("asked", [_evaluator(), _evaluator({}, SHIMS=PUBLIC)], ids=["no bridge", "no shims"])
def test_without_a_bridge_or_shims_nothing_is_open(asked: Evaluator) -> None:
    for operation, resource, _ in QUESTIONS:
        if operation != "file-read-metadata":
            assert not asked.decide(operation, resource).allowed, (operation, resource)


class Launch:
    """A rendered launcher with a stand-in for sandbox-exec."""

    def __init__(self, folder: Path, tmp: str) -> None:
        self.folder = folder
        for name, content in _artifacts(f"{tmp}/tmp").items():
            text = content.replace(b"/usr/bin/sandbox-exec", str(folder / "sandbox-exec").encode())
            (folder / name).write_bytes(text)
            (folder / name).chmod(0o755)
        (folder / "sandbox-exec").write_text(STAND_IN, encoding="utf-8")
        (folder / "sandbox-exec").chmod(0o755)

    def run(self, *command: str, **environment: str) -> process.Result:
        variables = {"PATH": os.environ["PATH"], **environment}
        return process.run(self.folder / "launch", *command, env=variables, timeout=60, check=False)


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """A rendered launcher with a temporary directory outside /tmp, which macOS resolves to /private/tmp."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as tmp:
        yield Launch(tmp_path, tmp)


@pytest.mark.needs("shasum")
def test_the_launcher_names_the_directory_as_it_really_is(launch: Launch, tmp_path: Path) -> None:
    public = tmp_path / "public"
    public.mkdir()
    (tmp_path / "link").symlink_to("public")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(public / "socket"))
        result = launch.run("sh", "-c", 'printf %s "$PATH"', SANDWRIGHT_SHIMS=str(tmp_path / "link"))
    assert result.stdout.decode() == f"{public}/bin:/usr/bin:/bin"
    assert (tmp_path / "arguments").read_text().splitlines()[2:5] == ["-D", f"SHIMS={public}", "--"]


@pytest.mark.needs("shasum")
@pytest.mark.parametrize("environment", [{}, {"SANDWRIGHT_SHIMS": ""}, {"SANDWRIGHT_SHIMS": "/tmp"}])
def test_the_launcher_starts_nothing_without_a_bridge(
    launch: Launch, tmp_path: Path, environment: dict[str, str]
) -> None:
    result = launch.run("touch", str(tmp_path / "ran"), **environment)
    assert (result.status, (tmp_path / "ran").exists()) == (125, False)
    assert "SANDWRIGHT_SHIMS names no running bridge" in result.stderr
