"""Protects existing names in a project that tools run by themselves, also below its root.

The names are those that the policy protects, and those of `policy.autorun` that are protected where they are
there. Repositories of Git in the project count, too: their directories are protected like the project's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sandwright.errors import UsageError
from sandwright.inputs import LiveHost
from sandwright.nested import IncompleteSearch
from sandwright.policy.autorun import NAMES
from sandwright.policy.layers import MergedSettings
from sandwright.policy.paths import is_inside
from sandwright.policy.provenance import Sourced
from sandwright.policy.rules import Protection

_METADATA: dict[str, list[str]] = {}
"""The names that are protected if they exist, by their kind: the name itself, or metadata."""

_STORES = (".jj/repo/store/git/objects", ".sl/store/git/objects")
"""In the repositories of Git that Jujutsu and Sapling keep, in metadata that is not searched."""

_OF_GIT = ("/.git", "/HEAD", "/commondir", "/objects")
"""The names that a work tree has, and bare repositories have. While they are protected, a program inside can
move `HEAD` away, but neither `commondir` nor `objects`."""

_RENDERED = ".sandbox"
"""The directory that sandwright makes in a project: a `sandbox.yaml` beside it is a policy, not data of the
project."""

for _each in NAMES:
    if _each.decision == "existing":
        _METADATA.setdefault(_each.metadata or _each.path, []).append(_each.path)


def searched_roots(roots: Iterable[str], homes: Collection[str], project: str) -> list[str]:
    """The writable directories that contain work: neither a home, its parents, nor its settings (`~/.x`).

    The project holds work wherever it is: `~/.dotfiles`, a linked work tree in `~/src/.worktrees`.
    """
    settings = tuple(f"{home.rstrip('/')}/." for home in homes)
    return [
        path
        for path in roots
        if not any(is_inside(home, path) for home in homes)
        and (is_inside(path, project) or not path.startswith(settings))
    ]


def repositories(
    settings: MergedSettings, roots: Iterable[str], closed: Collection[str], inputs: LiveHost
) -> list[str]:
    """The directories below `roots` that may be or contain repositories, if the policy protects those.

    Raise UsageError where the search can't be complete.
    """
    if not any(item.value.startswith(".git/") for item in settings.items("filesystem.protect")):
        return []
    found = (f"{root}/{path}" for root in roots for path in _find_protected(settings, root, closed, inputs))
    return list(dict.fromkeys(path.rpartition("/")[0] for path in found if path.endswith(_OF_GIT)))


def existing_protected(
    settings: MergedSettings,
    roots: Iterable[str],
    others: Iterable[str],
    closed: Collection[str],
    inputs: LiveHost,
) -> tuple[str, ...]:
    """The paths that are protected since something is there: below `roots`, and at the top of `others`.

    Among them are missing names in metadata that is there. Names that the policy protects at the top are not.
    """
    protected = {name.value for name in _protected_names(settings)}
    if not protected:
        return ()
    protected.add(_RENDERED)  # at the top it is protected in any case
    found = [
        f"{root}/{path}"
        for root in roots
        for path in _find_protected(settings, root, closed, inputs)
        if path not in protected
    ]
    found = [path for path in found if not path.endswith(_OF_GIT)]
    policies = (
        f"{path.removesuffix(_RENDERED)}sandbox.yaml" for path in found if path.endswith(f"/{_RENDERED}")
    )
    found += [path for path in policies if inputs.kind(path) is not None]
    top = (f"{root}/{name}" for root in others for name in _METADATA if name != _RENDERED)
    found += (path for path in top if inputs.kind(path) is not None)
    return tuple(dict.fromkeys(each for path in found for each in _names_of(path, inputs)))


def _names_of(path: str, inputs: LiveHost) -> Iterator[str]:
    """The protected paths of an existing entry: it, or the names in it that name programs."""
    key = next((key for key in _METADATA if path.endswith(f"/{key}")), "")
    if not key or key in _METADATA[key]:
        yield path
    elif inputs.kind_behind(path) == "file":
        yield path  # it leads to metadata elsewhere, as `.jj/repo` of another workspace does
    elif inputs.kind_behind(path) == "directory":
        yield from (path.removesuffix(key) + name for name in _METADATA[key])


def _find_protected(
    settings: MergedSettings, root: str, closed: Iterable[str], inputs: LiveHost
) -> list[str]:
    """The relative paths below a directory at which one of the names is, but for its own repository.

    `closed` are directories that the sandbox can't write.
    """
    names = {name.value for name in _protected_names(settings)}
    names = {
        *(name[1:] for name in _OF_GIT),
        *_STORES,
        *(name for name in names if not name.startswith(".git/")),
        *_METADATA,
    }
    skipped = (
        f"/{path[len(root) :].lstrip('/')}" for path in closed if path != root and is_inside(path, root)
    )
    try:
        found = inputs.ask("nested", root, *sorted(names), *sorted(skipped))
    except IncompleteSearch as error:
        raise UsageError(
            f"{error}. Repositories and settings of programs in it could not be protected: remove what you "
            "do not need there, or list the directory under filesystem.readonly"
        ) from error
    return [path for path in found if path != ".git"]


def _protected_names(settings: MergedSettings) -> list[Sourced[str]]:
    """The protected names of a policy, without those of sandwright: a policy below the root may be data."""
    return [item for item in settings.items("filesystem.protect") if item.source.layer != "built-in"]


def nested_protections(
    settings: MergedSettings, found: Iterable[str], excepted: Collection[tuple[str, int]]
) -> Iterator[Protection]:
    """The protections of the paths of `existing_protected`, except `excepted`: paths with the lifter's rank.

    Each is a name of the layer that protects it: of the one that protects anything, for names of the table.
    """
    names = _protected_names(settings)
    by_name: dict[tuple[str, Sourced[str]], list[str]] = {}
    for path in found if names else ():
        protecting = next((each for each in names if path.endswith(f"/{each.value}")), names[0])
        parent, _, name = path.rpartition("/")
        by_name.setdefault((name, protecting), []).append(parent)
    for (name, protecting), parents in by_name.items():
        later = frozenset(path for path, rank in excepted if rank > protecting.source.rank)
        lifted = later if protecting.source.layer != "floor" else frozenset[str]()
        yield Protection((Sourced(name, protecting.source),), tuple(parents), lifted)
