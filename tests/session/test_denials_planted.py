"""Planted denials: each is reported with the access and the rule; no permitted access is.

Those of `oci` and `user` are in `launcher/test_runtime_denials.py` and `methods/user/test_user_run.py`.

Tests of launcher/source/notify.c.
"""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from session.conftest import Project
from support import interpreters, plantedcalls

ACCEPT_GAPS = ", ".join(
    f"{{feature: {each}, method: landlock, reason: a test}}"
    for each in ("filesystem.protect", "filesystem.attributes", "process.kernel")
)
POLICIES = {
    "bwrap": "schema: 1\nmethod: bwrap\n",
    "no sockets": "schema: 1\nmethod: bwrap\nnetwork: {own_sockets: false}\n",
    "landlock": f"schema: 1\nmethod: landlock\naccept_gaps: [{ACCEPT_GAPS}]\n",
}
SOCKETS = """
import contextlib, socket
for number in range(10):
    with socket.socket(socket.AF_UNIX) as end, contextlib.suppress(OSError):
        end.connect(f"host-{number}")
    with socket.socket(socket.AF_UNIX) as own, socket.socket(socket.AF_UNIX) as end:
        own.bind(f"own-{number}")
        own.listen()
        end.connect(f"own-{number}")
"""
HOSTS = """
import contextlib, os, urllib.request
for number in range(10):
    for name in (f"refused-{number}.example", f"{number}.allowed.invalid"):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://{name}/")
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="filters are Linux'")


def _run(project: Project, policy: str, *words: str) -> list[dict[str, Any]]:
    project.policy.write_text(policy)
    return project.denials(*words, options=("--trust-policy",))[0]


@pytest.mark.needs("cc", "bwrap")
@pytest.mark.parametrize("name", POLICIES)
def test_calls(name: str, project: Project) -> None:
    program = project.root / "planted"
    plantedcalls.build(program)
    told = _run(project, POLICIES[name], str(program), *plantedcalls.arguments())
    assert sorted(each["what"] for each in told) == sorted(plantedcalls.PLANTED)
    assert {(each["kind"], each["error"], each["count"], each["field"]) for each in told} == {
        ("syscall", "EPERM", 1, "process.seccomp")
    }
    assert all(each["source"].startswith("default (built-in presets/built-in.yaml:") for each in told)


@pytest.mark.needs("bwrap")
def test_sockets(project: Project) -> None:
    policy = "schema: 1\nmethod: bwrap\nnetwork:\n  unix_sockets: []\n"
    with ExitStack() as stack:
        for number in range(10):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(f"{project.home}/{number}")
            listener.listen()
            Path(f"{project.home}/{number}").rename(project.root / f"host-{number}")
        told = _run(project, policy, interpreters.INSIDE, "-P", "-c", SOCKETS)
    assert sorted(each["what"] for each in told) == [f"host-{number}" for number in range(10)]
    rule = ("connect", "EACCES", "network.unix_sockets", f"project {project.policy}:4:17")
    assert {(each["kind"], each["error"], each["field"], each["source"]) for each in told} == {rule}


@pytest.mark.needs("bwrap", "squid")
def test_hosts(project: Project) -> None:
    policy = "schema: 1\nmethod: bwrap\nnetwork:\n  mode: proxy\n  allow: ['*.allowed.invalid:80']\n"
    told = _run(project, policy, interpreters.INSIDE, "-P", "-c", HOSTS)
    assert sorted(each["what"] for each in told) == [f"refused-{number}.example:80" for number in range(10)]
    rule = ("proxy", 1, "network.allow", f"project {project.policy}:5:10")
    assert {(each["kind"], each["count"], each["field"], each["source"]) for each in told} == {rule}
