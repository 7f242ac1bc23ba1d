"""Texts of the launchers of Docker and Podman, and the launcher in shell, for macOS."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from sandwright.launcher.plan import LaunchPlan
from sandwright.methods.shared.engine.container import Container, network_files
from sandwright.render.artifact import Artifact
from sandwright.render.shell import plain_script, variables

OUTSIDE = {"docker": "bridge", "podman": "podman"}
"""The network that leads out, in an engine with its default configuration."""

PROXY_IMAGE = "sandwright/proxy:latest"

TITLES = {"docker": "Docker", "podman": "Podman"}


FACTS = {
    "docker": " memory={{.MemoryLimit}} cpu={{.CPUCfsQuota}} pids={{.PidsLimit}} {{.SecurityOptions}}",
    "podman": "{{range .Host.CgroupControllers}} {{.}}=true {{end}}",
}
"""The client's queries about its machine."""


def engine_script(plan: LaunchPlan, others: Sequence[Artifact]) -> tuple[Artifact, Artifact]:
    """`launch` in shell, after its variables, for an engine on another machine than its client.

    `others` are the artifacts that it checks and uses.
    """
    engine, project = str(plan.engine.client), (plan.project or "").encode("utf-8", "surrogateescape")
    words = {
        "engine": engine,
        "title": TITLES[engine],
        "facts_format": FACTS[engine],
        "owner": plan.engine.owner if plan.uid is None else plan.uid,
        "required": plan.uid is not None,
        "time": plan.time,
        "home": plan.engine.home,
        "as_root": bool(plan.engine.callers),  # a Mac has no /etc/subuid
        "image": plan.engine.started[0],
        "image_missing": plan.engine.image_missing,
        "image_root": plan.image.root,
        "shims": plan.shims.place,
        "project": f"sandwright.project={hashlib.sha256(project).hexdigest()[:32]}",
        "nothing_mask": "777" if plan.image.root is None else "333",
        "proxied": plan.proxy,
        "proxy_image": plan.engine.proxy_image,
        "proxy_missing": plan.engine.proxy_missing,
        "proxy_network": plan.engine.proxy_network,
        "proxy_clients": plan.engine.proxy_clients,
        "inside": plan.writable,
        "absent": plan.absent,
        "there_directories": plan.there_directories,
        "there_files": plan.there_files,
        "controllers": plan.engine.controllers,
        "image_points": plan.image.points,
        "passed": plan.passed,
        "never": plan.never,
        "covered_directories": plan.placeholder_directories,
        "options": ["--init" if each == "--init=false" else each for each in plan.engine.options],
        "hidden_files": plan.engine.hidden_files,
        "started": plan.engine.started,
        "unset_names": plan.engine.unset,
    }
    rows = {
        "sums": [(each.digest.removeprefix("sha256:"), each.name) for each in others],
        "covered_files": plan.placeholder_files,
        "files_inside": plan.engine.files_inside,
    }
    values = variables(words, rows)
    purpose = "runs a command in a container"
    return values, plain_script("oci", "launchers/engine.sh", name="launch", values=values, purpose=purpose)


def covered_files(container: Container) -> Iterator[str]:
    """The files that are put over the image's as they are: not those of which each run has its own."""
    return (name for name in network_files(container) if not (container.proxied and name == "hosts"))


def controllers(container: Container) -> Iterator[str]:
    """The cgroups that its limits need."""
    limits = container.limits
    for name, limit in (("cpu", limits.cpus), ("memory", limits.memory), ("pids", limits.pids)):
        if limit is not None:
            yield name


def visible_paths(container: Container) -> Iterator[str]:
    """The shared paths of the host, after `r` or `w`: none where nothing is read-only."""
    if any(not each.writable for each in container.binds):
        for bind in container.binds:
            yield f"{'w' if bind.writable else 'r'}{bind.source}"


def image_missing(container: Container) -> str:
    """The message where the engine doesn't have the image."""
    engine, image, name = container.engine, container.image, container.ours
    if not name:
        return f"the image {image} is not here, and is not downloaded: {engine} pull {image}"
    return _to_load(container, image, name)


def proxy_missing(container: Container) -> str:
    """The message for a missing proxy image, which is checked first; one command builds both images."""
    also = [container.ours] if container.ours else []
    return _to_load(container, PROXY_IMAGE, "proxy", *also)


def _to_load(container: Container, image: str, name: str, *also: str) -> str:
    """The same of an image of ours, and the command that builds it with others."""
    build = " ".join(("sandwright build-images", *(f"--name {each}" for each in (name, *also))))
    load = f"sandwright export-image {name} --to {name}.tar && {container.engine} load --input {name}.tar"
    return f"the image {image} is not here: {build}, or, if it is built, {load}"
