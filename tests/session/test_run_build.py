"""`run --build`: missing images that a run needs."""

from __future__ import annotations

import pytest

from sandwright.session.missing_images import missing_images
from sandwright.session.request import RunRequest
from session.conftest import Project
from support.thorough import THOROUGH

POLICIES = {
    "an image's method": ("method: oci\nimage: distroless", ("distroless",)),
    "one of several methods": ("methods: [bwrap, podman]\nimage: distroless", ("distroless",)),
    "the proxy of an engine": (
        "method: docker\nnetwork: {mode: proxy, allow: [pypi.org]}",
        ("debian", "proxy"),
    ),
    "the proxy of gVisor in an engine's container": (
        "method: gvisor\ngvisor: {engine: docker}\nnetwork: {mode: proxy, allow: [pypi.org]}",
        ("debian", "proxy"),
    ),
    "the host's root": ("method: bwrap\nimage: distroless", ()),
    "an image of others": ("method: oci\nimage: docker.io/library/busybox:1", ()),
}


@pytest.mark.parametrize(("policy", "names"), POLICIES.values(), ids=POLICIES.keys())
def test_what_is_missing(
    project: Project, policy: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDWRIGHT_BUILD", str(project.home / "build"))
    monkeypatch.delenv("SANDWRIGHT_ROOTFS", raising=False)
    monkeypatch.setenv("HOME", str(project.home))
    monkeypatch.chdir(project.root)
    project.policy.write_text(f"schema: 1\n{policy}\n")
    found, platform = missing_images(RunRequest(["true"], trusted=True))
    assert found == names
    assert platform.startswith("linux/")
    for name in names:
        (project.home / "build/images" / name).mkdir(parents=True)
        (project.home / "build/images" / name / "index.json").write_text("{}")
    assert missing_images(RunRequest(["true"], trusted=True))[0] == ()


def test_nothing_is_built_for_a_policy_without_approval(project: Project) -> None:
    project.environment |= {"SANDWRIGHT_TRUST": "", "SANDWRIGHT_BUILD": str(project.home / "build")}
    project.policy.write_text("schema: 1\nmethod: oci\nimage: distroless\nnetwork: {mode: host}\n")
    ran = project.run("true", options=("--build",))
    assert ran.returncode == 125
    assert b"sandwright trust" in ran.stderr
    assert not (project.home / "build").exists()


@pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` downloads packages")
@pytest.mark.needs("runc")
def test_it_is_built_and_used(project: Project) -> None:
    """Standard output has only the command's own."""
    project.environment |= {"SANDWRIGHT_BUILD": str(project.home / "build")}
    project.policy.write_text("schema: 1\nmethod: oci\nimage: debian\n")
    ran = project.run("head", "-n1", "/etc/os-release", options=("--build",))
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.startswith(b"PRETTY_NAME=")
    again = project.run("true", options=("--build", "--quiet"))
    assert (again.returncode, b"build:" in again.stderr) == (0, False)
