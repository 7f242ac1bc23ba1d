"""From an image's configuration to a runtime's: conversion.md, rule by rule, and our own baseline."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandwright.errors import BuildError
from sandwright.render.baseline import BaselineMount, Rlimit, load_baseline
from sandwright.resources import data_path
from sandwright.rootfs.bundles.convert import (
    BundleOptions,
    CallerIds,
    convert_labels,
    runtime_config,
    volume_paths,
)
from sandwright.rootfs.bundles.identity import ExecUser
from support import runtimespec

ROOT = ExecUser(0, 0, (), "/root")
DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def convert(
    config: dict[str, Any] | None = None,
    *,
    identity: ExecUser = ROOT,
    settings: BundleOptions | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The runtime's configuration for an image that runs /bin/sh."""
    document = {"os": "linux", "architecture": "amd64", "config": {"Cmd": ["/bin/sh"], **(config or {})}}
    document |= more.pop("document", {})
    return runtime_config(
        document, identity, baseline=load_baseline(), settings=settings or BundleOptions(), **more
    )


# Arguments, environment, working directory.


@pytest.mark.parametrize(
    ("entrypoint", "cmd", "settings", "args"),
    [
        (["/e"], ["c"], BundleOptions(), ["/e", "c"]),
        (["/e", "a b"], None, BundleOptions(), ["/e", "a b"]),
        (None, ["/c", ""], BundleOptions(), ["/c", ""]),
        ([], ["/c"], BundleOptions(), ["/c"]),
        (["/e"], ["c"], BundleOptions(command=("/x", "y")), ["/x", "y"]),
        (["/e"], ["c"], BundleOptions(arguments=("y",)), ["/e", "y"]),
        (["/e"], ["c"], BundleOptions(arguments=()), ["/e"]),
        (None, None, BundleOptions(command=("/x",)), ["/x"]),
    ],
)
def test_args_are_entrypoint_and_cmd(
    entrypoint: list[str] | None, cmd: list[str] | None, settings: BundleOptions, args: list[str]
) -> None:
    made = convert({"Entrypoint": entrypoint, "Cmd": cmd}, settings=settings)
    assert made["process"]["args"] == args


@pytest.mark.parametrize(
    ("image", "identity", "env"),
    [
        (None, ROOT, [DEFAULT_PATH, "HOME=/root"]),
        ([], ExecUser(5, 5, (), "/h"), [DEFAULT_PATH, "HOME=/h"]),
        (["PATH=/x"], ROOT, ["PATH=/x", "HOME=/root"]),
        (["PATH="], ROOT, ["PATH=", "HOME=/root"]),
        (["HOME=/mine", "A=1=2", "A=3", "E="], ROOT, ["HOME=/mine", "A=1=2", "A=3", "E=", DEFAULT_PATH]),
        (["HOMER=/x"], ROOT, ["HOMER=/x", DEFAULT_PATH, "HOME=/root"]),
    ],
)
def test_environment_is_verbatim_and_defaults_only_fill_gaps(
    image: list[str] | None, identity: ExecUser, env: list[str]
) -> None:
    assert convert({"Env": image}, identity=identity)["process"]["env"] == env


def test_caller_may_change_the_environment() -> None:
    made = convert({"Env": ["A=1", "B=2"]}, settings=BundleOptions(environment={"A": "x", "PATH": "/p"}))
    assert made["process"]["env"] == ["B=2", "A=x", "PATH=/p", "HOME=/root"]


def test_terminal_brings_its_name() -> None:
    plain, terminal = convert(), convert(settings=BundleOptions(terminal=True))
    assert plain["process"]["terminal"] is False
    assert "TERM=xterm" not in plain["process"]["env"]
    assert terminal["process"]["terminal"] is True
    assert "TERM=xterm" in terminal["process"]["env"]
    assert (
        "TERM=xterm"
        not in convert({"Env": ["TERM=dumb"]}, settings=BundleOptions(terminal=True))["process"]["env"]
    )


@pytest.mark.parametrize(
    ("image", "cwd"), [(None, "/"), ("", "/"), ("/work", "/work"), ("/a/../b/", "/a/../b/")]
)
def test_cwd_is_verbatim_and_never_empty(image: str | None, cwd: str) -> None:
    assert convert({"WorkingDir": image})["process"]["cwd"] == cwd


REFUSED = {
    "no program": ({"Cmd": None}, "names no program"),
    "empty program": ({"Cmd": [""]}, "names no program"),
    "cmd a string": ({"Cmd": "/bin/sh -c x"}, "Cmd must be an array of strings"),
    "cmd of numbers": ({"Cmd": [1]}, "Cmd must be an array of strings"),
    "NUL in an argument": ({"Cmd": ["/a", "b\0c"]}, "an argument with a NUL byte"),
    "env without =": ({"Env": ["NAME"]}, "Env: 'NAME' is not NAME=value"),
    "env without a name": ({"Env": ["=x"]}, "Env: '=x' is not NAME=value"),
    "env with NUL": ({"Env": ["A=b\0c"]}, "is not NAME=value"),
    "env an object": ({"Env": {"A": "b"}}, "Env must be an array of strings"),
    "cwd relative": ({"WorkingDir": "work"}, "working directory 'work' is not an absolute path"),
    "cwd dots": ({"WorkingDir": "../../x"}, "is not an absolute path"),
    "cwd a number": ({"WorkingDir": 1}, "WorkingDir must be a string"),
    "labels no strings": ({"Labels": {"a": 1}}, "Labels must be an object of strings"),
    "ports an array": ({"ExposedPorts": ["80"]}, "ExposedPorts must be an object"),
    "stop signal a number": ({"StopSignal": 9}, "StopSignal must be a string"),
}


@pytest.mark.parametrize(("config", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_configuration_that_breaks_a_rule(config: dict[str, Any], message: str) -> None:
    with pytest.raises(BuildError) as raised:
        convert(config)
    assert message in str(raised.value)


@pytest.mark.parametrize("section", [None, {}])
def test_image_without_a_config_section_needs_a_command(section: object) -> None:
    with pytest.raises(BuildError, match="names no program"):
        convert(document={"config": section})
    made = convert(document={"config": section}, settings=BundleOptions(command=("/x",)))
    assert made["process"]["args"] == ["/x"]


# Identity and capabilities.


def test_user_and_groups() -> None:
    assert convert(identity=ExecUser(5, 6, (7, 8), "/h"))["process"]["user"] == {
        "uid": 5,
        "gid": 6,
        "additionalGids": [7, 8],
    }
    assert convert(identity=ExecUser(5, 6))["process"]["user"] == {"uid": 5, "gid": 6}


def test_no_capability_by_default_and_never_inheritable_or_ambient_ones() -> None:
    """CVE-2022-24769: inheritable ones make file capabilities effective."""
    assert convert()["process"]["capabilities"] == {"bounding": [], "effective": [], "permitted": []}
    named = convert(settings=BundleOptions(capabilities="init"))["process"]["capabilities"]
    expected = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"]
    assert named == {"bounding": expected, "effective": expected, "permitted": expected}
    with pytest.raises(BuildError, match="no capability set 'all'; there are init, none"):
        convert(settings=BundleOptions(capabilities="all"))


def test_what_every_process_starts_with() -> None:
    made = convert()
    assert made["process"]["noNewPrivileges"] is True
    assert made["process"]["rlimits"] == [{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}]
    assert made["root"] == {"path": "rootfs", "readonly": True}
    assert made["hostname"] == "sandbox"
    assert [each["type"] for each in made["linux"]["namespaces"]] == [
        "mount",
        "pid",
        "ipc",
        "uts",
        "network",
        "cgroup",
    ]
    assert made["linux"]["resources"] == {"devices": [{"allow": False, "access": "rwm"}]}
    assert {"/proc/kcore", "/proc/keys", "/sys/firmware"} <= set(made["linux"]["maskedPaths"])
    assert {"/proc/sys", "/proc/sysrq-trigger"} <= set(made["linux"]["readonlyPaths"])


def test_one_limit_a_type() -> None:
    limits = (Rlimit("RLIMIT_NOFILE", 10, 20), Rlimit("RLIMIT_CORE", 5, 6), Rlimit("RLIMIT_NOFILE", 1, 2))
    assert convert(settings=BundleOptions(rlimits=limits))["process"]["rlimits"] == [
        {"type": "RLIMIT_CORE", "soft": 5, "hard": 6},
        {"type": "RLIMIT_NOFILE", "soft": 1, "hard": 2},
    ]


@pytest.mark.parametrize("name", ["a" * 65, "-a", "a_b", "a b", "", "a\n", "é"])
def test_host_name_that_is_none(name: str) -> None:
    if name:
        with pytest.raises(BuildError, match="host name"):
            convert(settings=BundleOptions(hostname=name))
    assert convert(settings=BundleOptions(hostname="web-1.example"))["hostname"] == "web-1.example"


# Mounts.


def test_mounts_are_parents_first_and_one_a_place() -> None:
    extra = (
        BaselineMount("/tmp/deep/er", "tmpfs", "tmpfs"),
        BaselineMount("/tmp", "bind", "/host/tmp", ("rbind", "rw")),
        BaselineMount("/data", "bind", "/host/data", ("rbind", "ro")),
    )
    mounts = convert(settings=BundleOptions(mounts=extra))["mounts"]
    places = [mount["destination"] for mount in mounts]
    assert len(set(places)) == len(places)
    for number, place in enumerate(places):
        assert not any(place.startswith(f"{later}/") for later in places[number + 1 :])
    assert {
        "destination": "/tmp",
        "type": "bind",
        "source": "/host/tmp",
        "options": ["rbind", "rw"],
    } in mounts


def test_tmp_is_a_bounded_tmpfs_that_everyone_may_write_to() -> None:
    (tmp,) = (mount for mount in convert()["mounts"] if mount["destination"] == "/tmp")
    assert tmp["type"] == "tmpfs"
    assert {"mode=1777", "nosuid", "nodev"} <= set(tmp["options"])
    assert any(option.startswith("size=") for option in tmp["options"])


def test_volumes_become_mounts() -> None:
    volume = BaselineMount("/data", "tmpfs", "tmpfs", ("mode=750", "uid=5"))
    assert {
        "destination": "/data",
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["mode=750", "uid=5"],
    } in convert(volumes=[volume])["mounts"]


def test_volume_paths_are_sorted_parents_first() -> None:
    assert volume_paths({"Volumes": {"/b/c/d": {}, "/b": {}, "/a/x/": {}}}) == ["/b", "/a/x", "/b/c/d"]
    assert volume_paths({"Volumes": None}) == []


@pytest.mark.parametrize("path", ["data", "/", "", "/a/../b", "/a//b", "/./a", "/a\0b", "../x"])
def test_volume_that_is_no_plain_path(path: str) -> None:
    with pytest.raises(BuildError, match="is not an absolute, normalised path below /"):
        volume_paths({"Volumes": {path: {}}})


# Annotations.

IMAGE = "org.opencontainers.image."


def test_implied_annotations() -> None:
    document = {
        "os.version": "1.2",
        "os.features": ["a", "b"],
        "variant": "v8",
        "author": "me",
        "created": "2020-01-01T00:00:00Z",
    }
    config = {"StopSignal": "SIGINT", "ExposedPorts": {"80/tcp": {}, "53/udp": {}, "443": {}}}
    assert convert(config, document={**document, "config": {"Cmd": ["/x"], **config}})["annotations"] == {
        f"{IMAGE}os": "linux",
        f"{IMAGE}architecture": "amd64",
        f"{IMAGE}os.version": "1.2",
        f"{IMAGE}os.features": "a,b",
        f"{IMAGE}variant": "v8",
        f"{IMAGE}author": "me",
        f"{IMAGE}created": "2020-01-01T00:00:00Z",
        f"{IMAGE}stopSignal": "SIGINT",
        f"{IMAGE}exposedPorts": "443,53/udp,80/tcp",
    }


def test_labels_win_over_what_is_implied() -> None:
    labels = {f"{IMAGE}architecture": "mine", f"{IMAGE}author": "label", "other": "kept, as it is: ü"}
    made = convert({"Labels": labels})["annotations"]
    assert made == {f"{IMAGE}os": "linux", **labels}


STEERING = [
    "run.oci.hooks.stdout",
    "run.oci.handler",
    "module.wasm.image/variant",
    "dev.gvisor.spec.rootfs.source",
    "io.katacontainers.config.hypervisor.path",
    "io.kubernetes.cri.container-type",
    "io.kubernetes.cri-o.SandboxID",
    "io.containers.trace-syscall",
    "cdi.k8s.io/vendor",
    "org.systemd.property.Delegate",
    "org.criu.config",
    "",
]


def test_labels_that_steer_a_runtime_are_left_out_and_told() -> None:
    """CVE-2026-53488, CVE-2026-50195, CVE-2026-53492."""
    harmless = {"dev.gvisorx": "1", "org.criu.configuration": "2", "maintainer": "3", "xrun.oci.handler": "4"}
    document = {"config": {"Labels": {**dict.fromkeys(STEERING, "evil"), **harmless}}}
    kept, stripped = convert_labels(document, load_baseline())
    assert kept == harmless
    assert stripped == sorted(STEERING)


# Rootless.


def test_rootless_maps_one_id() -> None:
    settings = BundleOptions(
        mounts=(BaselineMount("/data", "tmpfs", "tmpfs", ("uid=5", "gid=5", "mode=700")),)
    )
    made = convert(identity=ExecUser(5, 6, (7,)), rootless=CallerIds(1000, 1001), settings=settings)
    linux = made["linux"]
    assert {"type": "user"} in linux["namespaces"]
    assert {"type": "cgroup"} in linux["namespaces"]
    assert linux["uidMappings"] == [{"containerID": 0, "hostID": 1000, "size": 1}]
    assert linux["gidMappings"] == [{"containerID": 0, "hostID": 1001, "size": 1}]
    assert "resources" not in linux
    assert made["process"]["user"] == {"uid": 0, "gid": 0}
    options = [option for mount in made["mounts"] for option in mount["options"]]
    assert not [option for option in options if option.startswith(("uid=", "gid="))]
    (sys,) = (mount for mount in made["mounts"] if mount["destination"] == "/sys")
    assert (sys["type"], sys["source"]) == ("none", "/sys")
    assert {"rbind", "ro", "nosuid", "nodev", "noexec"} <= set(sys["options"])
    assert "/sys/fs/cgroup" in linux["maskedPaths"], "CVE-2023-25809"
    assert {"/sys/class/net", "/sys/devices/virtual/net"} <= set(linux["maskedPaths"])


def test_root_has_no_mapping() -> None:
    linux = convert()["linux"]
    assert "uidMappings" not in linux
    assert {"type": "user"} not in linux["namespaces"]
    assert "/sys/fs/cgroup" not in linux["maskedPaths"]


# The whole.


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"identity": ExecUser(5, 6, (7, 8), "/h")},
        {"rootless": CallerIds(1000, 1001)},
        {"settings": BundleOptions(terminal=True, writable=True, capabilities="init", hostname="h")},
        {
            "settings": BundleOptions(mounts=(BaselineMount("/d", "bind", "/s", ("rbind",)),)),
            "rootfs": "../../rootfs/x",
        },
        {"volumes": [BaselineMount("/v", "tmpfs", "tmpfs", ("mode=755",))]},
    ],
    ids=["plain", "user", "rootless", "settings", "mount", "volume"],
)
def test_every_field_is_one_of_the_runtime_spec(more: dict[str, Any]) -> None:
    made = convert({"Env": ["A=b"], "Labels": {"a": "b"}, "StopSignal": "SIGTERM"}, **more)
    assert runtimespec.faults(made) == []
    made["process"]["noNewPriviledges"] = True
    assert len(runtimespec.faults(made)) == 1


def test_same_input_gives_the_same_bytes() -> None:
    labels = {str(number): "x" for number in range(50)}
    forward, backward = labels, dict(reversed(labels.items()))
    assert json.dumps(convert({"Labels": forward}), sort_keys=True) == json.dumps(
        convert({"Labels": backward}), sort_keys=True
    )


@given(
    st.dictionaries(
        st.sampled_from(
            ["Cmd", "Entrypoint", "Env", "WorkingDir", "Labels", "Volumes", "ExposedPorts", "User"]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=6,
        ),
    )
)
def test_any_configuration_converts_or_is_a_build_error(config: dict[str, Any]) -> None:
    try:
        made = convert(config)
    except BuildError:
        return
    assert made["process"]["args"][0]
    assert runtimespec.faults(made) == []


@pytest.mark.parametrize("name", ["mounts", "paths", "process", "annotations", "mountpoints", "minimal"])
def test_every_line_of_the_baseline_has_a_reason(name: str) -> None:
    document = json.loads(data_path("oci", f"{name}.json").read_text())
    assert document.pop("about")

    def rows(value: Any) -> list[dict[str, Any]]:
        if isinstance(value, dict):
            own = [value] if {"destination", "path", "key", "capability"} & value.keys() else []
            return own + [row for inner in value.values() for row in rows(inner)]
        return [row for inner in value for row in rows(inner)] if isinstance(value, list) else []

    found = rows(document)
    assert found
    assert [row for row in found if len(row.get("reason", "")) < 5] == []
