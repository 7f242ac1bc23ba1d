"""Renders the launcher for macOS: a shell script that starts a command under the rendered profile."""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.methods.seatbelt.profile import temporary
from sandwright.methods.shared.shims import shim_values
from sandwright.policy.facts import DARWIN_LINKS
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.values import LOADERS
from sandwright.render.artifact import Artifact
from sandwright.render.launcher import quote_patterns, writable_directories
from sandwright.render.recipe import proxy_environment
from sandwright.render.templates import add_filter, render_template

_PORT = "\0"
"""Stands where the launcher puts the proxy's port in: no value can hold it."""

add_filter("patterns", quote_patterns)


def seatbelt_launcher(policy: ResolvedPolicy, profile: Artifact) -> Artifact:
    """The launcher for a profile."""
    environment = policy.environment
    proxy = policy.network.mode == "proxy"
    proxied = proxy_environment(environment.set, port=_PORT) if proxy else {}
    taken = {"TMPDIR", *proxied}
    text = render_template(
        "seatbelt",
        "launch.sh.j2",
        digest=profile.digest.removeprefix("sha256:"),
        inside=writable_directories(policy),
        passed=list(environment.passed),
        never=[*sorted({*environment.set, *environment.secret, *taken}), *LOADERS],
        set=[(name, value) for name, value in environment.set.items() if name not in proxied],
        proxied=[(name, value.split(_PORT)) for name, value in proxied.items()],
        proxy=proxy,
        tmp=temporary(policy),
        tells_tmp="TMPDIR" not in environment.set,
        links=list(_links(policy)),
        files=policy.resources.files,
        time=policy.resources.time,
        uid=policy.facts.uid if policy.mapping == "required" else None,
        shims=shim_values(policy, "seatbelt"),
    )
    content = text.encode("utf-8", "surrogateescape")
    return Artifact("launch", content, "runs a command in the sandbox", executable=True)


def _links(policy: ResolvedPolicy) -> Iterator[tuple[str, str]]:
    """The links that rules were resolved through, each with its text: another one now leads elsewhere."""
    rules = (*policy.filesystem.rules, *policy.filesystem.protected)
    for path in dict.fromkeys(link for rule in rules for link in rule.through):
        entry = policy.facts.entries.get(path)
        if path not in DARWIN_LINKS and entry is not None and entry.kind == "symlink":
            yield path, entry.target
