"""Where the shims of `credentials.shims` appear in a sandbox, method by method.

Brought in so far: by bwrap's launcher and session. For the other methods this is where they are to appear; until
then a policy's shims are not there at all (`stricter` in the declaration), and nothing stands in their place.

Shims and the bridge's socket lie in one directory, which the session makes new for each run: `bin/NAME` for each
program, `shim`, `sandwright-enter` and `socket`. A shim finds the socket beside its own file, so the directory may
be seen at any path. It is always read-only inside; a read-only mount doesn't hinder a connection.

| method | seen at | by | reached through |
|---|---|---|---|
| bwrap | `.sandwright` in its private temporary directory, or where that is shared its own path on the host | `--ro-bind` behind the plan's mounts, by the launcher | the socket, or without Unix sockets the sandbox's loopback |
| docker, podman, compose, devcontainer | PLACE | a read-only bind mount | the socket |
| oci | PLACE | a read-only bind mount in `mounts` | the socket |
| gvisor | PLACE | a read-only bind mount, with `--host-uds=open` | the socket |
| seatbelt | its own path on the host | `file-read*` of the directory, `network-outbound` of the socket | the socket |
| user, alcless | its own path on the host | an access control entry for the account, and its uid for `serve` | the socket |
| kubernetes | nowhere | there is no host to run programs on | – |
| noop | its own path on the host | – | the socket |

bwrap's filter refuses to make Unix sockets when the policy lists none, since with the host's files in sight any of
their sockets could be connected to. It still holds with shims: the command is started by `sandwright-enter`, which
makes a TCP listener on the sandbox's own loopback and hands it to the bridge through a socket that it inherited,
and closes that. The bridge takes connections there, from inside this one network namespace and nowhere else. With
`network.mode: host` there is no such loopback; then the bridge refuses the listener, and the command is not run.
"""  # noqa: E501 - a table

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sandwright.errors import RenderError
from sandwright.policy.resolved import ResolvedPolicy

SHIM = "shim"
ENTER = "sandwright-enter"
PLACE = "/run/sandwright"
"""Where containers see the directory: their /run is their own."""

BROUGHT_IN = frozenset({"bwrap"})
"""The methods whose launchers bring the shims in, and whose sessions have a bridge."""

Reach = Literal["socket", "loopback", "none"]

_CONTAINERS = frozenset({"docker", "podman", "compose", "devcontainer", "oci", "gvisor"})

_INTERPRETERS = (
    "ansible", "awk", "bash", "bundle", "busybox", "cargo", "chroot", "cmake", "csh", "dash", "docker",
    "doas", "emacs", "env", "expect", "fakeroot", "find", "fish", "flock", "gawk", "gdb", "gem", "go",
    "ionice", "java", "ksh", "ld.so", "lua", "make", "man", "mawk", "msgfmt", "mysql", "nano", "nc",
    "nerdctl", "nice", "nmap", "node", "nohup", "nsenter", "npm", "npx", "nvim", "perl", "php", "pip",
    "pipx", "pip3", "pnpm", "podman", "psql", "pwsh", "python", "python3", "rake", "rlwrap", "rsync",
    "ruby", "runc", "rvim", "scp", "screen", "script", "sed", "setarch", "setpriv", "sftp", "sh", "socat",
    "sqlite3", "ssh", "start-stop-daemon", "stdbuf", "strace", "su", "sudo", "systemd-run", "tar",
    "taskset", "tclsh", "tee", "time", "timeout", "tmux", "unshare", "uv", "vi", "view", "vim", "watch",
    "xargs", "yarn", "zip", "zsh",
)  # fmt: skip
"""Programs that run what their arguments or their directory tell them (GTFOBins: shell, command)."""


@dataclass(frozen=True)
class ShimPlace:
    """How a sandbox gets to its bridge. `directory`: where it sees it; `path`: what goes first on PATH."""

    directory: str
    reach: Reach

    @property
    def path(self) -> str:
        """The directory of the shims."""
        return f"{self.directory}/bin"


def shim_place(policy: ResolvedPolicy, method: str, directory: str) -> ShimPlace | None:
    """Where a method shows a bridge's `directory` of the host. None without shims, or where there is none."""
    if not policy.credentials.shims or method == "kubernetes":
        return None
    if method in _CONTAINERS:
        return ShimPlace(PLACE, "socket")
    if method == "bwrap":
        return ShimPlace(_own_place(policy) or directory, _reach(policy))
    return ShimPlace(directory, "socket")


def shim_values(policy: ResolvedPolicy) -> dict[str, object]:
    """What bwrap's launcher has to know: `place`, empty for the directory's own path; `loopback`; `search`.

    `search` is the PATH behind the shims, None for that of the host. Raise RenderError for a policy whose
    sandbox could not reach a bridge.
    """
    reach = _reach(policy)
    if reach == "none":
        raise RenderError(
            f"{policy.source('credentials.shims')}: credentials.shims: with network.mode host and without "
            "network.unix_sockets, bwrap's sandbox has neither Unix sockets nor a loopback of its own"
        )
    passed = policy.environment.passes("PATH")
    search = None if passed else policy.environment.set.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return {"place": _own_place(policy), "loopback": reach == "loopback", "search": search}


def shim_mounts(policy: ResolvedPolicy, method: str, directory: str) -> tuple[str, ...]:
    """The arguments for docker or podman that show a bridge's directory; none for other methods."""
    place = shim_place(policy, method, directory)
    if place is None or method not in ("docker", "podman"):
        return ()
    return ("--mount", f"type=bind,source={_field(directory)},target={place.directory},readonly")


def _own_place(policy: ResolvedPolicy) -> str:
    """Somewhere that only this sandbox has, where a mount point can be made; empty when there is nothing."""
    files = policy.filesystem
    return f"{files.tmp_path}/.sandwright" if files.tmp == "private" else ""


def _reach(policy: ResolvedPolicy) -> Reach:
    if policy.network.unix_sockets:
        return "socket"
    return "none" if policy.network.mode == "host" else "loopback"


def interpreter_fault(program: str) -> str:
    """Why a program can't stand behind a shim without a profile; empty when nothing is known against it."""
    base = program.rstrip("0123456789.") or program
    if program in _INTERPRETERS or base in _INTERPRETERS:
        return f"{program} runs what its arguments or its directory tell it; plain words don't make that safe"
    return ""


def _field(value: str) -> str:
    """A value in the comma-separated list of --mount, which is read as CSV (RFC 4180)."""
    return '"' + value.replace('"', '""') + '"' if "," in value or '"' in value else value
