"""Warnings of `lint` about a policy's variables, and about secrets exported in readable shell files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sandwright.inputs import LiveHost
from sandwright.policy.live_entries import with_path_facts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.secretnames import why_secret
from sandwright.policy.secretplaces import SHELL_FILES

DIRECTORIES: Mapping[str, str] = {
    "TMPDIR": "temporary files",
    "TMP": "temporary files",
    "TEMP": "temporary files",
    "XDG_CACHE_HOME": "caches",
    "XDG_CONFIG_HOME": "settings",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
    "XDG_RUNTIME_DIR": "sockets",
    "CARGO_HOME": "cargo's registry and cache",
    "CARGO_TARGET_DIR": "what cargo builds",
    "RUSTUP_HOME": "rustup's toolchains",
    "GOPATH": "Go's modules",
    "GOCACHE": "Go's cache",
    "GOMODCACHE": "Go's modules",
    "npm_config_cache": "npm's cache",
    "PNPM_HOME": "pnpm's programs",
    "YARN_CACHE_FOLDER": "yarn's cache",
    "DENO_DIR": "Deno's cache",
    "BUN_INSTALL": "Bun's programs",
    "PIP_CACHE_DIR": "pip's cache",
    "UV_CACHE_DIR": "uv's cache",
    "POETRY_CACHE_DIR": "Poetry's cache",
    "PYTHONPYCACHEPREFIX": "Python's compiled files",
    "GRADLE_USER_HOME": "Gradle's cache",
    "CCACHE_DIR": "ccache's cache",
    "HF_HOME": "Hugging Face's cache",
    "COMPOSER_HOME": "Composer's cache",
}
"""Variables that name a directory in which programs write, each with a description of its content."""

_EXPORT = re.compile(
    r"^\s*(?:export\s+|set\s+-\w*x\w*\s+|SETUVAR\s+--export\s+)([A-Za-z_]\w*)[=:\s]", re.MULTILINE
)


def unwritable_directories(policy: ResolvedPolicy, environ: Mapping[str, str]) -> Iterator[str]:
    """A line for each variable that is passed and names a directory that is not writable inside."""
    for name, holds in DIRECTORIES.items():
        entries = policy.settings.entries.get("environment.set", {})
        item = entries.get(name) if name in policy.environment.set else None  # null removes it
        value = policy.environment.set.get(name, environ.get(name, ""))
        if item and item.source.is_shipped:
            continue  # presets name directories that programs create
        if not (item or policy.environment.passes(name)) or not value.startswith("/") or "\0" in value:
            continue
        seen = with_path_facts(policy, value)
        path = seen.canonical(value)
        rule = next(iter(seen.filesystem.tree.deciding(path)), None)
        if rule is None or not rule.writable:
            why = "cannot be written inside"
        elif rule.private and path != rule.path:
            why = f"is not there inside, where {rule.path} is the sandbox's own"
        else:
            continue
        source = item.source if item else policy.source("environment.pass")
        yield (
            f"{source}: {name} is {value}, which {why}: programs fail to "
            f"use {holds} there; set it to a writable directory: environment.set: {{{name}: $CACHE/…}}"
        )


def exported_secrets(policy: ResolvedPolicy, inputs: LiveHost) -> Iterator[str]:
    """A line for each readable start-up file of a shell that exports a probable secret."""
    for spelled in SHELL_FILES:
        path = policy.facts.home + spelled.removeprefix("~")
        if not with_path_facts(policy, path).is_path_readable(path):
            continue
        text = inputs.text(path) or ""
        names = [name for name in _EXPORT.findall(text) if why_secret(name)]
        if names:
            yield (
                f"{spelled} exports {', '.join(dict.fromkeys(names))} and can be read inside: move it to a "
                f"file that the policy denies, or deny this one: filesystem.deny: [{spelled}]"
            )
