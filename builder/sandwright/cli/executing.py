"""`sandwright exec`, `sandwright shell` and `sandwright attach`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sandwright.cli.running import run, with_status
from sandwright.errors import UsageError
from sandwright.lazy import load
from sandwright.session.executing import become_exec
from sandwright.visible import notify

_SCRIPT = """\
shell=$2
for each in /bin/bash /bin/sh; do [ -x "$shell" ] || shell=$each; done
debian_chroot=$1
PS1="($1) $ "
PROMPT_COMMAND='unset PROMPT_COMMAND; case $PS1 in *debian_chroot*|*"($debian_chroot)"*) ;;
*) PS1="($debian_chroot) $PS1" ;; esac'
export debian_chroot PS1 PROMPT_COMMAND
case ${shell##*/} in
    fish) exec "$shell" -C 'functions -c fish_prompt sandwright_prompt
        function fish_prompt; echo -n "($debian_chroot) "; sandwright_prompt; end' ;;
esac
exec "$shell"
"""
"""Starts a shell with a mark before its prompt.

bash takes it from `PROMPT_COMMAND` (bash(1)), or Debian's settings for it from `debian_chroot`
(/etc/bash.bashrc), fish from `--init-command`, others from `PS1`, if their settings leave that.
"""


_ATTACHING = ("DETACH_KEYS", "parse_keys", "attach")


def execute(*, session: str, words: Sequence[str], workdir: str = "") -> int:
    """Become a command in a running session; give an exit status where nothing was run."""
    return with_status(lambda: _exec_in_session(session, words, workdir))


def attach(*, session: str, detach_keys: str | None = None) -> int:
    """Join the terminal of a detached run; give the run's exit status, 0 where it goes on."""
    return with_status(lambda: _join_terminal(session, detach_keys))


def _join_terminal(session: str, detach_keys: str | None) -> int:
    default, parse, join = (load(f"sandwright.session.attaching:{name}") for name in _ATTACHING)
    return int(join(session, parse(default if detach_keys is None else detach_keys), notify))


def _exec_in_session(session: str, words: Sequence[str], workdir: str) -> int:
    become_exec(session, words, workdir=workdir)
    raise AssertionError  # it has become it, or raised


def shell(
    *,
    session: str = "",
    policy: str = "",
    method: str = "",
    preset: Sequence[str] = (),
    set: Sequence[str] = (),  # noqa: A002 - the option's name
    time: str = "",
    trust_policy: bool = False,
) -> int:
    """Start the user's shell in a sandbox, or in a running session; give its exit status."""
    mark = f"sandwright:{session}" if session else "sandwright"
    words = ["/bin/sh", "-c", _SCRIPT, "sh", mark, os.environ.get("SHELL", "/bin/sh")]
    if not session:
        return run(
            words=words,
            policy=policy,
            method=method,
            preset=list(preset),
            set=list(set),
            time=time,
            trust_policy=trust_policy,
        )
    has_options = any((policy, method, preset, set, time, trust_policy))
    return with_status(lambda: _shell_in_session(session, words, has_options=has_options))


def _shell_in_session(session: str, words: Sequence[str], *, has_options: bool) -> int:
    if has_options:
        raise UsageError(f"session {session} has a sandbox: options choose that of a new one")
    return _exec_in_session(session, words, "")
