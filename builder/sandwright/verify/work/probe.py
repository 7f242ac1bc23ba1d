"""The type of probes of usefulness, and the probes that ship."""

import functools
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from sandwright.documents.decode import decode
from sandwright.documents.model import ValueCheck
from sandwright.documents.yaml import parse_yaml
from sandwright.policy.names import FEATURES

PROBES = Path(__file__).with_name("probes")
"""A file for each family; its name is the first part of its probes' names."""


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


Expression = Annotated[str, ValueCheck(_expression)]
"""A regular expression, searched for with `re.MULTILINE`."""


def _feature(name: str) -> str:
    if name and name not in FEATURES:
        raise ValueError(f"is no feature of a policy: {name}")
    return name


Feature = Annotated[str, ValueCheck(_feature)]
"""One of `FEATURES`, or empty."""


@dataclass(frozen=True, kw_only=True)
class NearestDenial:
    """The denied access that is nearest to the work."""

    script: str
    """For `sh -eu`, inside, after the work: it must fail."""

    shows: Expression = "Read-only file system|Permission denied"
    """The expression that its output must match; a failure for another reason proves nothing."""

    feature: Feature = ""
    """The feature of policies that it needs. Under a method without it, a write to `kept` is attempted
    instead."""


@dataclass(frozen=True, kw_only=True)
class WorkLimit:
    """A limit of a method, and its symptom."""

    reason: str
    shows: Expression


@dataclass(frozen=True, kw_only=True)
class WorkProbe:
    """A piece of usual work in a project, with real programs.

    It has a new project with the directories `kept` (read-only) and `secret` (denied), and `outside` beside
    it. Under a method that can't close paths inside a project, these are links to directories beside it.
    Scripts are for `sh -eu`, and start in the project.
    """

    name: str
    about: str
    needs: tuple[str, ...] = ()
    """Programs besides `sh` and coreutils; without one it is skipped. One with blanks is a command that must
    succeed."""

    policy: tuple[str, ...] = ()
    """Further settings that it needs of a policy, as for `--set`; `$BESIDE` is the project's parent
    directory."""

    before: str = ""
    """On the host, in the project, before the sandbox is rendered."""

    script: str
    """The work, inside. It must succeed, …"""

    done: Expression
    """… its output must contain this, …"""

    after: str = ""
    """… and this must succeed afterwards on the host, in the project."""

    denied: NearestDenial
    cannot: dict[str, WorkLimit] = field(default_factory=dict)
    """By method, or `all`: the limits of this work. A breach is still a fail."""

    seconds: float = 120.0
    """The time limit for all commands inside, in seconds."""


@dataclass(frozen=True, kw_only=True)
class _Family:
    probes: tuple[WorkProbe, ...]


@functools.cache
def work_probes() -> tuple[WorkProbe, ...]:
    """The probes that ship, their names with the family's before it. Raise DocumentError for a faulty one."""
    return tuple(probe for file in sorted(PROBES.glob("*.yaml")) for probe in read_family(file))


def read_family(file: Path) -> tuple[WorkProbe, ...]:
    """The probes of one file. Raise DocumentError for a faulty one."""
    family = decode(_Family, parse_yaml(file.read_bytes(), file=file.name))
    return tuple(replace(probe, name=f"work/{file.stem}/{probe.name}") for probe in family.probes)
