"""Reads the configuration of an OCI runtime back: mounts, namespaces, environment, filter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sandwright.documents.document import Document
from sandwright.documents.jsontext import parse_json
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Calls, Enclosure
from sandwright.evaluate.explain.isolation import Isolation, refuse_unknown
from sandwright.evaluate.explain.plans import Placed, read_plan
from sandwright.evaluate.explain.shape import Each, OneOf, Shape, check_shape, keys
from sandwright.evaluate.explain.verdict import ArtifactPosition, position_in
from sandwright.methods.shared.runtime_spec.render import ASKING, IGNORED, NOTHING, RECURSIVE
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount, MountKind
from sandwright.render.rendered import Rendered

_OWN = frozenset(("proc", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2"))

_MAPPINGS = Each(keys("containerID", "hostID", "size"))
_CONFIG: Shape = {
    **keys("ociVersion", "hostname"),
    "process": {
        **keys("terminal", "args", "env", "cwd", "rlimits", "noNewPrivileges"),
        "user": keys("uid", "gid"),
        "capabilities": keys("bounding", "effective", "permitted"),
    },
    "root": {"path": OneOf(("rootfs",)), "readonly": None},
    "mounts": Each(keys("destination", "type", "source", "options")),
    "linux": {
        **keys("maskedPaths", "readonlyPaths", "cgroupsPath"),
        "namespaces": Each(keys("type")),  # a path would be that of another process
        "resources": {**keys("memory", "cpu", "pids"), "devices": Each(keys("allow", "access"))},
        "seccomp": keys("architectures", "defaultAction", "defaultErrnoRet", "syscalls"),
        **dict.fromkeys(("uidMappings", "gidMappings"), _MAPPINGS),
    },
}
"""The rendered keys. Hooks, devices, annotations and all others are refused."""

_MOUNT_OPTIONS = frozenset(
    (
        *("bind", "rbind", "rprivate", "ro", "rro", "rw", "nosuid", "nodev", "noexec", "strictatime"),
        *("newinstance", "mode", "size", "uid", "gid", "ptmxmode"),
    )
)

_RUNSC_FLAGS = frozenset(
    (
        *("--oci-seccomp", "--network=none", "--network=host", "--directfs=false", "--rootless"),
        "--host-uds=open",
    )
)


def read_runc(rendered: Rendered, policy: ResolvedPolicy) -> Enclosure:
    """The container that runc or crun makes of `config.json`.

    Raise DocumentError also for a read-only directory that leaves the mounts below it writable, and for
    root's without the rule that closes devices.
    """
    read = read_config(rendered, None)
    document = parse_json(rendered.artifact("config.json").content, file="config.json")
    config: Any = document.data
    for index, each in enumerate(config["mounts"]):
        of_host = each["type"] == "bind" and each["source"].startswith("/")  # others are of the run's bundle
        is_shallow = of_host and not {"rw", RECURSIVE}.intersection(each["options"])
        if is_shallow and policy.facts.kind(each["source"]) == "directory":
            raise refuse_unknown(position_in(document, ("mounts", index), f"no {RECURSIVE}"))
    rules = config["linux"].get("resources", {}).get("devices", [])
    if policy.facts.uid == 0 and rules[:1] != [{"allow": False, "access": "rwm"}]:
        raise refuse_unknown(position_in(document, ("linux",), f"devices: {rules}"))
    return read


def read_runsc(rendered: Rendered, _policy: ResolvedPolicy) -> Enclosure:
    """The container that runsc makes of `config.json`."""
    return read_config(rendered, read_plan(rendered).words_of("runtime.flags"))


def read_config(rendered: Rendered, flags: Sequence[Placed] | None) -> Enclosure:
    """The container of `config.json`, for runsc with `flags`.

    Raise DocumentError for a key, an option of a mount or a flag that is not rendered.
    """
    content = rendered.artifact("config.json").content
    document = parse_json(content, file="config.json")
    config: Any = document.data
    check_shape(document, _CONFIG, config)
    for flag, position in flags or ():
        if flag not in _RUNSC_FLAGS:
            raise refuse_unknown(position)
    memory = config["linux"].get("resources", {}).get("memory", {})
    if memory.get("limit") != memory.get("swap"):
        raise refuse_unknown(position_in(document, ("linux", "resources", "memory"), f"memory: {memory}"))
    words = {flag for flag, _ in flags or ()}
    launch = read_plan(rendered)
    kinds = [each["type"] for each in config["linux"]["namespaces"]]
    network = ("linux", "namespaces", kinds.index("network")) if "network" in kinds else None
    environment = {
        text.partition("=")[0]: position_in(document, ("process", "env", index), text)
        for index, text in enumerate(config["process"]["env"])
    }
    return Enclosure(
        "image",
        tuple(_mounts(document, config)),
        network=position_in(document, network, "network") if network else None,
        environment=environment,
        passing=launch.passing(),
        calls=_filter(rendered, document, config, obeyed=flags is None or "--oci-seccomp" in words),
        isolated=_isolation(document, config),
        absent=launch.absent(),
        localhost=launch.ports("localhost"),
        expose=launch.ports("expose"),
        sockets=flags is None or "--host-uds=open" in words,
    )


def _filter(rendered: Rendered, document: Document, config: Any, *, obeyed: bool) -> Calls:  # noqa: ANN401 - JSON
    """The wider of two, where a run that reports refusals replaces the filter."""
    if not obeyed or "seccomp" not in config["linux"]:
        return calls.unfiltered(document.file)
    caps = config["process"]["capabilities"]["bounding"]
    found = calls.of_document(document, caps=caps)
    if not any(each.name == ASKING for each in rendered.artifacts):
        return found
    answers = calls.of_bpf(rendered.artifact("seccomp.bpf").content, "seccomp.bpf")
    asking = rendered.artifact(ASKING).content
    return calls.widest(found, calls.of_json(asking, ASKING, caps=caps, listener=answers))


def _isolation(document: Document, config: Any) -> Isolation:  # noqa: ANN401 - JSON
    process, linux = config["process"], config["linux"]
    devices = linux.get("resources", {}).get("devices", ())
    gains, writable = ("process", "noNewPrivileges"), ("root", "readonly")
    return Isolation(
        position_in(document, ("linux", "namespaces"), "namespaces"),
        {each["type"] for each in linux["namespaces"]},
        {
            name.removeprefix("CAP_"): position_in(document, ("process", "capabilities", kind, index), name)
            for kind, names in process["capabilities"].items()
            for index, name in enumerate(names)
        },
        gains_rights=None if process.get(gains[1]) is True else position_in(document, gains[:1], gains[1]),
        writable_root=None
        if config["root"].get(writable[1]) is True
        else position_in(document, writable[:1], "root"),
        devices={
            f"{index}": position_in(document, ("linux", "resources", "devices", index), "allow")
            for index, each in enumerate(devices)
            if each.get("allow") is not False
        },
    )


def _mounts(document: Document, config: Any) -> Iterator[tuple[Mount, ArtifactPosition]]:  # noqa: ANN401 - JSON
    """In order: the runtime masks and closes its own paths after all mounts are made."""
    for index, each in enumerate(config["mounts"]):
        for option in each["options"]:
            if option.partition("=")[0] not in _MOUNT_OPTIONS:
                raise refuse_unknown(position_in(document, ("mounts", index), option))
        for option in sorted(_required_options(each).difference(each["options"])):
            raise refuse_unknown(position_in(document, ("mounts", index), f"no {option}"))
        mount = _mount(each)
        text = f"{each['type']} {each['source']} on {mount.target}, {'rw' if mount.writable else 'ro'}"
        yield mount, position_in(document, ("mounts", index), text)
    for key, kind in (("maskedPaths", "mask"), ("readonlyPaths", "proc")):
        for index, path in enumerate(config["linux"].get(key, ())):
            found: MountKind = "mask" if kind == "mask" else "proc"
            yield Mount(path, found), position_in(document, ("linux", key, index), path)


def _required_options(each: dict[str, Any]) -> set[str]:
    """No mount has set-user-ID programs, and none but the runtime's own has devices."""
    devices = each["destination"] in ("/dev", "/dev/pts") and each["type"] != "bind"
    of_bind = {"rprivate"} if each["type"] == "bind" else set()
    return {"nosuid"} | of_bind | ({"nodev"} if not devices else set())


def _mount(each: dict[str, Any]) -> Mount:
    target, kind, options = each["destination"], each["type"], each["options"]
    writable = "ro" not in options
    if kind == "bind" or "rbind" in options or "bind" in options:
        if each["source"] in ("/dev/null", NOTHING):
            return Mount(target, "mask", entry="file")
        if each["source"] == IGNORED:
            return Mount(target, "tmpfs")
        return Mount(target, "bind", writable, source=each["source"])
    if kind in _OWN:
        return Mount(target, "proc", writable)
    return Mount(target, "dev" if target == "/dev" else "tmpfs", writable)
