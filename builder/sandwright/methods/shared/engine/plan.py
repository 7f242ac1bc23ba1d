"""Plans the launcher of Docker and Podman."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sandwright.errors import RenderError
from sandwright.launcher import LAUNCH_INIT
from sandwright.launcher.plan import EnginePlan, ImagePlan, LaunchPlan, NamePlan, Pairs
from sandwright.methods.shared.engine.arguments import mount_fields
from sandwright.methods.shared.engine.container import CLIENTS, Container
from sandwright.methods.shared.engine.launch import (
    OUTSIDE,
    PROXY_IMAGE,
    controllers,
    covered_files,
    engine_script,
    image_missing,
    proxy_missing,
    visible_paths,
)
from sandwright.methods.shared.shims import shim_plan
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.authorities import with_authorities
from sandwright.render.hostnames import name_plan
from sandwright.render.launcher import common_plan, launch_program
from sandwright.render.mount_watch import PLAN
from sandwright.render.mounts import MountPlan


@dataclass(frozen=True)
class OuterPlan:
    """The additional input of gVisor's launcher, in a container of an engine.

    `image` is that of the container's root, `points` the mount points in it; `command` gets the command;
    `files` are artifacts, and where the container sees them.
    """

    image: str
    points: tuple[str, ...]
    command: tuple[str, ...]
    files: Pairs


def engine_plan(
    policy: ResolvedPolicy, plan: MountPlan, made: Container, options: Iterable[str], outer: OuterPlan | None
) -> LaunchPlan:
    """The launch plan for a container. Raise RenderError for values that it can't take."""
    base = common_plan(policy, plan, "engine")
    shims = shim_plan(policy, made.engine)
    done = replace(
        base,
        project=base.project if plan.placeholders else None,
        memory=None,
        cpus=None,
        pids=None,
        files=None,
        localhost=(),
        shims=replace(shims, search=None, loopback=False),
        ignored=tuple(mount_fields(f"dst={path}") for path in made.ignored),
        engine=EnginePlan(
            client=made.engine,
            options=tuple(options),
            started=(made.image, *(outer.command if outer else ())),
            image_missing=image_missing(made),
            files_inside=(
                *((name, f"dst=/etc/{name}") for name in covered_files(made)),
                *(outer.files if outer else ()),
            ),
            hidden_files=tuple(mount_fields(f"dst={path}") for path in made.files),
            binds=tuple(visible_paths(made)),
            owner=policy.facts.uid if made.user is not None else None,
            controllers=tuple(controllers(made)),
            home=made.account.home if made.account else None,
            callers=(policy.facts.user, str(policy.facts.uid)) if made.keep_id else (),
            unset=made.unset if made.engine == "docker" else (),
        ),
        image=ImagePlan(root=outer.image, points=outer.points) if outer else ImagePlan(),
    )
    done = with_authorities(policy, plan, done)
    if not made.proxied:
        return done
    names = NamePlan() if outer else name_plan(policy)
    return replace(done, names=names, engine=_proxied(policy, made, done.engine))


def _proxied(policy: ResolvedPolicy, made: Container, engine: EnginePlan) -> EnginePlan:
    return replace(
        engine,
        proxy_image=PROXY_IMAGE,
        proxy_missing=proxy_missing(made),
        proxy_network=OUTSIDE[made.engine],
        proxy_clients=CLIENTS,
        proxy_private=any(each.private for each in policy.network.allow),
    )


def engine_launcher(
    policy: ResolvedPolicy, plan: LaunchPlan, others: Sequence[Artifact]
) -> tuple[Artifact, ...]:
    """`launch` and its plan or variables. `others` are the artifacts that it checks and uses.

    Raise RenderError for ports, and for private names, where the engine is on another machine.
    """
    if policy.facts.os != "linux":
        if plan.expose:
            source = policy.source("network.expose")
            raise RenderError(f"{source}: network.expose: the container is on another machine than this one")
        if plan.engine.proxy_private:
            source = policy.source("network.allow")
            raise RenderError(f"{source}: network.allow: private: the proxy is on another machine")
        return engine_script(plan, others)
    watched = any(each.name == PLAN for each in others)
    plan = replace(plan, engine=replace(plan.engine, watched=watched))
    return launch_program(policy, plan, others, "runs a command in a container", inside=LAUNCH_INIT)
