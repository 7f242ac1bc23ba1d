"""Starts a bridge for a session, and ends it with the session."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sandwright.bridge.access import entries
from sandwright.bridge.configuration import CallLimits, Configuration
from sandwright.bridge.directory import (
    Bridge,
    bridge_directory,
    bridges_directory,
    channel,
    listening,
    write_shims,
    xdg_directory,
)
from sandwright.bridge.environment import trusted_search_path
from sandwright.bridge.keys import signing_keys
from sandwright.bridge.programs import host_variables, kept_always, programs, reach
from sandwright.bridge.remotes import repositories
from sandwright.bridge.restricted import write_restriction
from sandwright.bridge.spawn import start_process
from sandwright.errors import UsageError
from sandwright.policy.resolved import ResolvedPolicy


@contextlib.contextmanager
def serve(
    policy: ResolvedPolicy,
    *,
    directory: Path | None = None,
    audit: Path | None = None,
    platform: str | None = None,
    environment: Mapping[str, str] | None = None,
    uids: Sequence[int] | None = None,
    limits: CallLimits | None = None,
) -> Iterator[Bridge]:
    """Run a bridge for the length of a `with`, for a policy's shims and signing keys in its project.

    `directory` is where bridges have their directories (absent: `sandwright/sessions/bridge` in the user's
    cache, which no sandbox sees: one that sees the directory of another sandbox's bridge can use its shims);
    `audit` the log (absent: `sandwright/bridge.jsonl` in the user's state); `platform` the sandbox's (absent:
    the host's); `environment` the host's variables (absent: this process's); `uids` the other users that may
    connect.

    If it raises, nothing runs: RenderError for an impossible entry or secret, UsageError for a missing secret
    or a directory that the sandbox may write, ToolMissing for a program that is not installed, HostError if
    the bridge doesn't start.
    """
    variables = os.environ if environment is None else environment
    base = (directory or bridges_directory(variables)).resolve()
    log = audit or xdg_directory(variables, "XDG_STATE_HOME", ".local/state") / "bridge.jsonl"
    sandbox = reach(policy)
    for path in (base, log):
        if sandbox.writes(str(path)):
            raise UsageError(f"cannot start a bridge in {path}: the sandbox can write there")
    project = Path(policy.canonical(policy.facts.project))
    search = trusted_search_path(variables, sandbox.writes)
    found = dict(programs(policy, variables, search, sandbox))
    keys = tuple(signing_keys(policy, variables, search, sandbox))
    with contextlib.ExitStack() as stack:
        session_dir, lock = stack.enter_context(bridge_directory(base))
        configuration = Configuration(
            session=session_dir.name, workspace=project, audit=log,
            public=session_dir / "public", private=session_dir / "private",
            programs=found, uids=tuple({os.geteuid(), *(uids or ())}), limits=limits or CallLimits(),
            environment={**host_variables(variables, sandbox), "PATH": search},
            access=tuple(entries(policy, str(project))), loopback=policy.network.mode != "host",
            repositories=tuple(repositories(project, functools.partial(kept_always, policy))),
            restricting=write_restriction(session_dir / "private") if "git" in found or keys else None,
            signing=keys,
        )  # fmt: skip
        write_shims(
            configuration.public, found, signing={each.program for each in keys},
            platform=platform or policy.facts.platform,
        )  # fmt: skip
        listener = stack.enter_context(listening(configuration.public))
        passed, theirs = stack.enter_context(channel())
        with listener, theirs:  # no queue may accept calls that stay unanswered once the bridge has died
            pid = stack.enter_context(start_process(configuration, lock, theirs, [listener]))
        yield Bridge(session_dir.name, configuration.public, log, pid, passed)
