"""Plants a fault in rendered artifacts, and checks whether they are used."""

# ruff: noqa: PLR0917

from __future__ import annotations

import dataclasses
import functools
import re

import pytest

from sandwright import HostFacts, Policy, ResolvedPolicy
from sandwright.errors import ArtifactsTooWide, DocumentError
from sandwright.methods import registry
from sandwright.methods.contract import Method
from sandwright.policy.facts import HostEntry
from sandwright.render.artifact import Artifact

DIRECTORY, FILE = HostEntry("directory"), HostEntry("file")
HOME, PROJECT = "/home/u", "/home/u/p"
FACTS = HostFacts(
    os="linux",
    home=HOME,
    project=PROJECT,
    entries={
        **dict.fromkeys(("/", "/home", HOME, PROJECT, "/tmp", f"{HOME}/.ssh", "/usr", "/etc"), DIRECTORY),
        **dict.fromkeys((f"{PROJECT}/.git", f"{PROJECT}/.git/hooks", f"{PROJECT}/out"), DIRECTORY),
        f"{PROJECT}/.git/config": FILE,
    },
    git_directories=(f"{PROJECT}/.git",),
)


def policy_for(method: str, filesystem: str = "{}", facts: HostFacts = FACTS) -> ResolvedPolicy:
    limits = "{memory: unlimited, cpus: unlimited, pids: unlimited}"
    return Policy.from_text(f"method: {method}\nfilesystem: {filesystem}\nresources: {limits}\n").resolve(
        facts
    )


FAULTY = "{deny: [$PROJECT/secret], readonly: [$PROJECT/kept]}"
FAULTY_FACTS = FACTS.with_entries({f"{PROJECT}/secret": FILE, f"{PROJECT}/kept": FILE})


_RENDERED: dict[tuple[int, str], tuple[ResolvedPolicy, frozenset[str]]] = {}
"""Artifacts by a policy's identity, with the policy, which keeps the identity unique."""


@functools.cache
def faulty_policy(method: str) -> ResolvedPolicy:
    return policy_for(method, FAULTY, FAULTY_FACTS)


def rendered_names(policy: ResolvedPolicy, method: str) -> frozenset[str]:
    """The artifacts that a method renders for a policy and that its check accepts."""
    key = id(policy), method
    if key not in _RENDERED:
        made = registry.render(policy, method).artifacts
        _RENDERED[key] = policy, frozenset(each.name for each in made)
    return _RENDERED[key][1]


def check_planted(
    policy: ResolvedPolicy,
    method: str,
    artifact: str,
    change: tuple[str, str],
    case: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that the rendered artifact is used, and with one change is refused, for the case."""
    made = Method.make_artifacts

    def faulty(own: Method, policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        return tuple(replaced(each, *change) if each.name == artifact else each for each in made(own, policy))

    assert artifact in rendered_names(policy, method)
    monkeypatch.setattr(Method, "make_artifacts", faulty)
    with pytest.raises((ArtifactsTooWide, DocumentError), match=re.escape(case)):
        registry.render(policy, method)


def replaced(artifact: Artifact, old: str, new: str) -> Artifact:
    changed = artifact.content.replace(old.encode(), new.encode())
    assert changed != artifact.content
    return dataclasses.replace(artifact, content=changed)
