"""A policy in a cluster, on an invented host: its manifests, its Pod, and the answers of its filter."""

from __future__ import annotations

from typing import Any

import yaml

from sandwright.api import Policy
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.seccomp.command import evaluate_command
from sandwright_kubernetes.render import render_kubernetes

Json = dict[str, Any]
PROJECT = "/home/u/p"
DIRECTORIES = ("/", "/home", "/home/u", PROJECT, "/srv", "/tmp", f"{PROJECT}/src", f"{PROJECT}/closed")
FILES = (f"{PROJECT}/LICENSE", f"{PROJECT}/secret.key")
"""The files on the host of these tests."""


def cluster_facts(**changes: Any) -> HostFacts:
    entries = {
        **dict.fromkeys(DIRECTORIES, HostEntry("directory")),
        **dict.fromkeys(FILES, HostEntry("file")),
    }
    base: Json = {"os": "linux", "home": "/home/u", "project": PROJECT, "entries": entries}
    return HostFacts(**{**base, **changes})


def cluster_policy(text: str = "", **facts: Any) -> ResolvedPolicy:
    return Policy.from_text(f"schema: 1\nmethod: kubernetes\n{text}").resolve(cluster_facts(**facts))


WRITES = "extends: []\nfilesystem: {write: [$PROJECT]}\n"


def manifests(policy: ResolvedPolicy) -> dict[str, Json]:
    """Every manifest by the name of its file."""
    return {
        each.name: yaml.load(each.content, yaml.CSafeLoader)
        for each in render_kubernetes(policy)
        if each.name.endswith(".yaml")
    }


def pod_of(text: str, **facts: Any) -> Json:
    spec: Json = manifests(cluster_policy(text, **facts))["job.yaml"]["spec"]["template"]["spec"]
    return spec


def container_of(text: str, **facts: Any) -> Json:
    (container,) = pod_of(text, **facts)["containers"]
    made: Json = container
    return made


FAMILIES = {"unix": 1, "inet": 2, "inet6": 10, "vsock": 40, "inet, upper bits set": 2 | 1 << 32}


def socket_answer(profile: bytes, family: int) -> str:
    return str(evaluate_command(profile, "seccomp.json", "socket", [str(family), "1"]).decision.action)
