"""Finds the programs behind the shims, and their variables.

The sandbox must not be able to influence either.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from sandwright import process
from sandwright.bridge.configuration import ShimProgram
from sandwright.bridge.environment import KEPT, check_secret_names
from sandwright.bridge.grammar import compile_grammar
from sandwright.bridge.profiles import profile_of
from sandwright.bridge.secret import Reach, read_secret
from sandwright.errors import ToolMissing, UsageError
from sandwright.launcher.restrict import script_interpreter
from sandwright.methods import registry
from sandwright.policy.resolved import ResolvedPolicy


def reach(policy: ResolvedPolicy) -> Reach:
    """The paths of the host that the sandbox of a policy can read and write."""
    return Reach(functools.partial(_reads, policy), functools.partial(_writes, policy))


def _writes(policy: ResolvedPolicy, path: str) -> bool:
    """Whether the sandbox may write a path of the host: the name, its target, or a link on the way."""
    changes = policy.filesystem.tree.changes_host
    return changes(policy.canonical(path)) or process.real_path(path, changes) is None


def _reads(policy: ResolvedPolicy, path: str) -> bool:
    """Whether the sandbox may read a path of the host, by this name or that of its target.

    In a container, a policy's right to read everything means the image; only listed paths of the host are
    visible.
    """
    tree = policy.filesystem.tree
    deciding = (tree.deciding(policy.canonical(name)) for name in {path, str(Path(path).resolve())})
    contained = all(registry.properties(name).root == "image" for name in policy.methods)
    return any(
        rules[0].readable and not rules[0].private and not (contained and rules[0].path == "/")
        for rules in deciding
        if rules
    )


def kept_always(policy: ResolvedPolicy, path: str) -> bool:
    """Whether a path of the project has been closed to every sandbox of the policy, now and in the past.

    A name in the project itself is protected even while it doesn't exist. Elsewhere only listed paths are: a
    repository is protected only once an index names it.
    """
    project = policy.canonical(policy.facts.project)
    names = {path, str(Path(path).resolve())}
    deciding = [policy.filesystem.tree.deciding(policy.canonical(name)) for name in names]
    listed = all(not rules or rules[0].origin != "protected" for rules in deciding)
    return not _writes(policy, path) and (listed or path == f"{project}/.git/config")


def programs(
    policy: ResolvedPolicy, environment: Mapping[str, str], path: str, sandbox: Reach
) -> Iterator[tuple[str, ShimProgram]]:
    """The programs behind the shims by name, looked for on `path`, with their secrets.

    Raise RenderError for an impossible entry or secret, ToolMissing for a missing program, UsageError for a
    program that the sandbox can control, and the errors of `read_secret`.
    """
    for name, shim in policy.credentials.shims.items():
        profile = profile_of(name)
        compile_grammar(name, shim.allow, profile)
        check_secret_names(name, shim.secrets, profile.secrets if profile else None)
        found = _find_program(name, path, sandbox)
        values = {
            variable: read_secret(host, environment, sandbox) for variable, host in shim.secrets.items()
        }
        yield name, ShimProgram(found, shim.allow, values)


def _find_program(name: str, path: str, sandbox: Reach) -> str:
    """The file of a shim's program. Raise UsageError for one that the sandbox could control."""
    found = shutil.which(name, path=path)
    if found is None:
        raise ToolMissing(name, "credentials.shims runs it on the host")
    real = Path(found).resolve()
    if profile_of(name) is None and profile_of(real.name):
        raise UsageError(f"credentials.shims.{name}: {found} leads to {real}: give it its own name here")
    for each in (found, *script_interpreter(real)):
        if sandbox.writes(each):
            raise UsageError(f"credentials.shims.{name}: {each} may be written by the sandbox")
    return found


def host_variables(environment: Mapping[str, str], sandbox: Reach) -> dict[str, str]:
    """The host's values of the variables in KEPT.

    Raise UsageError if one of them names a path that the sandbox may write.
    """
    found = {name: environment[name] for name in KEPT if name in environment}
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if name in found and sandbox.writes(str(Path(found[name]).absolute())):
            raise UsageError(
                f"{name}: {found[name]} may be written by the sandbox, which could then choose whom to trust"
            )
    return found
