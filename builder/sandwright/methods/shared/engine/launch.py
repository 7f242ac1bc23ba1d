"""What the launcher of Docker and Podman is rendered from, beside what all launchers have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sandwright.methods.shared.engine.container import CLIENTS, Container, network_files
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.shims import shim_values
from sandwright.render.templates import Quoted

OUTSIDE = {"docker": "bridge", "podman": "podman"}
"""The network that leads out, in an engine that nobody configured."""

TITLES = {"docker": "Docker", "podman": "Podman"}


def launch_values(policy: ResolvedPolicy, container: Container) -> Mapping[str, Any]:
    """The values that `engine.sh.j2` and `engine-watch.sh.j2` use."""
    return {
        "engine": Quoted(container.engine),
        "title": Quoted(TITLES[container.engine]),
        "image": container.image,
        "missing": _missing(container),
        "owner": policy.facts.uid if container.user is not None else None,
        "required": policy.mapping == "required",
        "rootless": container.engine == "podman" and policy.facts.uid != 0,
        "closed": [(name, f"dst=/etc/{name}") for name in _closed(container)],
        "outside": Quoted(OUTSIDE[container.engine]),
        "clients": Quoted(CLIENTS),
        "proxy_missing": _load(container, "proxy", "sandwright/proxy:latest"),
        "account": container.account is not None,
        "home": container.account.home if container.account else "/",
        "keep_id": container.keep_id,
        "callers": [policy.facts.user, str(policy.facts.uid)],
        "controllers": Quoted(" ".join(_controllers(container))),
        "files": bool(container.files),
        "files_unlimited": container.limits.files is None,
        "unset": list(container.unset) if container.engine == "docker" else [],
        "nested": list(_places(container)),
        "shims": shim_values(policy, container.engine),
    }


def _closed(container: Container) -> Iterator[str]:
    """The files that are put over the image's as they are: not those of which each run has its own."""
    return (name for name in network_files(container) if not (container.proxied and name == "hosts"))


def _controllers(container: Container) -> Iterator[str]:
    """The control groups that its limits need."""
    limits = container.limits
    for name, limit in (("cpu", limits.cpus), ("memory", limits.memory), ("pids", limits.pids)):
        if limit is not None:
            yield name


def _places(container: Container) -> Iterator[str]:
    """What is shown of the host, after `r` or `w`: none where nothing is read-only."""
    if any(not each.writable for each in container.binds):
        for bind in container.binds:
            yield f"{'w' if bind.writable else 'r'}{bind.source}"


def _missing(container: Container) -> str:
    engine, image, name = container.engine, container.image, container.ours
    if not name:
        return f"the image {image} is not here, and none is fetched: {engine} pull {image}"
    return _load(container, name, image)


def _load(container: Container, name: str, image: str) -> str:
    load = f"sandwright export-image {name} --to {name}.tar && {container.engine} load --input {name}.tar"
    return f"the image {image} is not here: {load}"
