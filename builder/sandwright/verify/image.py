"""The image for methods whose root is an image's: the policy's image if it is built, else an empty one.

The probe program is static and mounted in, so that any root works, even one without programs.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandwright.engines.archive import empty_image
from sandwright.engines.client import EngineClient
from sandwright.environment import ROOTFS
from sandwright.errors import HostError
from sandwright.methods import registry
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.baseline import load_baseline
from sandwright.verify.account import share_fixture
from sandwright.verify.fixture import Fixture

_PROGRAMS = (
    "/usr", "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ld.so.cache",
    "/etc/java-17-openjdk", "/etc/maven", "/etc/vim", "/etc/localtime",
)  # fmt: skip
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True)
class HostPrograms:
    """Directories of the host's system for an empty root, mounted read-only, and links in the root."""

    directories: tuple[str, ...]
    links: Mapping[str, str]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that grant the directories."""
        return (f"filesystem.read={json.dumps(['...', *self.directories])}",)


NO_PROGRAMS = HostPrograms((), {})


def host_programs() -> HostPrograms:
    """The directories of this host, with /bin and /lib as links into /usr."""
    links = {name: os.readlink(f"/{name}") for name in _LINKS if Path(f"/{name}").is_symlink()}  # noqa: PTH115
    return HostPrograms(tuple(each for each in _PROGRAMS if Path(each).exists()), links)


@dataclass(frozen=True)
class Provision:
    """Additional inputs of a method's start: settings, variables of its launcher, notes for the report."""

    settings: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@contextlib.contextmanager
def provide(
    method: str, policy: ResolvedPolicy, fixture: Fixture, *, programs: HostPrograms = NO_PROGRAMS
) -> Iterator[Provision]:
    """Provide the image with which a method can start this policy, for the length of a `with`.

    `programs` is for an empty root.
    """
    properties = registry.properties(method)
    if properties.engine:
        with _provide_engine_image(method, policy, programs) as provision:
            yield provision
        return
    if properties.own_account:
        share_fixture(fixture, registry.backend(method).owner(policy))
        yield Provision()
        return
    around = _around(method, policy)
    try:
        yield Provision(environment={**around, **registry.backend(method).environment(policy)})
    except HostError as error:
        root = _bare(policy, fixture, programs)
        note = f"{method}: on an empty root with mount points only: {error}"
        environment = {**around, ROOTFS.name: str(root)}
        yield Provision(programs.settings if programs.directories else (), environment, (note,))


def _around(method: str, policy: ResolvedPolicy) -> Mapping[str, str]:
    """The requirements of the engine whose container holds the sandbox."""
    inside = registry.properties(method).outer_container and policy.gvisor_engine != "none"
    return registry.backend(policy.gvisor_engine).environment(policy) if inside else {}


@contextlib.contextmanager
def _provide_engine_image(engine: str, policy: ResolvedPolicy, programs: HostPrograms) -> Iterator[Provision]:
    """Give the engine an empty image if it doesn't have the policy's, and remove it at the end."""
    environment = registry.backend(engine).environment(policy)
    names = (f"sandwright/{policy.image}:latest", policy.image)
    client = EngineClient(engine)
    if any(client.image_id(each) for each in names):
        yield Provision(environment=environment)
        return
    platform, links = policy.facts.platform, programs.links
    with empty_image(client, platform, purpose="verify", links=links) as reference:
        note = f"{engine}: on an image of empty directories, as it does not have {policy.image}"
        settings = programs.settings if programs.directories else ()
        yield Provision((f"image={reference}", *settings), environment, (note,))


def _bare(policy: ResolvedPolicy, fixture: Fixture, programs: HostPrograms) -> Path:
    """Mount points of the baseline, and of listed paths in directories that belong to an image."""
    root, baseline = fixture.root / "rootfs", load_baseline()
    (root / "usr").mkdir(parents=True)
    for point in baseline.directories:
        (root / point.path[1:]).mkdir(parents=True)
        (root / point.path[1:]).chmod(point.mode)
    for point in baseline.files:
        _make_mount_point(root / point.path[1:], directory=False)
    for rule in policy.filesystem.rules:
        kind = policy.facts.kind(rule.path)
        if rule.kind == "deny" and not policy.denies_image(rule.path):
            continue  # nothing is mounted over paths that only the host has
        if rule.origin == "listed" and rule.path != "/" and kind is not None and kind != "symlink":
            _make_mount_point(root / rule.path[1:], directory=kind == "directory")
    for directory in programs.directories:
        _make_mount_point(root / directory[1:], directory=Path(directory).is_dir())
    for name, target in programs.links.items():
        (root / name).symlink_to(target)
    return root


def _make_mount_point(path: Path, *, directory: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if directory:
        path.mkdir(exist_ok=True)
    else:
        path.touch()
