"""The main job of the README: every image is built, unpacked and started; a second run does nothing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from sandwright import process
from sandwright.host import collect_host
from support.thorough import representative

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.needs("mmdebstrap", "runc", "bwrap")]

HERE = collect_host().platform
ROOT = os.geteuid() == 0
SANDWRIGHT = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")
IMAGES = {"debian", "distroless", "gvisor", "proxy", "workspace"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All images for this machine's platform, started under two runtimes, in the command's final state."""
    directory = tmp_path_factory.mktemp("main-job")
    result = _build(directory)
    assert result.text.endswith("details in build/report.json and build/junit.xml"), result.text
    return directory / "build"


def _build(directory: Path) -> process.Result:
    words = ["build-images", "--platform", HERE, "--runtime", "runc", "--runtime", "bwrap", "--frozen"]
    return process.run(*SANDWRIGHT, *words, cwd=directory, timeout=1500)


def test_every_image_passed_under_every_runtime(built: Path) -> None:
    report = json.loads((built / "report.json").read_text())
    verdicts = {(row["image"], row["runtime"]): row["verdict"] for row in report["rows"]}
    passed = {"runc": "pass" if ROOT else "skipped", "bwrap": "pass"}
    assert verdicts == {(image, runtime): passed[runtime] for image in IMAGES for runtime in passed}
    assert report["green"] is True
    rows = [row for row in report["rows"] if row["verdict"] == "pass"]
    most = {image: max(len(row["findings"]) for row in rows if row["image"] == image) for image in IMAGES}
    assert min(most.values()) > 10, most  # under the first runtime that starts it
    assert all(len(row["findings"]) > 8 for row in rows)


def test_a_second_run_does_nothing_and_says_so(built: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (built / "images").rglob("*")}
    again = _build(built.parent)
    assert "nothing has changed: no image was built, none started again" in again.text
    assert {path: path.stat().st_mtime_ns for path in (built / "images").rglob("*")} == before


@pytest.mark.needs("skopeo", "umoci")
@pytest.mark.parametrize("image", representative(sorted(IMAGES), "distroless", "proxy"))
def test_others_accept_what_was_written(built: Path, image: str, tmp_path: Path) -> None:
    layout = built / "images" / image
    inspected = json.loads(process.run("skopeo", "inspect", f"oci:{layout}:latest").stdout)
    assert (inspected["Os"], inspected["Architecture"]) == tuple(HERE.split("/"))
    name = HERE.rpartition("/")[2]
    process.run(
        "umoci", "unpack", "--rootless", "--image", f"{layout}:{name}", tmp_path / "bundle", timeout=120
    )
    program = {"proxy": "usr/sbin/squid", "gvisor": "usr/bin/runsc"}.get(image, "usr/bin/python3")
    assert (tmp_path / "bundle" / "rootfs" / program).exists()


@pytest.mark.skipif(not ROOT, reason="runc's state in /run/runc is root's")
def test_a_bundle_runs_what_it_is_asked_to(built: Path) -> None:
    command = ["python3", "-c", "print('a  b')"]
    process.run(*SANDWRIGHT, "bundle", "distroless", "--", *command, cwd=built.parent, timeout=120)
    bundle = built / "bundles" / f"distroless-{HERE.rpartition('/')[2]}"
    result = process.run("runc", "run", "--bundle", bundle, "sandwright-test-main-job", timeout=60)
    assert result.stdout == b"a  b\n"
