"""Renders launchers: shell scripts that start a rendered sandbox without Python.

A launcher checks that what it was rendered for is still so (artifacts by checksum, no restricted path that
appeared since, no link where a directory was), hands the environment that the policy passes on through a pipe
or a private file and never as an argument, makes the covers of the mount plan, keeps the time limit, cleans
up, and exits as the command did. 124 says that the time was up, 125 that nothing was run. It never goes on
without the sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandwright.errors import RenderError
from sandwright.mountwatch import MOUNT_WATCH
from sandwright.policy.facts import EntryKind
from sandwright.policy.paths import ancestors
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import appearing
from sandwright.policy.values import LOADERS
from sandwright.render.artifact import Artifact
from sandwright.render.mounts import MountPlan
from sandwright.render.recipe import sandbox_environment
from sandwright.render.shims import shim_values
from sandwright.render.templates import Quoted, add_filter, quote_shell, render_template

BPF = 5
LOCK = 9
"""Descriptors under which bwrap finds its filter, and keeps the lock of the covers open."""

MAX_ARGUMENTS = 8900
"""bwrap refuses more than 9000 arguments, those of files included (bubblewrap.c, MAX_ARGS); some are the
launcher's."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")


def quote_patterns(names: object) -> Quoted:
    """Names of variables, or beginnings and `*`, as patterns of `case`. Raise RenderError for all else."""
    if not isinstance(names, list) or not names:
        raise RenderError(f"{names!r} is no list of names")
    for name in names:
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise RenderError(f"{name!r} is no name of a variable and no pattern of names")
    return Quoted(" | ".join(names))


def quote_words(words: object) -> Quoted:
    """Words as patterns of `case` that match themselves only."""
    if not isinstance(words, list) or not words:
        raise RenderError(f"{words!r} is no list of words")
    return Quoted(" | ".join(map(quote_shell, words)))


add_filter("patterns", quote_patterns)
add_filter("words", quote_words)


def bwrap_launcher(
    policy: ResolvedPolicy, plan: MountPlan, files: tuple[Artifact, ...], *, count: int
) -> tuple[Artifact, ...]:
    """`launch` for bubblewrap, and `watch` where there is something to watch.

    `files` are what it checks and uses: the arguments, `count` of them, the filter, the plan of mounts.
    """
    values = {
        **_common(policy, plan),
        "runtime": False,
        "watched": bool(plan.covers) or policy.resources.time is not None,
        "covers_inside": True,
        "pids": policy.resources.pids,
        "files": policy.resources.files,
        "too_many": count if count > MAX_ARGUMENTS else 0,
        "limit": MAX_ARGUMENTS,
        "bpf": BPF,
        "shims": shim_values(policy, "bwrap"),
    }
    return _launchers("bwrap", values, files, "runs a command in the sandbox")


def runtime_launcher(
    policy: ResolvedPolicy,
    plan: MountPlan,
    files: tuple[Artifact, ...],
    *,
    gvisor: bool,
    points: Sequence[str],
    private: Sequence[str],
) -> tuple[Artifact, ...]:
    """`launch` for an OCI runtime, and `watch`.

    `files` are the configuration, and accounts to lie over the image's. `points` are the mount points that
    the image has to have. `private` are the names at the root that are not the image's.
    """
    limits = policy.resources
    shims = shim_values(policy, "gvisor" if gvisor else "oci")
    values = {
        **_common(policy, plan),
        "runtime": True,
        "shims": shims,
        "own_network": policy.network.mode == "proxy" or bool(shims and shims["loopback"]),
        "watched": True,
        "gvisor": gvisor,
        "flags": Quoted(" ".join(_runsc_flags(policy, shims)) if gvisor else ""),
        "limited": any(each is not None for each in (limits.memory, limits.cpus, limits.pids)),
        "rootless": policy.facts.uid != 0,
        "points": points,
        "private": private,
        "image": policy.image,
        "accounts": [each.name for each in files if each.name in ("passwd", "group")],
        "ending": "",
        "watch_options": Quoted(" --wait --opaque" if gvisor else " --wait"),
    }
    return _launchers("runtime", values, files, "runs a command in a container of an OCI runtime")


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
    every = {**_common(policy, plan), **own, "watch_options": options, **values}
    watch = _script("watch", "engine-watch", every, "keeps the time limit, and cleans up after `launch`")
    sums = [(each.name, each.digest.removeprefix("sha256:")) for each in (*others, watch)]
    launch = _script("launch", "engine", {**every, "sums": sums}, "runs a command in a container")
    return launch, watch


def account_launcher(
    policy: ResolvedPolicy, plan: MountPlan, files: tuple[Artifact, ...], values: Mapping[str, Any]
) -> tuple[Artifact, ...]:
    """`launch` for an account of the project's own, `enter`, and `watch` where there are covers.

    `files` are the artifacts that they check and use, `values` what their templates use beside the common.
    """
    common = _common(policy, plan)
    limits = {"pids": policy.resources.pids, "files": policy.resources.files}
    own = {"runtime": False, "watched": bool(plan.covers), "never": [*common["never"], "HOME"]}
    every = {**common, **limits, **values, **own}
    enter = _account_script("enter", every, "becomes root of namespaces, then the account")
    watch: tuple[Artifact, ...] = ()
    if plan.covers:
        timeless = {**every, "time": None}
        watch = (_script("watch", "watch", timeless, "cleans up after `launch`"),)
    checked = _checked((*files, enter, *watch))
    launch = _account_script("launch", {**every, **checked}, "runs a command as the account")
    return enter, launch, *watch


def _account_script(name: str, values: Mapping[str, Any], purpose: str) -> Artifact:
    text = render_template("oci", f"account/{name}.sh.j2", **values)
    return Artifact(name, text.encode("utf-8", "surrogateescape"), purpose, executable=True)


def _runsc_flags(policy: ResolvedPolicy, shims: Mapping[str, object] | None) -> Iterator[str]:
    """Where a bridge is reached by the loopback, that of the network namespace which `launch` makes."""
    looped = bool(shims and shims["loopback"])
    yield "--oci-seccomp"
    yield f"--network={'none' if policy.network.mode == 'none' and not looped else 'host'}"
    if policy.facts.uid != 0:
        yield "--rootless"
    if policy.network.unix_sockets:
        yield "--host-uds=open"


def _launchers(
    name: str, values: Mapping[str, Any], others: tuple[Artifact, ...], purpose: str
) -> tuple[Artifact, ...]:
    watch: tuple[Artifact, ...] = ()
    if values["watched"]:
        watch = (_script("watch", "watch", values, "keeps the time limit, and cleans up after `launch`"),)
    return _script("launch", name, {**values, **_checked((*others, *watch))}, purpose), *watch


def _checked(files: Sequence[Artifact]) -> dict[str, Any]:
    """What `check.sh.j2` uses: the files with their digests, and what sha256sum prints of them."""
    sums = [(each.name, each.digest.removeprefix("sha256:")) for each in files]
    expected = "\n".join(f"{digest}  {each}" for each, digest in sums)
    return {"artifacts": sums, "expected": expected}


def _script(name: str, template: str, values: Mapping[str, Any], purpose: str) -> Artifact:
    text = render_template("oci", f"launchers/{template}.sh.j2", **values)
    return Artifact(name, text.encode("utf-8", "surrogateescape"), purpose, executable=True)


def _common(policy: ResolvedPolicy, plan: MountPlan) -> dict[str, Any]:
    environment = policy.environment
    return {
        "time": policy.resources.time,
        "passed": list(environment.passed),
        "never": [*sorted({*sandbox_environment(policy), *environment.secret}), *LOADERS],
        "proxy": policy.network.mode == "proxy",
        **_covers(plan),
        "absent": list(appearing(policy, {cover.path for cover in plan.covers})),
        **_there(plan),
        "inside": writable_directories(policy),
        "project": policy.canonical(policy.facts.project),
        "lock": LOCK,
        "uid": policy.facts.uid if policy.mapping == "required" else None,
    }


def writable_directories(policy: ResolvedPolicy) -> list[str]:
    """Where somebody inside can plant programs on the host: those there are not taken by launchers."""
    rules = policy.filesystem.rules
    return sorted({rule.path for rule in rules if rule.writable and not rule.private})


def _covers(plan: MountPlan) -> dict[str, Any]:
    """What `covers.sh.j2` uses: directories, and files by twos, each with its only line or nothing.

    `covers_inside` says that what makes the sandbox makes the directories too.
    """
    files = [each for each in plan.covers if each.entry == "file"]
    return {
        "covers": bool(plan.covers),
        "covers_inside": False,
        "cover_directories": [each.path for each in plan.covers if each.entry == "directory"],
        "cover_files": [word for each in files for word in (each.path, each.content.decode().rstrip("\n"))],
    }


def _there(plan: MountPlan) -> dict[str, list[str]]:
    """What mounts lie on, which may have changed since, and what is between it and a writable directory.

    `there_directories`, and `there_files`, which is anything else.
    """
    writable = {mount.target for mount in plan.mounts if mount.kind == "bind" and mount.writable}
    found: dict[str, EntryKind] = {}
    for mount in plan.mounts:
        if mount.kind in ("bind", "mask") and mount.target != "/":
            above = ancestors(mount.target)
            inside = [index for index, path in enumerate(above) if path in writable]
            found.update(dict.fromkeys(reversed(above[: inside[-1]] if inside else ()), "directory"))
            if inside or mount.target in writable or mount.kind == "mask":
                found[mount.target] = mount.entry
    return {
        "there_directories": [path for path, entry in found.items() if entry == "directory"],
        "there_files": [path for path, entry in found.items() if entry != "directory"],
    }
