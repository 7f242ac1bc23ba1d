"""Reads the two policies that are compared: files, or a file of two revisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright import githistory
from sandwright.change.cases import paths
from sandwright.methods import registry
from sandwright.policy.collect import collect, observe
from sandwright.policy.load import Layer, layer, layers_for, read_layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy


@dataclass(frozen=True)
class PolicyPair:
    """Two policies of one project. `file` is where the new one is, or would be in the work tree.

    The layers of the operator, the user and this run are below and above both.
    """

    old: MergedPolicy
    new: MergedPolicy
    file: Path

    def resolve(
        self, project: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> tuple[ResolvedPolicy, ResolvedPolicy]:
        """Both on this host, each with the facts of every path that the comparison asks about.

        `project` and `environ` are those of `collect`; absent: the new file's directory, this environment.
        """
        where = self.file.parent if project is None else project
        found = [each.resolve(collect(each, project=where, environ=environ)) for each in (self.old, self.new)]
        asked = paths(found)
        old, new = (replace(each, facts=observe(each.facts, asked)) for each in found)
        return old, new

    def at(self, file: Path) -> PolicyPair:
        """The same policies as if they were in another file."""
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
    work tree. Else each is a file, or `REVISION:FILE` as Git has it. Raise UsageError for what can't be read,
    DocumentError for what is no policy.
    """
    file = Path(policy if revisions else _file(new))
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
    return PolicyPair(merged[0], merged[1], file)


def _file(name: str) -> str:
    """The file that `REVISION:FILE` would be here; a file's own name."""
    revision, path = _revision(name)
    if not revision or path.startswith("./"):
        return path
    return str(githistory.top(Path.cwd()) / path)


def _revision(name: str) -> tuple[str, str]:
    """Revision and path; an empty revision for a file. What exists is a file, whatever its name."""
    revision, colon, path = name.partition(":")
    return (revision, path) if colon and revision and not Path(name).exists() else ("", name)


def _reader(file: Path, policy: str) -> Callable[[str], Layer]:
    methods = registry.registered()

    def read(name: str) -> Layer:
        if policy and name:
            content = githistory.file_at(file.parent, name, f"./{file.name}")
            return layer(content, file=f"{name}:{policy}", methods=methods)
        revision, path = ("", name) if policy else _revision(name)
        if revision:
            return layer(githistory.file_at(Path.cwd(), revision, path), file=name, methods=methods)
        return read_layer(name or policy, kind="project", methods=methods)

    return read
