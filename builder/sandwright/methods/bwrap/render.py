"""Renders the arguments with which bubblewrap makes the sandbox, its filter, and the launcher.

The arguments are in a file that bwrap reads through `--args`, each ended by NUL, in phases: namespaces and
process, mounts in the order of the plan, read-only remounts once all mounts are made, environment. The
launcher starts bwrap with an empty environment, since `--clearenv` leaves the launcher's in /proc/1/environ
(containers/bubblewrap#725). User namespaces inside are refused by the filter, in every profile:
`--disable-userns` does the same but needs bwrap 0.8 and a /proc/sys that can be written, which containers
don't have.
"""

from __future__ import annotations

from typing import assert_never

from sandwright.methods.bwrap.launch import BPF, GITIGNORES, bwrap_launcher, ignored_places
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.authorities import authority_environment
from sandwright.render.baseline import load_baseline
from sandwright.render.bubblewrap import BwrapArguments
from sandwright.render.filters import bpf_filter
from sandwright.render.hostnames import name_artifacts, name_places
from sandwright.render.mount_watch import mounts_artifact
from sandwright.render.mounts import Mount, MountPlan, mount_plan
from sandwright.render.placeholders import Placeholder
from sandwright.render.proxy_env import sandbox_environment


def render_bwrap(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """`args`, `seccomp.bpf`, the plan of `mounts`, `launch` and its plan.

    Raise DocumentError for a seccomp profile from a file that is none, RenderError for one that isn't there.
    With `network.mode: proxy` the network namespace has no route, as with `none`. The session forwards
    the port of the proxy into it when `launch` requests that.
    """
    plan = mount_plan(policy, root="host", user_namespace=True, supervised=True)
    arguments = bwrap_arguments(policy, plan)
    content = b"".join(argument.encode("utf-8", "surrogateescape") + b"\0" for argument in arguments)
    args = Artifact("args", content, "bubblewrap's arguments, for --args")
    capabilities = _capabilities(policy)
    filter_ = bpf_filter(policy, supervised=True, caps=capabilities)
    bpf = Artifact("seccomp.bpf", filter_, "the filter of system calls, for --seccomp")
    name_files = name_places(policy)
    watched = [mount for mount in plan.mounts if mount.target not in name_files.values()]
    files = (args, bpf, *name_artifacts(name_files), mounts_artifact(watched, plan.placeholders))
    return *files, *bwrap_launcher(policy, plan, files, count=len(arguments))


def bwrap_arguments(policy: ResolvedPolicy, plan: MountPlan) -> list[str]:
    """The arguments, without the program's name and the command."""
    bwrap = BwrapArguments()
    _unshare_namespaces(policy, bwrap)
    for mount in plan.mounts:
        _add_mount(mount, bwrap)
        if mount.kind == "proc":
            _kernel_settings(bwrap)
    for placeholder in plan.placeholders:
        _placeholder(placeholder, bwrap)
    for number, path in enumerate(ignored_places(policy, plan)):
        bwrap.file(GITIGNORES + number, f"{path}/.gitignore", mode=GITIGNORE)
    for mount in plan.mounts:
        if mount.entry == "directory" and mount.kind in ("mask", "tmpfs") and not mount.writable:
            bwrap.remount_read_only(mount.target)
    for placeholder in plan.placeholders:
        if placeholder.entry == "directory" and policy.process.sandbox_root:  # to whom the mode says nothing
            bwrap.remount_read_only(placeholder.path)
    bwrap.chdir(start_directory(policy, plan))
    bwrap.environment({**authority_environment(policy), **sandbox_environment(policy)}.items())
    return bwrap.words


def _unshare_namespaces(policy: ResolvedPolicy, bwrap: BwrapArguments) -> None:
    # All that there are; a cgroup's where the kernel has it (4.6), as it holds no rule of ours.
    bwrap.unshare("user", "pid", "ipc", "uts", "cgroup-try")
    if policy.network.mode != "host":
        bwrap.unshare("net")
    bwrap.supervise().hostname(load_baseline().hostname)  # the filter refuses TIOCSTI besides
    bwrap.seccomp(BPF).drop_capabilities()
    if policy.process.sandbox_root:
        bwrap.user(0, 0).add_capabilities(_capabilities(policy))


def _capabilities(policy: ResolvedPolicy) -> tuple[str, ...]:
    """The capabilities of root in the sandbox: never CAP_SYS_ADMIN, which allows to unmount."""
    return load_baseline().capabilities["init" if policy.process.sandbox_root else "none"]


def _add_mount(mount: Mount, bwrap: BwrapArguments) -> None:
    match mount.kind:
        case "bind":
            bwrap.bind(mount.source, mount.target, writable=mount.writable)
        case "symlink":
            bwrap.symlink(mount.source, mount.target)
        case "mask" if mount.entry != "directory":
            bwrap.bind("/dev/null", mount.target)
        case "tmpfs" | "mask":
            bwrap.tmpfs(mount.target)
        case "dev":
            bwrap.dev(mount.target)
        case "proc":
            bwrap.proc(mount.target)
        case _:
            assert_never(mount.kind)


def _placeholder(placeholder: Placeholder, bwrap: BwrapArguments) -> None:
    """A directory is created, and lies under an empty one in memory, five times as fast as a bind.

    An existing one is left alone; `launch` has checked its owner. A program that changes the mode of
    the cover writes to the sandbox's memory there, and nothing reaches the host.
    """
    if placeholder.entry == "directory":
        bwrap.directory(placeholder.path, mode=MARKED).tmpfs(placeholder.path, mode=PLACEHOLDER_MODE)
    else:
        bwrap.bind(placeholder.path, placeholder.path)


MARKED = "1555"
PLACEHOLDER_MODE = "0555"
GITIGNORE = "0444"
"""Modes: of a placeholder, by which `launch` recognises it (`launcher/source/placeholders.c`), of the tmpfs
mounted over it, and of its `.gitignore`."""


def _kernel_settings(bwrap: BwrapArguments) -> None:
    """Read-only for every caller: for these the kernel checks the user outside, and not capabilities.

    Root stays root there, whose core_pattern runs programs on the host. bwrap covers some of them by itself,
    /proc/sys not.
    """
    for path in sorted((*load_baseline().readonly, *SWITCHES)):
        bwrap.bind(path, path, optional=True)


SWITCHES = ("/proc/acpi", "/proc/scsi")
"""The paths in /proc that containers mask; a mask needs an existing path, and not every kernel has these."""


def start_directory(policy: ResolvedPolicy, plan: MountPlan) -> str:
    """The directory that the command starts in: the host's current one where it is there, else `/`."""
    cwd = policy.canonical(policy.facts.variables["CWD"])
    if any(mount.target.startswith(f"{cwd}/") for mount in plan.mounts):
        return cwd
    above = (mount for mount in plan.mounts if f"{cwd}/".startswith(f"{mount.target.rstrip('/')}/"))
    over = max(above, key=lambda mount: len(mount.target), default=None)
    empty = over is not None and over.kind in ("tmpfs", "mask") and over.target != cwd
    return cwd if policy.is_path_readable(cwd) and not empty else "/"
