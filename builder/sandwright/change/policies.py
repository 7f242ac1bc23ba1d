"""Reads the two policies that are compared: files, or a file of two revisions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright.change.questions import paths
from sandwright.git import history
from sandwright.methods import registry
from sandwright.policy import spelling
from sandwright.policy.collect import collect_facts, public_environment
from sandwright.policy.facts import CERTIFICATES, HostFacts
from sandwright.policy.live_entries import observe
from sandwright.policy.load import Layer, layer, layers_for, read_layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy


@dataclass(frozen=True)
class PolicyPair:
    """Two policies of one project. `file` is where the new one is, or would be in the work tree.

    The layers of the operator, the user and this run are below and above both. `revisions` are those of Git
    that hold the policies, empty for a file.
    """

    old: MergedPolicy
    new: MergedPolicy
    file: Path
    revisions: tuple[str, str] = ("", "")

    def resolve(
        self, project: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> tuple[ResolvedPolicy, ResolvedPolicy]:
        """Resolve both policies on this host, with the facts of every path that the comparison asks about.

        `project` and `environ` are those of `collect_facts`; absent: the new file's directory, this
        environment. Paths show the names of variables with secrets, not their values, because the comparison
        may be published. Raise UsageError where a revision lacks the filter of system calls that its policy
        names.
        """
        where = self.file.parent if project is None else project
        public = public_environment(os.environ if environ is None else environ)
        both = zip((self.old, self.new), self.revisions, strict=True)
        found = [
            each.resolve(_as_in(revision, each, collect_facts(each, project=where, environ=public)))
            for each, revision in both
        ]
        all_paths = paths(found)
        old, new = (replace(each, facts=observe(each.facts, all_paths)) for each in found)
        return old, new

    def at(self, file: Path) -> PolicyPair:
        """The same policies with the path of another file."""
        old, new = (
            MergedPolicy.from_layers(
                [replace(each, file=str(file)) if each.kind == "project" else each for each in policy.layers]
            )
            for policy in (self.old, self.new)
        )
        return PolicyPair(old, new, file)


def read_pair(
    old: str,
    new: str,
    *,
    policy: str,
    revisions: bool,
    environ: Mapping[str, str],
    settings: Sequence[str] = (),
) -> PolicyPair:
    """The policies that a command line names.

    With `revisions`, `old` and `new` are revisions of Git that hold the file `policy`; an empty `new` is the
    work tree. Otherwise each is a file, or Git's `REVISION:FILE`. Raise UsageError if one can't be read,
    DocumentError if it is not a policy.
    """
    file = Path(policy if revisions else _local_file(new))
    reading = _reader(file, policy if revisions else "")
    file = file.absolute()
    below = [
        each
        for each in layers_for(file.parent, environ, settings=settings, methods=registry.registered())
        if each.kind != "project"
    ]
    merged = [
        MergedPolicy.from_layers([*below, replace(reading(name), file=str(file))]) for name in (old, new)
    ]
    named = ("", "") if revisions else (_revision(old)[0], _revision(new)[0])
    return PolicyPair(merged[0], merged[1], file, (old, new) if revisions else named)


def _as_in(revision: str, policy: MergedPolicy, facts: HostFacts) -> HostFacts:
    """The facts with the filter of system calls that a revision has, where that is a file of the repository.

    It is read by the name in the policy: a symbolic link there is not a filter.
    """
    recorded = [each for each in facts.texts if each != CERTIFICATES]
    if not revision or not recorded:
        return facts
    path = spelling.expand_path(policy.seccomp_file(), facts.variables)
    top = history.top_directory(Path(facts.project))
    if is_inside(path, facts.project):
        name = f"./{path[len(facts.project) :].lstrip('/')}"
    elif Path(path).is_relative_to(top):
        name = str(Path(path).relative_to(top))
    else:
        return facts
    text = history.file_at(Path(facts.project), revision, name).decode("utf-8", "surrogateescape")
    return replace(facts, texts={**facts.texts, **dict.fromkeys(recorded, text)})


def _local_file(name: str) -> str:
    """The file that `REVISION:FILE` would be here; a file's own name."""
    revision, path = _revision(name)
    if not revision or path.startswith("./"):
        return path
    return str(history.top_directory(Path.cwd()) / path)


def _revision(name: str) -> tuple[str, str]:
    """Revision and path; the revision is empty for a file. An existing path is always a file."""
    revision, colon, path = name.partition(":")
    return (revision, path) if colon and revision and not Path(name).exists() else ("", name)


def _reader(file: Path, policy: str) -> Callable[[str], Layer]:
    methods = registry.registered()

    def read(name: str) -> Layer:
        if policy and name:
            content = history.file_at(file.parent, name, f"./{file.name}")
            return layer(content, file=f"{name}:{policy}", methods=methods)
        revision, path = ("", name) if policy else _revision(name)
        if revision:
            return layer(history.file_at(Path.cwd(), revision, path), file=name, methods=methods)
        return read_layer(name or policy, kind="project", methods=methods)

    return read
