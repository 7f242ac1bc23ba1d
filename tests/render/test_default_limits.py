"""The limits that the preset `default` sets: the methods that have them, and the hosts without them.

Tests of policy/limits.py.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sandwright.api import Policy
from sandwright.launcher.plan import parse_plan
from sandwright.methods.registry import render
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.render.rendered import Rendered

GIB = 1 << 30
ALL = ("cpu", "memory", "pids")
ROOT = HostFacts(
    os="linux", home="/root", project="/srv/p", uid=0, gid=0, memory=64 * GIB, controllers=ALL,
    entries={path: HostEntry("directory") for path in ("/", "/srv", "/srv/p", "/root", "/tmp")},
)  # fmt: skip
USER = replace(ROOT, home="/home/u", uid=1000, gid=1000)


def _rendered(method: str, facts: HostFacts, text: str = "") -> Rendered:
    return render(Policy.from_text(f"schema: 1\n{text}").resolve(facts), method)


def _limits(rendered: Rendered) -> tuple[int | None, int | None]:
    """Memory and processes, as in the artifacts."""
    if rendered.method in ("oci", "gvisor"):
        given = json.loads(rendered.artifact("config.json").content)["linux"].get("resources", {})
        return given.get("memory", {}).get("limit"), given.get("pids", {}).get("limit")
    words = parse_plan(rendered.artifact("launch.plan").content).engine.options
    said = dict(word.split("=", 1) for word in words if word.startswith(("--memory=", "--pids-limit=")))
    memory, pids = said.get("--memory"), said.get("--pids-limit")
    return int(memory[:-1]) if memory else None, int(pids) if pids else None


def _left_out(rendered: Rendered) -> list[str]:
    return [each.use.feature for each in rendered.findings if each.kind == "left-out"]


@pytest.mark.parametrize("preset", ["default", "strict", "build", "ci"])
@pytest.mark.parametrize("method", ["docker", "podman", "oci", "gvisor"])
def test_root_gets_them_where_control_groups_are(method: str, preset: str) -> None:
    rendered = _rendered(method, ROOT, f"extends: [{preset}]\n")
    assert _limits(rendered) == (32 * GIB, 4096)
    assert _left_out(rendered) == []


def test_a_daemon_s_container_has_them_for_everybody() -> None:
    assert _limits(_rendered("docker", USER)) == (32 * GIB, 4096)


def test_of_memory_no_more_than_three_quarters_of_the_machine() -> None:
    assert _limits(_rendered("docker", replace(USER, memory=8 * GIB))) == (6 * GIB, 4096)
    assert _limits(_rendered("docker", replace(USER, memory=0))) == (32 * GIB, 4096)
    listed = _rendered("docker", replace(USER, memory=8 * GIB), "resources: {memory: 7GiB, pids: 9000}\n")
    assert _limits(listed) == (7 * GIB, 9000)


@pytest.mark.parametrize("method", ["podman", "oci", "gvisor"])
def test_they_are_left_out_without_root(method: str) -> None:
    rendered = _rendered(method, USER)
    assert _limits(rendered) == (None, None)
    assert _left_out(rendered) == ["resources.memory", "resources.pids"]
    assert next(str(each) for each in rendered.findings if each.kind == "left-out") == (
        f"{method}: resources.memory of the preset is left out: "
        "without root there may be no cgroup to count in"
    )


@pytest.mark.parametrize("method", ["docker", "podman", "oci", "gvisor"])
def test_they_are_left_out_without_control_groups(method: str) -> None:
    assert _limits(_rendered(method, replace(ROOT, controllers=()))) == (None, None)
    half = _rendered(method, replace(ROOT, controllers=("pids",)))
    assert (_limits(half), _left_out(half)) == ((None, 4096), ["resources.memory"])


@pytest.mark.parametrize("method", ["bwrap", "user", "seatbelt", "kubernetes"])
def test_methods_without_control_groups_stay_usable(method: str) -> None:
    facts = replace(USER, os="darwin", controllers=()) if method == "seatbelt" else USER
    rendered = _rendered(method, facts)
    assert _left_out(rendered) == ["resources.memory", "resources.pids"]
    said = b"".join(each.content for each in rendered.artifacts if each.name != "seccomp.bpf")
    plans = [parse_plan(each.content) for each in rendered.artifacts if each.name == "launch.plan"]
    assert [each.pids for each in plans] == [None] * len(plans)
    assert b"memory: 32Gi" not in said


@pytest.mark.parametrize("method", ["bwrap", "user"])
def test_a_listed_one_is_enforced(method: str) -> None:
    listed = _rendered(method, USER, "resources: {memory: 32GiB, cpus: 0.5, pids: 4096}\n")
    plan = parse_plan(listed.artifact("launch.plan").content)
    assert (plan.memory, plan.cpus, plan.pids) == (32 * GIB, 500, 4096)


def test_a_listed_one_stays_whatever_the_host_is() -> None:
    """The launcher refuses it on a host without cgroups."""
    assert _limits(_rendered("podman", replace(USER, controllers=()), "resources: {pids: 9}\n")) == (None, 9)


def test_they_can_be_lifted() -> None:
    rendered = _rendered("docker", USER, "resources: {memory: unlimited, pids: unlimited}\n")
    assert (_limits(rendered), _left_out(rendered)) == ((None, None), [])
    assert _limits(_rendered("docker", USER, "extends: []\n")) == (None, None)


def test_facts_of_before_have_neither() -> None:
    data = json.loads(ROOT.to_json())
    del data["memory"], data["controllers"]
    facts = HostFacts.from_json(json.dumps(data))
    assert (facts.memory, facts.controllers) == (0, ())
    assert _limits(_rendered("docker", facts)) == (None, None)
