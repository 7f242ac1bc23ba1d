"""Our default permits nothing that the engines' own profiles deny. Theirs are read from the engines here."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.evaluate.bpf import run_program
from sandwright.render.artifact import json_text
from sandwright.seccomp import SeccompCall, decide, load_profile_json, oci_json, profile, resolve
from sandwright.seccomp.abi import NATIVE, Architecture
from sandwright.seccomp.lint_rules import int_arguments
from sandwright.seccomp.model import SeccompFilter
from support.seccomp_calls import as_seen, calls
from support.seccomp_engines import name
from support.seccomp_oracle import compile_with_libseccomp, known_to_libseccomp
from support.thorough import covering

PODMAN = Path("/usr/share/containers/seccomp.json")
CAPS = ("CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_NICE", "CAP_SYS_PTRACE", "CAP_SYS_TIME", "CAP_SYSLOG")


def looser(theirs: SeccompFilter, caps: tuple[str, ...], arch: Architecture) -> set[str]:
    """The calls that our default permits and theirs denies, for some arguments."""
    ours = resolve(
        load_profile_json(json_text(oci_json(profile("default").expand(caps=caps))), "ours"), arch=arch
    )
    return {
        call.name
        for call in calls(ours, theirs, arch=arch)
        if decide(ours, call).action.lets_run and not decide(theirs, as_the_kernel_sees(call)).action.lets_run
    }


def as_the_kernel_sees(call: SeccompCall) -> SeccompCall:
    """Ours compares the lower halves of int arguments, theirs more: the kernel's behaviour then counts."""
    if call.name not in int_arguments():
        return call
    first, second, third, fourth, fifth, sixth = (value & 0xFFFFFFFF for value in call.arguments)
    return SeccompCall(call.abi, call.number, (first, second, third, fourth, fifth, sixth))


def tighter(theirs: SeccompFilter, arch: Architecture) -> set[str]:
    """The calls that theirs permits and ours denies, for some arguments."""
    ours = resolve(load_profile_json(json_text(oci_json(profile("default").expand())), "ours"), arch=arch)
    return {
        call.name
        for call in calls(ours, theirs, arch=arch)
        if call.abi is NATIVE[arch]
        and decide(theirs, call).action.lets_run
        and not decide(ours, call).action.lets_run
    }


@pytest.mark.needs("podman")
@pytest.mark.parametrize(
    ("caps", "arch"), covering([(), *((cap,) for cap in CAPS), CAPS], ["amd64", "arm64"]), ids=str
)
def test_podman(caps: tuple[str, ...], arch: Architecture) -> None:
    theirs = resolve(load_profile_json(PODMAN.read_bytes(), str(PODMAN)), arch=arch, caps=caps)
    assert looser(theirs, caps, arch) == set()
    if not caps:
        assert {"ptrace", "mount", "unshare", "keyctl", "clone", "ioctl", "socket"} <= tighter(theirs, arch)


@pytest.mark.needs("podman")
@pytest.mark.usefixtures("libseccomp")
@pytest.mark.parametrize("arch", ["amd64", "arm64"])
@pytest.mark.parametrize("caps", [(), CAPS], ids=["none", "some"])
def test_podmans_profile_means_what_libseccomp_makes_of_it(caps: tuple[str, ...], arch: Architecture) -> None:
    """This covers all of its architectures: 32 bits, x32, and calls through socketcall."""
    document = load_profile_json(PODMAN.read_bytes(), str(PODMAN))
    filter_ = resolve(document, arch=arch, caps=caps)
    program = compile_with_libseccomp(document, arch=arch, caps=caps)
    for call in calls(filter_, arch=arch):
        if known_to_libseccomp(call.name, call.abi):
            assert run_program(program, as_seen(call)) == decide(filter_, call).action, call


def docker_seccomp(label: str, *options: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The profile that dockerd passes to runc: its own profile, resolved, and the capabilities."""
    container = name()
    run = (
        "docker",
        "run",
        "--detach",
        "--name",
        container,
        "--network",
        "none",
        "--volume",
        "/usr:/usr:ro",
        *options,
    )
    try:
        identity = process.run(*run, label, "/usr/bin/sleep", "60", timeout=60).text
        config = json.loads(_bundle_config(identity).read_text(encoding="utf-8"))
    finally:
        process.run("docker", "rm", "--force", container, timeout=60, check=False)
    return config["linux"]["seccomp"], tuple(config["process"].get("capabilities", {}).get("bounding") or ())


def _bundle_config(identity: str) -> Path:
    """Below /run, or beside the socket, for the daemon that the tests start if none answers."""
    private = Path(os.environ.get("DOCKER_HOST", "").removeprefix("unix://")).parent / "exec"
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for base in (private, Path("/run/docker/containerd"), Path("/run/containerd")):
            found = next(base.glob(f"**/{identity}/config.json"), None)
            if found is not None:
                return found
        time.sleep(0.1)
    pytest.skip("this Docker does not keep its bundles below /run where we may read them")


@pytest.mark.needs("docker")
@pytest.mark.skipif(os.geteuid() != 0, reason="reads dockerd's bundles, for which one must be root")
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--cap-drop", "ALL"),
        *(("--cap-drop", "ALL", "--cap-add", cap.removeprefix("CAP_")) for cap in CAPS),
    ],
    ids=lambda options: "-".join(options).replace("--", "") or "default",
)
def test_docker(docker: str, options: tuple[str, ...]) -> None:
    seccomp, caps = docker_seccomp(docker, *options)
    theirs = resolve(load_profile_json(json.dumps(seccomp), "docker"), arch="amd64")
    assert looser(theirs, caps, "amd64") == set()
    if not options:
        assert {"ptrace", "ioctl", "socket", "mknod", "modify_ldt", "adjtimex"} <= tighter(theirs, "amd64")
