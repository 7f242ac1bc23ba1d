"""The artifacts of every shipped profile, byte for byte: a change of a group shows as a change of these
files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sandwright.evaluate.bpf import listing, read_program
from sandwright.render.artifact import json_text
from sandwright.seccomp import compile_bpf, profile, profiles, render_gvisor, render_oci

GOLDEN = Path(__file__).parent.parent / "golden" / "seccomp"
NAMES = ("default", "strict", "build", "bwrap-in-container", "runsc-in-container")
Golden = Callable[[str, str], None]


@pytest.mark.parametrize("name", NAMES)
def test_engine_profile(golden: Golden, name: str) -> None:
    golden(f"{name}/engine.json", json_text(render_oci(profile(name), comments=True)))


@pytest.mark.parametrize("name", NAMES)
def test_gvisor_profile(golden: Golden, name: str) -> None:
    golden(f"{name}/gvisor.json", json_text(render_gvisor(profile(name))))


@pytest.mark.parametrize("arch", ["amd64", "arm64"])
@pytest.mark.parametrize("name", NAMES)
def test_program(golden: Golden, name: str, arch: str) -> None:
    assert arch in ("amd64", "arm64")
    program = compile_bpf(profile(name), arch="amd64" if arch == "amd64" else "arm64")
    golden(f"{name}/{arch}.bpf.txt", listing(read_program(program)))


def test_no_file_is_left_over() -> None:
    expected = {f"{name}/{file}" for name in profiles() for file in ("engine.json", "gvisor.json")}
    expected |= {f"{name}/{arch}.bpf.txt" for name in profiles() for arch in ("amd64", "arm64")}
    assert {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*") if path.is_file()} == expected


@pytest.mark.parametrize("name", NAMES)
def test_the_same_profile_gives_the_same_bytes(name: str) -> None:
    assert json_text(render_oci(profile(name))) == json_text(render_oci(profile(name)))
    assert compile_bpf(profile(name), arch="amd64") == compile_bpf(profile(name), arch="amd64")


def test_the_specification_gets_no_comments() -> None:
    rules = render_oci(profile("default"))["syscalls"]
    assert {key for rule in rules for key in rule} == {"names", "action", "errnoRet", "args"}
    assert len(render_oci(profile("default"), arch=["amd64"])["architectures"]) == 1


def test_an_artifact_for_one_architecture_names_its_calls_only() -> None:
    def names(*arch: str) -> set[str]:
        rules = render_oci(profile("default"), arch=arch)["syscalls"]  # type: ignore[arg-type]
        return {name for rule in rules for name in rule["names"]}

    assert "open" in names("amd64")
    assert "open" not in names("arm64")
    assert names("amd64", "arm64") == names("amd64") | names("arm64")


@pytest.mark.parametrize("name", NAMES)
def test_gvisor_is_told_only_what_it_can_do(name: str) -> None:
    rendered = render_gvisor(profile(name))
    assert rendered["defaultAction"] == "SCMP_ACT_ERRNO"
    assert "errno" not in json.dumps(rendered).lower().replace("scmp_act_errno", "")
    assert {rule["action"] for rule in rendered["syscalls"]} == {"SCMP_ACT_ALLOW"}
    allowed = {name for rule in rendered["syscalls"] if "args" not in rule for name in rule["names"]}
    assert "clone3" in allowed, "without ENOSYS no thread could be made"
    assert not allowed & {"io_uring_setup", "bpf", "fsopen", "keyctl"}
