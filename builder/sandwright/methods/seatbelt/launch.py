"""Renders the launcher for macOS: a shell script that starts a command under the rendered profile."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.methods.seatbelt.profile import temporary
from sandwright.methods.shared.shims import shim_plan
from sandwright.policy.facts import DARWIN_LINKS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.values import LOADERS
from sandwright.render.artifact import Artifact
from sandwright.render.launcher import writable_directories
from sandwright.render.proxy_env import proxy_environment
from sandwright.render.shell import patterns, plain_script, variables

_PORT = "\0"
"""Stands where the launcher puts the proxy's port in: no value can hold it."""


def seatbelt_launcher(policy: ResolvedPolicy, profile: Artifact) -> tuple[Artifact, Artifact]:
    """The launcher for a profile, behind its variables."""
    environment = policy.environment
    proxy = policy.network.mode == "proxy"
    proxied = proxy_environment(environment.set, port=_PORT) if proxy else {}
    taken = {"TMPDIR", *proxied}
    shims = shim_plan(policy, "seatbelt")
    values = variables(
        {
            "profile": profile.digest.removeprefix("sha256:"),
            "inside": writable_directories(policy),
            "passed": patterns(environment.passed),
            "never": patterns([*sorted({*environment.set, *environment.secret, *taken}), *LOADERS]),
            "proxy": proxy,
            "tmp": temporary(policy),
            "tells_tmp": "TMPDIR" not in environment.set,
            "files": policy.resources.files,
            "time": policy.resources.time,
            "uid": policy.facts.uid if policy.mapping == "required" else None,
            "bridge": shims.enabled,
            "searches": shims.search is not None,
            "search": shims.search or "",
        },
        rows={
            "links": _followed_links(policy),
            "settings": [row for row in environment.set.items() if row[0] not in proxied],
            "proxied": [(name, *value.split(_PORT)) for name, value in proxied.items()],
        },
    )
    purpose = "runs a command in the sandbox"
    return values, plain_script("seatbelt", "launch.sh", name="launch", values=values, purpose=purpose)


def _followed_links(policy: ResolvedPolicy) -> Iterator[tuple[str, str]]:
    """The links that rules were resolved through, each with its text: another one now leads elsewhere."""
    rules = (*policy.filesystem.rules, *policy.filesystem.protected)
    for path in dict.fromkeys(link for rule in rules for link in rule.through):
        entry = policy.facts.entries.get(path)
        if path not in DARWIN_LINKS and entry is not None and entry.kind == "symlink":
            yield path, entry.target
