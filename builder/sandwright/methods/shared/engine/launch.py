"""Renders the launcher of Docker and Podman where there is no program for it: shell, for macOS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandwright.methods.shared.engine.container import CLIENTS, Container, network_files
from sandwright.methods.shared.shims import shim_values
from sandwright.mountwatch import MOUNT_WATCH
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.launcher import common_values, script
from sandwright.render.mounts import MountPlan
from sandwright.render.templates import Quoted

OUTSIDE = {"docker": "bridge", "podman": "podman"}
"""The network that leads out, in an engine that nobody configured."""

PROXY_IMAGE = "sandwright/proxy:latest"

TITLES = {"docker": "Docker", "podman": "Podman"}


def engine_launcher(
    policy: ResolvedPolicy, plan: MountPlan, others: Sequence[Artifact], values: Mapping[str, Any]
) -> tuple[Artifact, ...]:
    """`launch` for a container of Docker or Podman, and `watch`.

    `others` are the artifacts that it checks and uses, `values` what its templates use beside the common.
    """
    watches = any(each.name == MOUNT_WATCH.name for each in others)
    ending = Quoted('engine kill --signal=KILL "$sw_run" >/dev/null 2>&1')
    own: dict[str, Any] = {
        "artifacts": [],
        "uid": None,
        "watched": False,
        "mount_watch": watches,
        "ending": ending,
    }
    options = Quoted(" --opaque" if "outer" in values else "")
    every = {**common_values(policy, plan), **own, "watch_options": options, **values}
    watch = script("watch", "engine-watch", every, "keeps the time limit, and cleans up after `launch`")
    sums = [(each.name, each.digest.removeprefix("sha256:")) for each in (*others, watch)]
    launch = script("launch", "engine", {**every, "sums": sums}, "runs a command in a container")
    return launch, watch


def launch_values(policy: ResolvedPolicy, container: Container) -> Mapping[str, Any]:
    """The values that `engine.sh.j2` and `engine-watch.sh.j2` use."""
    return {
        "engine": Quoted(container.engine),
        "title": Quoted(TITLES[container.engine]),
        "image": container.image,
        "missing": image_missing(container),
        "owner": policy.facts.uid if container.user is not None else None,
        "required": policy.mapping == "required",
        "rootless": container.engine == "podman" and policy.facts.uid != 0,
        "closed": [(name, f"dst=/etc/{name}") for name in closed(container)],
        "outside": Quoted(OUTSIDE[container.engine]),
        "clients": Quoted(CLIENTS),
        "proxy_missing": to_load(container, "proxy", PROXY_IMAGE),
        "account": container.account is not None,
        "home": container.account.home if container.account else "/",
        "keep_id": container.keep_id,
        "callers": [policy.facts.user, str(policy.facts.uid)],
        "controllers": Quoted(" ".join(controllers(container))),
        "files": bool(container.files),
        "files_unlimited": container.limits.files is None,
        "unset": list(container.unset) if container.engine == "docker" else [],
        "nested": list(shown(container)),
        "shims": shim_values(policy, container.engine),
    }


def closed(container: Container) -> Iterator[str]:
    """The files that are put over the image's as they are: not those of which each run has its own."""
    return (name for name in network_files(container) if not (container.proxied and name == "hosts"))


def controllers(container: Container) -> Iterator[str]:
    """The control groups that its limits need."""
    limits = container.limits
    for name, limit in (("cpu", limits.cpus), ("memory", limits.memory), ("pids", limits.pids)):
        if limit is not None:
            yield name


def shown(container: Container) -> Iterator[str]:
    """What is shown of the host, after `r` or `w`: none where nothing is read-only."""
    if any(not each.writable for each in container.binds):
        for bind in container.binds:
            yield f"{'w' if bind.writable else 'r'}{bind.source}"


def image_missing(container: Container) -> str:
    """What is said where the engine doesn't have the image."""
    engine, image, name = container.engine, container.image, container.ours
    if not name:
        return f"the image {image} is not here, and none is fetched: {engine} pull {image}"
    return to_load(container, name, image)


def to_load(container: Container, name: str, image: str) -> str:
    """The same of an image of ours."""
    load = f"sandwright export-image {name} --to {name}.tar && {container.engine} load --input {name}.tar"
    return f"the image {image} is not here: {load}"
