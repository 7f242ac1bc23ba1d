"""The artifacts of the shipped profiles; tests/golden/seccomp has the artifacts themselves."""

from __future__ import annotations

import json

import pytest

from sandwright.seccomp import gvisor_json, oci_json, profile, profiles
from support.goldens import PROFILES


def test_every_profile_is_golden() -> None:
    assert set(PROFILES) == set(profiles())


def test_the_specification_gets_no_comments() -> None:
    rules = oci_json(profile("default").expand())["syscalls"]
    assert {key for rule in rules for key in rule} == {"names", "action", "errnoRet", "args"}
    assert len(oci_json(profile("default").expand(arch=["amd64"]))["architectures"]) == 1


def test_an_artifact_for_one_architecture_names_its_calls_only() -> None:
    def names(*arch: str) -> set[str]:
        rules = oci_json(profile("default").expand(arch=arch))["syscalls"]  # type: ignore[arg-type]
        return {name for rule in rules for name in rule["names"]}

    assert "open" in names("amd64")
    assert "open" not in names("arm64")
    assert names("amd64", "arm64") == names("amd64") | names("arm64")


@pytest.mark.parametrize("name", PROFILES)
def test_gvisor_is_told_only_what_it_can_do(name: str) -> None:
    rendered = gvisor_json(profile(name).expand())
    assert rendered["defaultAction"] == "SCMP_ACT_TRACE", "what it answers with ENOSYS"
    assert "errno" not in json.dumps(rendered).lower().replace("scmp_act_errno", "")
    assert {rule["action"] for rule in rendered["syscalls"]} == {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}
    allowed = {
        name
        for rule in rendered["syscalls"]
        if "args" not in rule and rule["action"] == "SCMP_ACT_ALLOW"
        for name in rule["names"]
    }
    assert not allowed & {"clone3", "io_uring_setup", "bpf", "fsopen", "keyctl"}
