"""The changes of new locks, as a person reads them in a review."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import DocumentError, UsageError
from sandwright.image.lockdiff import lock_differences, markdown
from sandwright.resources import data_path
from support.standby import COMMAND as SANDWRIGHT


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    for name in ("distroless", "proxy"):
        shutil.copytree(data_path("images", name), folder / name)
    return folder


def _change(lock: Path) -> tuple[str, str]:
    """Give the first package another version on every platform; return its name and its former version."""
    data = json.loads(lock.read_text())
    first = dict(next(iter(data["platforms"].values()))[0])
    for packages in data["platforms"].values():
        for package in packages:
            if package["name"] == first["name"]:
                package["version"] = "99:1-1"
    lock.write_text(json.dumps(data))
    return first["name"], first["version"]


def test_a_package_with_another_version(images: Path, tmp_path: Path) -> None:
    after = tmp_path / "after"
    shutil.copytree(images, after)
    name, version = _change(after / "distroless" / "lock.json")
    found = lock_differences(images, after)
    assert found == {"distroless": [f"  {name} {version} → 99:1-1 (linux/amd64, linux/arm64)"]}
    assert markdown(found) == (
        f"## distroless\n\n- `{name} {version} → 99:1-1 (linux/amd64, linux/arm64)`\n\n"
    )


def test_no_change(images: Path) -> None:
    assert lock_differences(images, images) == {}
    assert markdown({}) == "No lock has changed.\n"


def test_images_that_come_and_go(images: Path, tmp_path: Path) -> None:
    after = tmp_path / "after"
    shutil.copytree(images / "proxy", after / "proxy")
    assert lock_differences(images, after) == {"distroless": ["- the image"]}
    came = lock_differences(after, images)["distroless"]
    assert all(line.startswith("+ ") for line in came)
    assert any(line.startswith("+ libc6 ") for line in came)


def test_a_lock_that_goes_or_comes(images: Path, tmp_path: Path) -> None:
    after = tmp_path / "after"
    shutil.copytree(images, after)
    (after / "proxy" / "lock.json").unlink()
    assert lock_differences(images, after) == {"proxy": ["- the lock"]}
    assert any(line.startswith("+ squid ") for line in lock_differences(after, images)["proxy"])


def test_what_is_no_lock_is_an_error(images: Path, tmp_path: Path) -> None:
    (images / "proxy" / "lock.json").write_text("{")
    with pytest.raises(DocumentError, match=r"proxy/lock\.json:1:2: is not JSON"):
        lock_differences(images, images)
    with pytest.raises(UsageError, match="is no directory of images"):
        lock_differences(tmp_path / "nowhere", images)


def test_the_command(images: Path, tmp_path: Path) -> None:
    before = tmp_path / "before"
    shutil.copytree(images, before)
    name, version = _change(images / "proxy" / "lock.json")
    printed = process.run(*SANDWRIGHT, "lock-diff", before, cwd=tmp_path, timeout=120)
    assert printed.text.startswith(f"## proxy\n\n- `{name} {version} → 99:1-1 (")
