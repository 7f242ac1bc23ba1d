"""A container of Docker or Podman, as values: the one source of its arguments and its service.

The modules that spell these values for an engine add no policy to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, assert_never

from sandwright.errors import RenderError
from sandwright.policy.names import EngineName
from sandwright.policy.resolved import ResolvedPolicy, Resources
from sandwright.render.accounts import Account, account_of
from sandwright.render.baseline import load_baseline
from sandwright.render.hostnames import name_files
from sandwright.render.imagemasks import check_image_masks, masked_paths
from sandwright.render.mounts import MountPlan
from sandwright.render.placeholders import ignored_directories
from sandwright.render.proxy_env import proxy_environment
from sandwright.resources import shipped_images

PROXIES = ("ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Variables, in capitals and not, that Docker's client takes from its configuration into each container."""

PROXY = "proxy"
CLIENTS = "/etc/sandwright-clients"
"""The variable of the proxy's container with the network that it serves, once there is one."""
"""The host's name of the proxy, in a sandbox that has one."""

TMP = "/tmp"  # noqa: S108 - what is inside the sandbox
"""A directory that every container can write, independent of the host's TMPDIR."""

LEAST_MEMORY = 6 << 20
"""Bytes. Docker starts no container with less (moby, daemon/daemon_unix.go, linuxMinMemory)."""


@dataclass(frozen=True)
class Bind:
    """A path of the host that is visible at `target`, with the mounts below it."""

    source: str
    target: str
    writable: bool


@dataclass(frozen=True)
class Container:
    """A container without a run's own values: its command, its name, the variables that are passed on.

    `image` is the reference that the engine knows it by; `ours` is its name where it is this project's.
    `user` is who the process runs as, None for the image's own user; `account` is who that is in the files
    that are mounted over the image's. `keep_id`: Podman maps the caller to the same numbers inside. `folders`
    and `files` are hidden: the first are empty, nothing can be done with the second. `ignored` are as
    `folders`, but for a `.gitignore` by which Git passes over them. `masked` are files and folders of the
    image, which Podman hides if they are there. `scratch` are empty
    directories that can be written. `environment` are values that are set; `unset` are names that no
    container gets of the engine's own configuration. `proxied`: the launcher puts it on a network with
    nothing but the proxy, instead of on none.
    """

    engine: EngineName
    image: str
    ours: str
    user: tuple[int, int] | None
    account: Account | None
    keep_id: bool
    capabilities: tuple[str, ...]
    gains_rights: bool
    network: Literal["none", "host"]
    proxied: bool
    hostname: str
    directory: str
    binds: tuple[Bind, ...]
    folders: tuple[str, ...]
    ignored: tuple[str, ...]
    files: tuple[str, ...]
    masked: tuple[str, ...]
    scratch: tuple[str, ...]
    environment: Mapping[str, str]
    unset: tuple[str, ...]
    limits: Resources


def container(policy: ResolvedPolicy, plan: MountPlan, engine: EngineName) -> Container:
    """The container of a policy; `plan` is its mount plan over an image.

    Raise RenderError for values that the engine refuses: a path that is not UTF-8, too little memory.
    """
    name = _shipped_image_name(policy.image)
    user = _container_user(policy, engine)
    account = None if user is None else account_of(policy, *user)
    made = Container(
        engine=engine,
        image=f"sandwright/{name}:latest" if name else policy.image,
        ours=name,
        user=user,
        account=account,
        keep_id=engine == "podman" and policy.facts.uid != 0 and user not in (None, (0, 0)),
        capabilities=load_baseline().capabilities["init" if policy.process.sandbox_root else "none"],
        gains_rights=policy.process.sandbox_root,
        network=_network(policy),
        proxied=policy.network.mode == "proxy",
        hostname=load_baseline().hostname,
        directory="/",
        binds=(),
        folders=(),
        ignored=(),
        files=(),
        masked=(),
        scratch=(),
        environment=_environment(policy, account),
        unset=tuple(_unset_proxies(policy)),
        limits=policy.resources,
    )
    made = with_mounts(made, plan)
    if policy.facts.os != "linux":  # where the launcher is shell, which makes no file to lie there
        made = replace(made, folders=(*made.folders, *made.ignored), ignored=())
    made = replace(made, directory=_working_directory(policy, made.binds))
    _check_container(made)
    return made


def with_mounts(container: Container, plan: MountPlan) -> Container:
    """The same container, with the mounts of another plan. Raise RenderError like `container`."""
    masked: tuple[str, ...] = ()
    if container.engine == "podman":
        plan, masked = masked_paths(plan)
    else:
        check_image_masks(plan, container.engine, accounts=container.account is not None)
    places = _sort_mounts(plan)
    return replace(
        container,
        binds=tuple(places.binds),
        folders=tuple(places.folders),
        ignored=tuple(places.ignored),
        files=tuple(places.files),
        masked=masked,
        scratch=tuple(places.scratch),
    )


def network_files(container: Container) -> dict[str, bytes]:
    """The files below /etc that stand in for an engine's where there is no network, by name.

    Docker's resolv.conf(5) and Podman's hosts(5) are made of the host's, which nothing lists.
    """
    return {} if container.network == "host" else name_files(container.hostname, proxied=container.proxied)


def _network(policy: ResolvedPolicy) -> Literal["none", "host"]:
    """With a proxy none: the launcher makes a network for the two."""
    return "host" if policy.network.mode == "host" else "none"


def _container_user(policy: ResolvedPolicy, engine: EngineName) -> tuple[int, int] | None:
    """The uid and gid inside: the caller's, or root's with `sandbox_root`; None for the image's user.

    In a rootless Podman, root inside is the caller already.
    """
    facts = policy.facts
    if policy.process.sandbox_root and (policy.mapping != "required" or engine == "podman"):
        return None if policy.mapping == "off" else (0, 0)
    return None if policy.mapping == "off" else (facts.uid, facts.gid)


def _environment(policy: ResolvedPolicy, account: Account | None) -> dict[str, str]:
    variables = dict(policy.environment.set)
    if account is not None and not policy.environment.passes("HOME"):
        variables.setdefault("HOME", account.home)  # engines look it up in the image's own file
    return {**variables, **_proxy_variables(policy)}


def _proxy_variables(policy: ResolvedPolicy) -> dict[str, str]:
    """The variables for the proxy, by the name that the launcher gives it in /etc/hosts."""
    return proxy_environment(policy.environment.set, host=PROXY) if policy.network.mode == "proxy" else {}


def _unset_proxies(policy: ResolvedPolicy) -> Iterator[str]:
    for name in (*PROXIES, *map(str.lower, PROXIES)):
        is_set = name in policy.environment.set or name in _proxy_variables(policy)
        if not is_set and not policy.environment.passes(name):
            yield name


@dataclass
class _Places:
    """The mount points inside, sorted by the engine's option for them."""

    binds: list[Bind] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    scratch: list[str] = field(default_factory=list)


def _sort_mounts(plan: MountPlan) -> _Places:
    places = _Places()
    for mount in plan.mounts:
        match mount.kind:
            case "bind":
                places.binds.append(Bind(mount.source, mount.target, mount.writable))
            case "tmpfs" | "mask" if mount.writable:
                places.scratch.append(mount.target)
            case "mask" if mount.entry != "directory":
                places.files.append(mount.target)
            case "tmpfs" | "mask":
                places.folders.append(mount.target)
            case "dev" | "proc" | "symlink":
                raise AssertionError(f"a plan over an image holds no {mount.kind}")  # pragma: no cover
            case _:
                assert_never(mount.kind)
    places.ignored += ignored_directories(plan.placeholders)
    for placeholder in plan.placeholders:
        if placeholder.path in places.ignored:
            continue
        if placeholder.entry == "directory":
            places.folders.append(placeholder.path)
        else:
            places.binds.append(Bind(placeholder.path, placeholder.path, writable=False))
    if TMP not in {mount.target for mount in plan.mounts}:
        places.scratch.append(TMP)
    return places


def _working_directory(policy: ResolvedPolicy, binds: Sequence[Bind]) -> str:
    """The directory that the command starts in: the host's current one, where it is brought in."""
    cwd = policy.canonical(policy.facts.variables["CWD"])
    there = any(cwd == each.target or cwd.startswith(f"{each.target}/") for each in binds)
    return cwd if there and policy.is_path_readable(cwd) else "/"


def _check_container(made: Container) -> None:
    """Refuse values that the engine's JSON can't express, and values that the engine refuses later."""
    if any(":" in path for path in made.masked):
        raise RenderError(f"podman cannot hide a path with a colon: {', '.join(made.masked)}")
    paths = [made.directory, *made.masked, *made.folders, *made.ignored, *made.files, *made.scratch]
    paths += [path for each in made.binds for path in (each.source, each.target)]
    for text in (*paths, *(f"{name}={value}" for name, value in made.environment.items())):
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise RenderError(f"{made.engine} takes names in UTF-8 only, and {text!r} is none")
    memory = made.limits.memory
    if made.engine == "docker" and memory is not None and memory < LEAST_MEMORY:
        raise RenderError(f"resources.memory: Docker starts nothing with less than 6MiB, not with {memory} B")


def _shipped_image_name(image: str) -> str:
    """The name of an image of this project, empty for any other reference."""
    return image if image in shipped_images() else ""
