"""Paths of a project that go to a Pod, and changes that come back: the policy's rules, as an artifact.

A path is shown in the Pod where the Job mounts the project there and the rules let it be read; a change there
is transferred back if the mount is writable and the rules allow writing. Names are compared as they are and
as a file system compares them that knows neither case nor Unicode's normal form: the stricter answer holds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandwright.documents import strictjson
from sandwright.folding import folded_name
from sandwright.policy.paths import ancestors, is_inside
from sandwright.policy.provenance import BUILT_IN, Sourced
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.rules import PathRule, PathRules, Protection
from sandwright.render.artifact import Artifact, json_artifact
from sandwright_kubernetes.objects import rows

FILE = "project.json"

Json = Mapping[str, Any]


def rules_artifact(policy: ResolvedPolicy) -> Artifact:
    """The rules for the project: those in it, and those for directories that it is in."""
    project = policy.canonical(policy.facts.project)
    document = {
        "project": project,
        "rules": [
            {"path": rule.path, "kind": rule.kind, "private": rule.private}
            for rule in policy.filesystem.rules
            if is_inside(rule.path, project) or is_inside(project, rule.path)
        ],
        "protections": [
            {
                "names": sorted({name.value for name in each.names}),
                "roots": sorted(each.roots),
                "exceptions": sorted(each.exceptions),
            }
            for each in policy.filesystem.protections
        ],
    }
    return json_artifact(FILE, document, "what of the project travels to the cluster and back")


@dataclass(frozen=True)
class Mounted:
    """A mount of the Job's container: whether the project is seen at a path, and whether it can be written.

    `file`: it is mounted on a file.
    """

    path: str
    project: bool
    writable: bool
    file: bool = False


class ProjectRules:
    """The paths of a project that the Pod sees, and those that may come back: relative to it, as bytes."""

    def __init__(self, document: Json, mounts: Iterable[Mounted]) -> None:
        """`document` is the artifact `project.json`."""
        self.project = str(document["project"])
        self._trees = (_read_rules(document, str), _read_rules(document, folded_name))
        self._mounts = {each.path: each for each in mounts}
        listed = [str(each["path"]) for each in document["rules"] if each["kind"] == "deny"]
        self.denied = tuple(self.relative(path) for path in listed if is_inside(path, self.project))

    def shows(self, path: bytes) -> bool:
        """Whether a path is shown."""
        full = self._full(path)
        mount = self._mount_of(full)
        return mount is not None and mount.project and self.allows_reading(path)

    def allows_reading(self, path: bytes) -> bool:
        """Whether the policy lets read a path."""
        return all(tree.shows_host(self._full(path)) for tree in self._trees)

    def takes(self, path: bytes) -> bool:
        """Whether a change at a path may come back."""
        full = self._full(path)
        mount = self._mount_of(full)
        writable = mount is not None and mount.project and mount.writable
        return writable and all(tree.changes_host(full) for tree in self._trees)

    def leads_to_shown(self, path: bytes) -> bool:
        """Whether something is shown below a directory that is not shown itself."""
        full = self._full(path)
        return any(mount.project and is_inside(each, full) for each, mount in self._mounts.items())

    def covered(self) -> Iterator[tuple[bytes, Mounted]]:
        """The places in the project at which something else is mounted, which must be there."""
        for path, mount in self._mounts.items():
            if not mount.project and is_inside(path, self.project) and path != self.project:
                yield self.relative(path), mount

    @property
    def writes(self) -> bool:
        """Whether anything may come back."""
        return any(mount.project and mount.writable for mount in self._mounts.values())

    def relative(self, path: str) -> bytes:
        """A path in the project, relative to it."""
        return os.fsencode(path[len(self.project) :].lstrip("/"))

    def _full(self, path: bytes) -> str:
        return f"{self.project}/{os.fsdecode(path)}" if path else self.project

    def _mount_of(self, full: str) -> Mounted | None:
        return next((self._mounts[each] for each in (full, *ancestors(full)) if each in self._mounts), None)


def read_rules(document: Json, pod: Json) -> ProjectRules:
    """The rules of `project.json` with the mounts of a rendered Pod's first container."""
    claims = {each["name"] for each in rows(pod, "volumes") if "persistentVolumeClaim" in each}
    mounts = [
        Mounted(
            each["mountPath"],
            each["name"] in claims,
            not each.get("readOnly", False),
            file=each["name"] not in claims and "subPath" in each,
        )
        for each in rows(pod, "containers", 0, "volumeMounts")
    ]
    return ProjectRules(document, mounts)


def parse_rules(content: bytes) -> Json:
    """The document of the artifact."""
    found: Json = strictjson.loads_record(content.decode("utf-8", "surrogateescape"))
    return found


def _read_rules(document: Json, key: Callable[[str], str]) -> PathRules:
    rules = [
        PathRule(each["path"], each["kind"], "listed", BUILT_IN, private=each["private"])
        for each in document["rules"]
    ]
    protections = [
        Protection(
            tuple(Sourced(name, BUILT_IN) for name in each["names"]),
            tuple(each["roots"]),
            frozenset(each["exceptions"]),
        )
        for each in document["protections"]
    ]
    return PathRules(rules, protections=protections, key=key)
