"""Renders the configuration of an OCI runtime (runtime-spec 1.0.2): of runc, crun, and gVisor's runsc.

The configuration holds for every run. The launcher adds the values of a run (command, environment, the
image's directories, the name of the cgroup) at the places that its plan lists. Mounts, masks, namespaces and
capabilities come from the baseline in `oci/`. There are no annotations, which could steer a runtime, and no
SELinux label, with which runsc does not start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, assert_never

from sandwright.documents.document import MAX_BYTES
from sandwright.errors import RenderError
from sandwright.methods.shared.runtime_spec.launch import runtime_launcher
from sandwright.methods.shared.shims import ShimPlace, shim_place
from sandwright.policy.hidden import hidden_in_hosts_sys
from sandwright.policy.paths import ancestors, depth
from sandwright.policy.resolved import ResolvedPolicy, Resources
from sandwright.render.accounts import account_of, group_file, passwd_file
from sandwright.render.artifact import Artifact, json_artifact
from sandwright.render.authorities import authority_store
from sandwright.render.baseline import Baseline, load_baseline
from sandwright.render.filters import asking_filter, gvisor_filter, oci_filter
from sandwright.render.hostnames import name_files, name_plan
from sandwright.render.imagemasks import check_image_masks, masked_paths
from sandwright.render.mount_watch import mounts_artifact
from sandwright.render.mounts import Mount, MountPlan, mount_plan
from sandwright.render.placeholders import Placeholder, ignored_directories
from sandwright.render.proxy_env import sandbox_environment

OCI_VERSION = "1.0.2"
"""The oldest runtime-spec that has every field we write; runtimes refuse versions newer than their own."""

PERIOD = 100_000
"""Microseconds in which a share of processors is counted: the kernel's default."""

CGROUP = "/sandwright-run"
"""The cgroup; the launcher puts the run's own name in. Without a path runsc sets no limits; where
there are none, and no root to make a group, there is no path."""

_SYSTEM = frozenset(
    ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr", "var")
)
"""Directories at the root that belong to the image: mounts below them need a mount point there."""

_OWN = frozenset(("dev", "proc", "sys"))
"""The directories among them that the runtime mounts anew."""

IMAGE_DIRECTORIES = _SYSTEM - _OWN
"""The directories that stay the image's: no mount point is made in them."""

NOTHING = "nothing"
"""The file over a denied file under runsc, which opens devices on any mount.

It is a file without rights, in the bundle of each run."""


IGNORED = "ignored"
"""The directory over a placeholder that Git ignores: it has a `.gitignore`, in the bundle of each run."""


def render_runtime(policy: ResolvedPolicy, *, gvisor: bool) -> tuple[Artifact, ...]:
    """`config.json`, `launch` and its plan, and files to lie over the image's.

    Those are `passwd` and `group`, unless `user.mapping` is off, and `hosts` and `resolv.conf`, but in the
    host's network. `gvisor`: for runsc, which `launch` starts with `--oci-seccomp`;
    otherwise for runc and crun.
    """
    plan = mount_plan(policy, root="image")
    masked: tuple[str, ...] = ()
    if gvisor:  # which masks nothing
        check_image_masks(plan, "gvisor", accounts=policy.mapping != "off")
    else:
        plan, masked = masked_paths(plan)
    passed_over = (
        () if gvisor else ignored_directories(plan.placeholders)
    )  # each bind costs gVisor threads, which pids counts
    document = runtime_config(policy, plan, gvisor=gvisor, passed_over=passed_over, masked=masked)
    config = json_artifact("config.json", document, "the runtime's configuration (OCI runtime-spec)")
    if len(config.content) > MAX_BYTES:  # more is not read back, and so not checked
        raise RenderError(
            f"{len(plan.mounts)} mounts make a config.json of more than {MAX_BYTES >> 20} MiB: "
            "name directories in filesystem instead of each path in them"
        )
    shims = shim_place(policy, "gvisor" if gvisor else "oci", "")
    points, private = list(_mount_points(plan)), _private_roots(plan, load_baseline(), shims)
    files = (
        config,
        *(() if gvisor else _asking(policy)),
        *root_accounts(policy),
        *_name_files(policy),
        mounts_artifact(plan.mounts, plan.placeholders),
        *authority_store(policy),
    )
    launchers = runtime_launcher(policy, plan, files, gvisor=gvisor, points=points, private=private)
    return *files, *launchers


ASKING = "asking.json"
"""A run replaces the configuration's filter with this one, to have refusals reported."""


def _asking(policy: ResolvedPolicy) -> Iterator[Artifact]:
    """The same filter with questions for refusals, and BPF by which the launcher answers them."""
    held = load_baseline().capabilities["init" if policy.process.sandbox_root else "none"]
    found = asking_filter(policy, host_sockets=policy.network.mode == "host", caps=held)
    if found is not None:
        yield json_artifact(ASKING, found[0], "the filter, which asks the launcher where it refuses")
        yield Artifact("seccomp.bpf", found[1], "what the launcher answers")


def root_accounts(policy: ResolvedPolicy) -> Iterator[Artifact]:
    """The account files in which root inside is the caller, so that getpwuid(3) gives $HOME as the home."""
    if policy.mapping != "off":
        account = account_of(policy, 0, 0)
        yield Artifact("passwd", passwd_file(account), "the accounts, over the image's /etc/passwd")
        yield Artifact("group", group_file(account), "their groups, over the image's /etc/group")


def _name_files(policy: ResolvedPolicy) -> Iterator[Artifact]:
    """The names of hosts; in the host's network the launcher takes the host's."""
    proxied = policy.network.mode == "proxy"
    has_hosts, resolver = policy.network.mode != "host", bool(name_plan(policy).patterns)
    files = name_files(load_baseline().hostname, proxied=proxied, resolver=resolver) if has_hosts else {}
    for name, content in files.items():
        yield Artifact(name, content, f"over the image's /etc/{name}")


def runtime_config(
    policy: ResolvedPolicy,
    plan: MountPlan,
    *,
    gvisor: bool,
    passed_over: Collection[str] = (),
    masked: Sequence[str] = (),
) -> dict[str, Any]:
    """The configuration as JSON data. Its command is a shell, its root `rootfs` beside it.

    `passed_over` are the placeholders over which the bundle's `ignored` is mounted,
    `masked` are paths of the image.
    """
    baseline = load_baseline()
    return {
        "ociVersion": OCI_VERSION,
        "hostname": baseline.hostname,
        "process": _process_section(policy, baseline),
        "root": {"path": "rootfs", "readonly": True},
        "mounts": list(_mount_entries(policy, plan, baseline, gvisor=gvisor, passed_over=passed_over)),
        "linux": _linux_section(policy, baseline, gvisor=gvisor, masked=masked),
    }


def _process_section(policy: ResolvedPolicy, baseline: Baseline) -> dict[str, Any]:
    """Root of a user namespace where the caller is not root: only one id can be mapped without help."""
    gains_rights = policy.process.sandbox_root
    held = sorted(baseline.capabilities["init" if gains_rights else "none"])
    default = {} if policy.environment.passes("PATH") else {"PATH": baseline.path}
    environment = {**default, **sandbox_environment(policy)}
    return {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": ["/bin/sh"],
        "env": [f"{name}={value}" for name, value in sorted(environment.items())],
        "cwd": _start_directory(policy),
        "capabilities": {"bounding": held, "effective": held, "permitted": held},
        "rlimits": list(_rlimits(policy.resources, baseline)),
        "noNewPrivileges": not gains_rights,
    }


def _rlimits(resources: Resources, baseline: Baseline) -> Iterator[dict[str, Any]]:
    for limit in baseline.rlimits:
        yield {"type": limit.type, "soft": limit.soft, "hard": limit.hard}
    if resources.files is not None:
        yield {"type": "RLIMIT_NOFILE", "soft": resources.files, "hard": resources.files}


def _start_directory(policy: ResolvedPolicy) -> str:
    """The directory that the command starts in, where a listed path brings it in."""
    cwd = policy.canonical(policy.facts.variables["CWD"])
    listed = (rule for rule in policy.filesystem.rules if rule.readable and rule.origin == "listed")
    above = any(_is_at_or_below(cwd, rule.path) for rule in listed if rule.path != "/")
    return cwd if above and policy.is_path_readable(cwd) else "/"


def _is_at_or_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _mount_entries(
    policy: ResolvedPolicy,
    plan: MountPlan,
    baseline: Baseline,
    *,
    gvisor: bool,
    passed_over: Collection[str],
) -> Iterator[dict[str, Any]]:
    """Parents first, one a destination: the baseline's, the plan's, the placeholders.

    runsc doesn't start with a mount over a socket, and without `--host-uds` connects to none of the host's.
    """
    unreachable = gvisor and not policy.network.unix_sockets
    rootless = policy.facts.uid != 0
    chosen: dict[str, dict[str, Any]] = {}
    for mount in baseline.mounts:
        shared = mount.destination == "/sys" and _shares_sys(policy, gvisor=gvisor)
        each = baseline.rootless_sys if shared else mount
        options = [
            option for option in each.options if not (rootless and option.startswith(("uid=", "gid=")))
        ]
        options += [RECURSIVE] if shared and not rootless else []
        chosen[each.destination] = _mount_entry(each.destination, each.type, each.source, options)
    for planned in plan.mounts:
        if not (unreachable and planned.entry == "socket"):
            chosen[planned.target] = _planned_mount(planned, gvisor=gvisor)
    for placeholder in plan.placeholders:
        chosen[placeholder.path] = _placeholder_mount(placeholder, passed_over)
    yield from sorted(chosen.values(), key=lambda each: (depth(each["destination"]), each["destination"]))


def _shares_sys(policy: ResolvedPolicy, *, gvisor: bool) -> bool:
    """Whether `/sys` is the host's: only the network's owner mounts its own. gVisor's is the sentry's."""
    network = policy.network
    closed = network.mode == "none" and not network.localhost and not network.expose
    return not gvisor and (policy.facts.uid != 0 or not closed)


def _placeholder_mount(placeholder: Placeholder, passed_over: Collection[str]) -> dict[str, Any]:
    if placeholder.path in passed_over:
        return _mount_entry(placeholder.path, "bind", IGNORED, [*_BIND, "noexec", "ro"])
    if placeholder.entry == "directory":
        return _mount_entry(placeholder.path, "tmpfs", "tmpfs", ["nosuid", "nodev", "ro", "mode=555"])
    return _mount_entry(placeholder.path, "bind", placeholder.path, [*_BIND, "ro"])


_BIND = ("rbind", "rprivate", "nosuid", "nodev")

RECURSIVE = "rro"
"""Read-only with all mounts of the host below it, which `ro` alone leaves writable (runtime-spec 1.1,
mount_setattr(2) since Linux 5.12; without it runtimes refuse). runsc has no such option, and needs none: its
gofer applies `ro` to all paths that it serves. Below a file nothing is mounted, and crun 1.8 refuses it
there."""


def _planned_mount(mount: Mount, *, gvisor: bool) -> dict[str, Any]:
    access = "rw" if mount.writable else "ro"
    match mount.kind:
        case "bind":
            deep = mount.entry == "directory" and not (mount.writable or gvisor)
            return _mount_entry(
                mount.target, "bind", mount.source, [*_BIND, access, *([RECURSIVE] if deep else [])]
            )
        case "mask" if mount.entry != "directory":
            return _mount_entry(mount.target, "bind", NOTHING if gvisor else "/dev/null", [*_BIND, "ro"])
        case "tmpfs" | "mask":
            options = ["nosuid", "nodev", access, f"mode={'1777' if mount.writable else '555'}"]
            return _mount_entry(mount.target, "tmpfs", "tmpfs", options)
        case "dev" | "proc" | "symlink":
            raise AssertionError(f"a plan over an image holds no {mount.kind}")  # pragma: no cover
        case _:
            assert_never(mount.kind)


def _mount_entry(destination: str, kind: str, source: str, options: Iterable[str]) -> dict[str, Any]:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}


def _mount_points(plan: MountPlan) -> Iterator[str]:
    """The paths that the image must have: mount points in its directories."""
    targets = [mount.target for mount in plan.mounts] + [
        placeholder.path for placeholder in plan.placeholders
    ]
    inside = {mount.target for mount in plan.mounts}
    for path in targets:
        if path.split("/")[1] in _SYSTEM - _OWN and not inside & set(ancestors(path)):
            yield path


def _private_roots(plan: MountPlan, baseline: Baseline, shims: ShimPlace | None) -> list[str]:
    """The directories at the root in which mount points are made: never the image's, which is shared."""
    firsts = {mount.destination.split("/")[1] for mount in baseline.mounts}
    firsts |= {shims.directory.split("/")[1]} if shims else set()
    firsts |= {mount.target.split("/")[1] for mount in plan.mounts}
    return sorted(firsts - (_SYSTEM - _OWN))


def _linux_section(
    policy: ResolvedPolicy, baseline: Baseline, *, gvisor: bool, masked: Sequence[str]
) -> dict[str, Any]:
    host, rootless = policy.network.mode == "host", policy.facts.uid != 0
    shared = _shares_sys(policy, gvisor=gvisor)
    of_host = hidden_in_hosts_sys(policy.facts, own_network=not host) if shared else ()
    kinds = [kind for kind in baseline.namespaces if not (host and kind == "network")]
    held = baseline.capabilities["init" if policy.process.sandbox_root else "none"]
    linux: dict[str, Any] = {
        "maskedPaths": [*baseline.masked, *of_host, *masked],
        "namespaces": [{"type": kind} for kind in kinds],
        "readonlyPaths": list(baseline.readonly),
        "resources": _resource_limits(policy.resources, rootless=rootless),
        "seccomp": (gvisor_filter if gvisor else oci_filter)(policy, host_sockets=host, caps=held),
    }
    if linux["resources"]:
        linux["cgroupsPath"] = CGROUP
    if not (rootless and gvisor):  # runsc makes this namespace itself with `--rootless`, and no second one
        linux["namespaces"].append({"type": "user"})
        linux |= _mappings(policy)
    return linux


def _mappings(policy: ResolvedPolicy) -> dict[str, Any]:
    """The uid and gid mappings (idmap) of the user namespace: root inside is the caller; no more ids.

    A namespace that root creates has all ids, because its mounts may lie in directories of other users.
    """
    facts = policy.facts
    size = _ALL_IDS if facts.uid == 0 else 1
    return {
        "uidMappings": [{"containerID": 0, "hostID": facts.uid, "size": size}],
        "gidMappings": [{"containerID": 0, "hostID": facts.gid, "size": size}],
    }


_ALL_IDS = 2**32 - 1
"""All ids that a user namespace can map (user_namespaces(7))."""


def _resource_limits(resources: Resources, *, rootless: bool) -> dict[str, Any]:
    limits: dict[str, Any] = {} if rootless else {"devices": [{"allow": False, "access": "rwm"}]}
    if resources.memory is not None:
        limits["memory"] = {"limit": resources.memory, "swap": resources.memory}
    if resources.cpus is not None:
        limits["cpu"] = {"period": PERIOD, "quota": round(resources.cpus * PERIOD)}
    if resources.pids is not None:
        limits["pids"] = {"limit": resources.pids}
    return limits
