"""Renders gVisor in an outer container: an engine's container around runsc, which holds the sandbox.

The container shows the visible part of the host below `/host`; hidden paths are hidden there already, so
runsc's gofer cannot serve them. It has only the network that the policy grants, the limits of the policy in
its cgroup, a read-only root, a filter of our own, and the few capabilities that `oci/outer.json` names as
measured. In it the session program of the image `gvisor` writes a bundle for each session and starts runsc.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sandwright.errors import RenderError
from sandwright.methods.gvisor.threads import refuse_few_threads
from sandwright.methods.shared import reasons
from sandwright.methods.shared.engine.arguments import run_arguments
from sandwright.methods.shared.engine.container import PROXY, Bind, Container, container
from sandwright.methods.shared.engine.plan import OuterPlan, engine_launcher, engine_plan
from sandwright.methods.shared.engine.render import account_files, host_files, proxy_files
from sandwright.methods.shared.runtime_spec.render import (
    IMAGE_DIRECTORIES,
    NOTHING,
    root_accounts,
    runtime_config,
)
from sandwright.policy.names import EngineName, GvisorEngine
from sandwright.policy.paths import ancestors
from sandwright.policy.resolved import ResolvedPolicy, Resources
from sandwright.render.artifact import Artifact, json_artifact, json_text
from sandwright.render.authorities import authority_store
from sandwright.render.baseline import load_baseline
from sandwright.render.imagemasks import check_image_masks
from sandwright.render.mount_watch import engine_watch
from sandwright.render.mounts import MountPlan, mount_plan
from sandwright.render.proxy_env import proxy_environment
from sandwright.render.without_placeholders import plan_without_placeholders
from sandwright.resources import data_json
from sandwright.seccomp import CatalogueProfile, oci_json, profile

HOST = "/host"
"""The container's directory for paths of the host: none of them hides a program of the container."""

STATE = "/run/sandwright"
"""A tmpfs for bundles and for runsc's state."""

SESSION = "/sandwright/session"
"""The program of the image that starts sessions."""

_PACKED = "@packed@"


@dataclass(frozen=True)
class Grant:
    """The privileges of the container, so that runsc works in it.

    `capabilities` are those of its bounding set; `seccomp` is their filter. `masked`: the engine's masks stay
    on /proc.
    """

    capabilities: tuple[str, ...]
    seccomp: CatalogueProfile
    masked: bool

    def filter(self) -> dict[str, Any]:
        """The profile in the format of the engines."""
        return oci_json(self.seccomp.expand(caps=self.capabilities))


@functools.cache
def grant(*, rootless: bool) -> Grant:
    """The smallest sufficient privileges, as measured, from `oci/outer.json`."""
    data = data_json("oci", "outer.json")
    mode = "rootless" if rootless else "rootful"
    held = tuple(row["capability"] for row in data["capabilities"][mode])
    return Grant(held, profile(data["seccomp"][mode]), data["proc"][mode]["masked"])


def render_in_engine(policy: ResolvedPolicy, *, granted: Grant | None = None) -> tuple[Artifact, ...]:
    """The artifacts for a policy whose `gvisor.engine` names an engine.

    `config.json` is the sandbox's, `seccomp.json` is the container's, `launch` starts both. `granted` is for
    measurements: the container gets it instead of the measured capabilities. Raise RenderError for a setting
    that neither can express.
    """
    _check_expressible(policy)
    granted = granted or grant(rootless=policy.facts.uid != 0)
    plan = mount_plan(policy, root="image")
    document = inner_config(policy, plan)
    points = list(_outer_mount_points(document))
    made = outer_container(
        policy, plan, _outer_engine(policy.gvisor_engine), granted, private=_private_root_names(document)
    )
    config = Artifact("config.json", _json(document).encode("utf-8", "surrogateescape"), _CONFIG)
    files = (
        config,
        json_artifact("seccomp.json", granted.filter(), "the outer container's filter of system calls"),
        *account_files(made),
        *(replace(each, name=f"inside/{each.name}") for each in root_accounts(policy)),
        *host_files(made),
        *proxy_files(policy),
        *engine_watch(policy, plan),
        *authority_store(policy),
    )
    accounts = tuple(
        (f"inside/{each.name}", f"dst=/sandwright/{each.name}") for each in root_accounts(policy)
    )
    policy = _without_own(policy)
    inside = (("config.json", "dst=/sandwright/config.json"), *accounts)
    outer_plan = OuterPlan(policy.image, tuple(points), (SESSION, "run"), inside)
    return (
        *files,
        *engine_launcher(
            policy, engine_plan(policy, plan, made, _outer_run_arguments(made, granted), outer_plan), files
        ),
    )


@dataclass(frozen=True)
class Options:
    """A container without a launcher: options of `run`, files that they name, paths of files that are hidden.

    The files are `seccomp.json`, and those in `/sandwright` of the container: `config.json`, and accounts.
    """

    words: tuple[str, ...]
    files: Mapping[str, bytes]
    hidden: tuple[str, ...]


def outer_options(policy: ResolvedPolicy, *, granted: Grant | None = None) -> Options:
    """The options of a persistent container. Raise RenderError, also for `network.mode: proxy`.

    It has no placeholders: Git directories that need one are read-only as a whole, and other protected names
    that don't exist can be made.
    """
    if policy.network.mode == "proxy":
        raise RenderError("network.mode: proxy needs a launcher, and a persistent container has none")
    granted = granted or grant(rootless=policy.facts.uid != 0)
    _check_expressible(policy)
    plan = plan_without_placeholders(policy, root="image")
    document = inner_config(policy, plan)
    made = outer_container(
        policy, plan, _outer_engine(policy.gvisor_engine), granted, private=_private_root_names(document)
    )
    files = {"config.json": _json(document), "seccomp.json": json_text(granted.filter())}
    words = [word for word in _outer_run_arguments(made, granted) if word not in ("--rm", "--interactive")]
    encoded = {name: text.encode("utf-8", "surrogateescape") for name, text in files.items()}
    encoded |= {each.name: each.content for each in root_accounts(policy)}
    return Options(tuple(words), encoded, made.files)


def _without_own(policy: ResolvedPolicy) -> ResolvedPolicy:
    """The policy, without passing on the variables that control the container."""
    environment = policy.environment
    return replace(policy, environment=replace(environment, secret=environment.secret | _OWN_VARIABLES))


FLAGS = "SANDWRIGHT_FLAGS"
"""The variable with the options of runsc."""

_OWN_VARIABLES = frozenset((FLAGS, "SANDWRIGHT_PASSED", "SANDWRIGHT_PRIVATE"))


def _check_expressible(policy: ResolvedPolicy) -> None:
    """Refuse settings that an outer container can't have."""
    if policy.credentials.needs_bridge:
        field = "credentials.shims" if policy.credentials.shims else "credentials.signing"
        raise RenderError(f"{policy.source(field)}: {field}: gVisor's outer container cannot have shims")
    if policy.network.http:
        source = policy.source("network.http")
        raise RenderError(f"{source}: network.http: {reasons.NO_INSPECTION}")
    for name, ports in (("localhost", policy.network.localhost), ("expose", policy.network.expose)):
        if ports and policy.network.mode != "host":
            source = policy.source(f"network.{name}")
            raise RenderError(
                f"{source}: network.{name}: no port can be forwarded to gVisor's outer container"
            )
    refuse_few_threads(policy, "gVisor's container")


_CONFIG = "the sandbox's configuration (OCI runtime-spec), for runsc"


def _outer_engine(engine: GvisorEngine) -> EngineName:
    if engine == "none":
        raise AssertionError("there is no outer container to render")
    return engine


def outer_container(
    policy: ResolvedPolicy, plan: MountPlan, engine: EngineName, granted: Grant, *, private: Iterable[str]
) -> Container:
    """The container around runsc: the policy's own, with everything of the host below `/host`.

    `private` are the names at the sandbox's root that are not the image's.
    """
    check_image_masks(plan, "gvisor", accounts=policy.mapping != "off")
    host_mounts = tuple(
        replace(each, of_image=False) for each in plan.mounts
    )  # runsc binds each from below /host
    made = container(policy, replace(plan, mounts=host_mounts), engine)
    facts = policy.facts
    environment = {
        FLAGS: " ".join(runsc_flags(policy)),
        "SANDWRIGHT_PRIVATE": "\n".join(private),
    }
    return replace(
        made,
        image="sandwright/gvisor:latest",
        ours="gvisor",
        user=(facts.uid, facts.gid),
        keep_id=engine == "podman" and facts.uid != 0,
        capabilities=granted.capabilities,
        gains_rights=False,
        directory="/",
        binds=tuple(Bind(each.source, _host_path_inside(each.target), each.writable) for each in made.binds),
        folders=tuple(map(_host_path_inside, (*made.folders, *made.ignored))),
        ignored=(),
        files=tuple(map(_host_path_inside, made.files)),
        scratch=("/tmp",),  # noqa: S108 - the container's own
        environment=environment,
        limits=replace(policy.resources, files=None),
    )


def _host_path_inside(path: str) -> str:
    return f"{HOST}{path}"


def runsc_flags(policy: ResolvedPolicy) -> Iterator[str]:
    """The options of runsc. With a network it uses the container's, which has only the policy's grants.

    Without `--directfs=false`, its kernel would be root with capabilities over files, not the user `nobody`.
    """
    yield "--oci-seccomp"
    yield f"--network={'none' if policy.network.mode == 'none' else 'host'}"
    yield "--directfs=false"
    if policy.facts.uid != 0:
        yield "--rootless"
    if policy.network.unix_sockets:
        yield "--host-uds=open"


def inner_config(policy: ResolvedPolicy, plan: MountPlan) -> dict[str, Any]:
    """The configuration that all sessions have in common. Limits and users are the container's.

    The container may make no namespace of users: its filter and its capabilities are those of runsc alone.
    """
    document = runtime_config(replace(policy, resources=_per_process(policy.resources)), plan, gvisor=True)
    document["mounts"] = [*_outer_mounts(document["mounts"]), *_name_file_mounts(), *_account_mounts(policy)]
    if policy.network.mode == "proxy":
        document["process"]["env"] = list(_proxy_variables_inside(policy, document["process"]["env"]))
    document["linux"]["resources"] = {}
    linux = document["linux"]
    linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] != "user"]
    for name in ("cgroupsPath", "uidMappings", "gidMappings"):
        linux.pop(name, None)
    return document


def _json(document: dict[str, Any]) -> str:
    """The document, with long constant values, and each namespace, on one line.

    The session program reads it line by line, and leaves the namespace of networks out where the sandbox
    uses the container's; that is never the last.
    """
    linux = document["linux"]
    namespaces = sorted(linux["namespaces"], key=lambda each: str(each["type"]) != "network")
    packed: list[Any] = [linux["seccomp"], *namespaces]
    marked = [f"{_PACKED}{index}" for index in range(len(packed))]
    linux = {**linux, "seccomp": marked[0], "namespaces": marked[1:]}
    text = json_text({**document, "linux": linux})
    for mark, value in zip(marked, packed, strict=True):
        text = text.replace(f'"{mark}"', json.dumps(value, sort_keys=True), 1)
    return text


def _outer_mount_points(document: dict[str, Any]) -> Iterator[str]:
    """The paths that the image must have: mount points in its directories."""
    targets = [each["destination"] for each in document["mounts"]]
    for path in targets:
        if path.split("/")[1] in IMAGE_DIRECTORIES and not set(targets) & set(ancestors(path)):
            yield path


def _private_root_names(document: dict[str, Any]) -> list[str]:
    """The names at the root in which mount points are made. Raise RenderError for one with a line break."""
    firsts = {each["destination"].split("/")[1] for each in document["mounts"]} - IMAGE_DIRECTORIES
    if any("\n" in name for name in firsts):
        raise RenderError(
            "a name at the host's root holds a line break, which cannot be passed to gVisor's container"
        )
    return sorted(firsts)


def _per_process(limits: Resources) -> Resources:
    return replace(limits, memory=None, cpus=None, pids=None)


def _outer_mounts(mounts: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """With the host's paths where the container has them; /sys is the sentry's own, also without root."""
    baseline_mounts = {mount.destination: mount for mount in load_baseline().mounts}
    for mount in mounts:
        if mount["destination"] == "/sys":
            sysfs = baseline_mounts["/sys"]
            yield {**mount, "type": sysfs.type, "source": sysfs.source, "options": list(sysfs.options)}
        elif mount["type"] == "bind" and mount["source"] != NOTHING:
            yield {**mount, "source": _host_path_inside(mount["source"])}
        else:
            yield mount


def _name_file_mounts() -> Iterator[dict[str, Any]]:
    """The container's own names of hosts, which its engine or its launcher put there."""
    for path in ("/etc/hosts", "/etc/resolv.conf"):
        options = ["bind", "rprivate", "nosuid", "nodev", "ro"]
        yield {"destination": path, "type": "bind", "source": path, "options": options}


def _account_mounts(policy: ResolvedPolicy) -> Iterator[dict[str, Any]]:
    for each in root_accounts(policy):
        options = ["bind", "rprivate", "nosuid", "nodev", "ro"]
        source = f"/sandwright/{each.name}"
        yield {"destination": f"/etc/{each.name}", "type": "bind", "source": source, "options": options}


def _proxy_variables_inside(policy: ResolvedPolicy, environment: Iterable[str]) -> Iterator[str]:
    """The variables with the proxy's name in the container, instead of a port of the sandbox's localhost."""
    found = dict(each.split("=", 1) for each in environment)
    found |= policy.environment.set
    found |= proxy_environment(policy.environment.set, host=PROXY)
    yield from (f"{name}={value}" for name, value in sorted(found.items()))


def _outer_run_arguments(made: Container, granted: Grant) -> list[str]:
    """The options of `run`."""
    words = [*run_arguments(made), f"--tmpfs={STATE}:{_STATE_OPTIONS}"]
    if granted.masked:
        return words
    unmasked = [word for word in words if not word.startswith("--security-opt=mask=")]
    return [*unmasked, _UNMASKED[made.engine]]


_STATE_OPTIONS = "rw,exec,suid,dev,mode=1777,size=1048576k"
"""A user namespace can't take `nosuid` and `nodev` off again, and without root runsc makes its root read-only
with neither (EPERM). Nothing gains by a set-id program here, nor makes a device: no-new-privileges holds, and
CAP_MKNOD is not there."""

_UNMASKED = {
    "docker": "--security-opt=systempaths=unconfined",
    "podman": "--security-opt=unmask=ALL",
}
