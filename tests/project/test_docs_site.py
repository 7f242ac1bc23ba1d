"""The documentation site builds completely, and a dead link fails the build."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from sandwright import process
from sandwright.errors import CommandFailed

ROOT = Path(__file__).parents[2]
WAIT = 240


def _build(root: Path, site: Path) -> None:
    options = ("--quiet", "--nitpicky", "--fail-on-warning", "--keep-going")
    process.run(sys.executable, "-m", "sphinx", *options, root / "docs", site, timeout=WAIT)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the pages and of the files to which they link."""
    root = tmp_path_factory.mktemp("copied")
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "pyproject.toml", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / name, root)
    for name in ("builder", "images", "oci", "tests", "benchmarks", ".github"):
        (root / name).symlink_to(ROOT / name)
    return root


@pytest.fixture(scope="module")
def site(copied: Path) -> Path:
    _build(copied, copied / "site")
    return copied / "site"


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages - {Path("README.html")} <= built
    assert (site / "searchindex.js").stat().st_size > 10_000


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    loaded = re.compile(r"""<(?:script|link|img)[^>]*(?:src|href)=["'](https?:[^"']*)""")
    text = (site / "index.html").read_text()
    assert "pictures/idea.svg" in text or "_images/idea.svg" in text
    assert loaded.findall(text) == []


def test_dead_links_fail_the_build(copied: Path, site: Path) -> None:
    """Only the changed page is built again."""
    page = copied / "docs/start.md"
    text = page.read_text()
    links = ("nowhere.md", "../builder/nowhere.py", "policy.md#no-such-heading")
    page.write_text(text + "".join(f"\n[dead]({link})\n" for link in links))
    try:
        with pytest.raises(CommandFailed) as failed:
            _build(copied, site)
    finally:
        page.write_text(text)
    for name in ("nowhere.md", "../builder/nowhere.py", "no-such-heading"):
        assert name in str(failed.value)
