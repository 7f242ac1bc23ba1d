"""Renders launchers: shell scripts that start a rendered sandbox without Python.

A launcher checks that what it was rendered for is still so (artifacts by checksum, no restricted path that
appeared since, no link where a directory was), hands the environment that the policy passes on through a pipe
or a private file and never as an argument, makes the covers of the mount plan, keeps the time limit, cleans
up, and exits as the command did. 124 says that the time was up, 125 that nothing was run. It never goes on
without the sandbox.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sandwright.errors import RenderError
from sandwright.launcher import LAUNCH
from sandwright.launcher.plan import NAME, LaunchPlan, plan_bytes
from sandwright.policy.facts import EntryKind
from sandwright.policy.paths import ancestors
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.uses import appearing
from sandwright.policy.values import LOADERS
from sandwright.render.artifact import Artifact
from sandwright.render.filters import architecture
from sandwright.render.mounts import MountPlan
from sandwright.render.recipe import sandbox_environment
from sandwright.render.templates import Quoted, add_filter, quote_shell, render_template

LOCK = 9
"""The descriptor under which launchers keep the lock of the covers open."""

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


def launch_and_watch(
    name: str, values: Mapping[str, Any], others: tuple[Artifact, ...], purpose: str
) -> tuple[Artifact, ...]:
    """`launch` from the template of a name, which checks `others`; `watch` where there is something to do."""
    watch: tuple[Artifact, ...] = ()
    if values["watched"]:
        watch = (script("watch", "watch", values, "keeps the time limit, and cleans up after `launch`"),)
    return script("launch", name, {**values, **digests((*others, *watch))}, purpose), *watch


def digests(files: Sequence[Artifact]) -> dict[str, Any]:
    """What `check.sh.j2` uses: the files with their digests, and what sha256sum prints of them."""
    sums = [(each.name, each.digest.removeprefix("sha256:")) for each in files]
    expected = "\n".join(f"{digest}  {each}" for each, digest in sums)
    return {"artifacts": sums, "expected": expected}


def script(name: str, template: str, values: Mapping[str, Any], purpose: str) -> Artifact:
    """An executable artifact from a template of oci/launchers."""
    text = render_template("oci", f"launchers/{template}.sh.j2", **values)
    return Artifact(name, text.encode("utf-8", "surrogateescape"), purpose, executable=True)


def common_values(policy: ResolvedPolicy, plan: MountPlan) -> dict[str, Any]:
    """The values that the templates of all launchers use."""
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


def common_plan(policy: ResolvedPolicy, plan: MountPlan, method: str) -> LaunchPlan:
    """What the plans of all launchers say; a renderer sets its own fields by `dataclasses.replace`.

    Raise RenderError for a name of a variable that is none.
    """
    values = common_values(policy, plan)
    files = values["cover_files"]
    return LaunchPlan(
        method=method,
        absent=tuple(values["absent"]),
        there_directories=tuple(values["there_directories"]),
        there_files=tuple(values["there_files"]),
        writable=tuple(values["inside"]),
        uid=values["uid"],
        passed=_patterns(values["passed"]),
        never=_patterns(values["never"]),
        project=values["project"],
        placeholder_directories=tuple(values["cover_directories"]),
        placeholder_files=tuple(zip(files[::2], files[1::2], strict=True)),
        time=values["time"],
        pids=policy.resources.pids,
        files=policy.resources.files,
        proxy=values["proxy"],
    )


def _patterns(names: list[str]) -> tuple[str, ...]:
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise RenderError(f"{name!r} is no name of a variable and no pattern of names")
    return tuple(names)


def launch_program(
    policy: ResolvedPolicy, plan: LaunchPlan, others: Sequence[Artifact], purpose: str
) -> tuple[Artifact, Artifact]:
    """`launch`, the program for the policy's host, and `launch.plan`, by which it checks `others` too.

    Raise RenderError for a processor that has no such program.
    """
    program = LAUNCH.path(f"linux/{architecture(policy)}").read_bytes()
    sums = tuple((each.name, each.digest.removeprefix("sha256:")) for each in others)
    content = plan_bytes(dataclasses.replace(plan, artifacts=sums))
    return (
        Artifact(LAUNCH.name, program, purpose, executable=True),
        Artifact(NAME, content, "what launch does"),
    )


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
