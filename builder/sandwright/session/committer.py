"""Reports missing settings for a commit inside: a committer's name, or a signing key.

If Git knows no name, aider writes one into .git/config. A signature needs the user's key.
"""

from __future__ import annotations

from collections.abc import Iterator

from sandwright.git import config
from sandwright.inputs import LiveHost
from sandwright.policy.resolved import ResolvedPolicy

NEEDS = ("aider",)
"""The agents that exit without a committer's name. Others' commits fail with Git's message."""

_KEYS = {"user.name", "user.email"}
_ADD = '; and show it inside: filesystem.read: ["...", ~/.gitconfig]'


def unknown(agent: str, policy: ResolvedPolicy, inputs: LiveHost, *, own_root: bool) -> str:
    """The advice if no configuration inside names the user; empty for other agents, and without Git.

    `own_root`: the root is an image's, in which only the listed files of the host are visible. Configuration
    that includes other files is assumed to name the user.
    """
    named = set(_configured_names(policy, inputs, own_root=own_root))
    if agent not in NEEDS or not policy.facts.git_directories or named >= _KEYS:
        return ""
    return (
        f"Git knows no user.name and user.email inside: {agent} wants to write them into .git/config, which "
        "nothing inside may, and ends; first, outside: git config --global user.name NAME; "
        f"git config --global user.email ADDRESS{_ADD if own_root else ''}"
    )


_SIGNED = {"commit.gpgsign": "commits", "tag.gpgsign": "tags"}
_FALSE = ("false", "no", "off", "0")
_AGENTS = {"openpgp": "S.gpg-agent", "ssh": "ssh"}
"""By format of signatures: a part of the name of its agent's socket; x509 uses that of openpgp."""


def unsigned(policy: ResolvedPolicy, inputs: LiveHost, *, own_root: bool) -> str:
    """The advice if Git is to sign and no key is available inside; otherwise empty.

    Included files are not read. An ssh key in a file that is readable inside works without an agent.
    """
    found: dict[str, str] = {}
    for path in _configuration_files(policy, own_root=own_root) if policy.facts.git_directories else ():
        found.update(config.settings(inputs.text(path) or ""))
    what = [name for key, name in _SIGNED.items() if found.get(key, "false").lower() not in _FALSE]
    form = found.get("gpg.format", "openpgp").lower()
    socket = _AGENTS.get(form, _AGENTS["openpgp"])
    key = found.get("user.signingkey", "")
    file = key.replace("~", policy.facts.home, 1)
    readable = form == "ssh" and file.startswith("/") and policy.is_path_readable(file.removesuffix(".pub"))
    opened = any(socket in path or "agent" in path for path in policy.network.unix_sockets)
    bridged = any(each.startswith("gpg:") == (form != "ssh") for each in policy.credentials.signing)
    if not what or readable or opened or bridged:
        return ""
    return (
        f"Git signs {' and '.join(what)} here ({form}), and the key cannot be reached inside: "
        + _signing_advice(form, key)
        + "commit with --no-gpg-sign there and sign outside (git rebase --exec 'git commit --amend --no-edit "
        "-S' BASE)"
    )


def _signing_advice(form: str, key: str) -> str:
    """The line of a policy with which the host signs; S/MIME can't be signed for a sandbox."""
    if form not in ("ssh", "openpgp"):
        return ""
    path = key if form == "ssh" and key.startswith(("~/", "/")) else ""
    example = path or ("SHA256:FINGERPRINT" if form == "ssh" else "gpg:FINGERPRINT")
    return f"have the host sign, which keeps it outside (credentials: {{signing: ['{example}']}}), or "


def _configured_names(policy: ResolvedPolicy, inputs: LiveHost, *, own_root: bool) -> Iterator[str]:
    for path in _configuration_files(policy, own_root=own_root):
        for key, value in config.settings(inputs.text(path) or ""):
            if config.is_include(key):
                yield from _KEYS
            elif value:
                yield key


def _configuration_files(policy: ResolvedPolicy, *, own_root: bool) -> Iterator[str]:
    """Git's configuration files that are visible inside; later ones override earlier ones."""
    facts, listed = policy.facts, {rule.path for rule in policy.filesystem.rules}
    for path in ("/etc/gitconfig", f"{facts.home}/.config/git/config", f"{facts.home}/.gitconfig"):
        deciding = policy.filesystem.tree.deciding(path)
        if (path in listed or not own_root) and deciding and deciding[0].readable:
            yield path
    for folder in (*facts.git_directories, *facts.git_worktree[1:2]):
        yield f"{folder}/config"
