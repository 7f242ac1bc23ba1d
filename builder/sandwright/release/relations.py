"""Dependencies among the installed packages of an image, from the fields of Debian and Alpine. Pure.

Formats: Debian Policy, chapter 7; APKINDEX, fields `D` and `p`. Versions are not compared: the
distribution's resolver did that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sandwright.image.lock import PackageFormat

CONTROL_FIELDS: Mapping[PackageFormat, tuple[str, ...]] = {
    "deb": ("Maintainer", "Pre-Depends", "Depends", "Provides"),
    "apk": ("maintainer", "depend", "provides"),
}
"""The fields of a package's control file that an SBOM uses."""

_DEBIAN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*")
_APK_NAME = re.compile(r"[^<>=~!][^<>=~]*")


@dataclass(frozen=True)
class Relations:
    """The dependencies of a package, as groups of alternatives, and the other names that it provides."""

    needs: tuple[tuple[str, ...], ...] = ()
    provides: tuple[str, ...] = ()


NO_RELATIONS = Relations()


def control_relations(kind: PackageFormat, fields: Mapping[str, str]) -> Relations:
    """The relations in the control file of a package."""
    if kind == "apk":
        return apk_relations(fields.get("depend", ""), fields.get("provides", ""))
    return debian_relations(fields)


def debian_relations(fields: Mapping[str, str]) -> Relations:
    """The relations in a control file."""
    clauses = [clause for name in ("Pre-Depends", "Depends") for clause in fields.get(name, "").split(",")]
    groups = (tuple(_relation_names(_DEBIAN_NAME, clause.split("|"))) for clause in clauses)
    provided = _relation_names(_DEBIAN_NAME, fields.get("Provides", "").split(","))
    return Relations(tuple(each for each in groups if each), tuple(provided))


def apk_relations(depends: str, provides: str) -> Relations:
    """The relations in apk's database. `!name` is a conflict."""
    needs = tuple((name,) for name in _relation_names(_APK_NAME, depends.split()))
    return Relations(needs, tuple(_relation_names(_APK_NAME, provides.split())))


def _relation_names(pattern: re.Pattern[str], relations: Iterable[str]) -> Iterator[str]:
    for each in relations:
        if match := pattern.match(each.strip()):
            yield match[0]


def resolve_dependencies(relations: Mapping[str, Relations]) -> dict[str, tuple[str, ...]]:
    """The installed packages that each package needs: of alternatives the first that is installed."""
    providers = _provider_names(relations)
    found = {}
    for name, each in relations.items():
        groups = (next((providers[one] for one in group if one in providers), ()) for group in each.needs)
        found[name] = tuple(sorted({need for group in groups for need in group} - {name}))
    return found


def unmet_dependencies(relations: Mapping[str, Relations]) -> frozenset[str]:
    """The installed packages that need something which no installed package is or provides."""
    providers = _provider_names(relations)
    return frozenset(
        name
        for name, each in relations.items()
        if any(not any(one in providers for one in group) for group in each.needs)
    )


def _provider_names(relations: Mapping[str, Relations]) -> Mapping[str, set[str]]:
    """By each name that something may need, the packages that are it or provide it."""
    providers: dict[str, set[str]] = {name: {name} for name in relations}
    for name, each in relations.items():
        for provided in each.provides:
            providers.setdefault(provided, set()).add(name)
    return providers
