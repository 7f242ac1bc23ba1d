"""Methods of other packages are found wherever importlib.metadata finds them, which is imported only if
needed.

Tests of methods/installed.py.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CODE = """
import sys
before = "importlib.metadata" in sys.modules
from sandwright.methods.installed import entry_points
found = sorted(each.name for each in entry_points("sandwright.methods") if each.name != "kubernetes")
print(before, found, "importlib.metadata" in sys.modules)
"""
POINTS = "[console_scripts]\nx = a:b\n\n[sandwright.methods]\nwrapped = example_method\n"
OTHERS = "[console_scripts]\nx = a:b\n"
METADATA = "Metadata-Version: 2.1\nName: example-method\nVersion: 1.0\n"


def _found(path: str | Path, more: str = "") -> str:
    code = f"import sys\nsys.path.append({str(path)!r})\n{more}\n{CODE}"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return ended.stdout.strip()


def _installed(folder: Path, name: str, points: str = POINTS) -> Path:
    info = folder / name
    info.mkdir(parents=True)
    (info / "METADATA").write_text(METADATA)
    (info / "PKG-INFO").write_text(METADATA)
    (info / "entry_points.txt").write_text(points)
    return folder


def test_nothing_is_imported_where_there_is_none(tmp_path: Path) -> None:
    assert _found(_installed(tmp_path / "a", "other-1.0.dist-info", OTHERS)) == "False [] False"
    assert _found(tmp_path / "none") == "False [] False"


@pytest.mark.parametrize(
    "name", ["example_method-1.0.dist-info", "Example_Method-1.0.DIST-INFO", "x.egg-info"]
)
def test_what_is_in_a_directory(tmp_path: Path, name: str) -> None:
    assert _found(_installed(tmp_path, name)) == "False ['wrapped'] False"


def test_what_is_in_an_egg(tmp_path: Path) -> None:
    assert _found(_installed(tmp_path / "x-1.0-py3.egg", "EGG-INFO")) == "False ['wrapped'] False"


def test_what_is_in_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "example.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("example_method-1.0.dist-info/METADATA", METADATA)
        made.writestr("example_method-1.0.dist-info/entry_points.txt", POINTS)
    assert _found(archive) == "False ['wrapped'] True"


def test_what_another_finder_knows(tmp_path: Path) -> None:
    """Editable installs of some build tools use such a finder."""
    _installed(tmp_path, "example_method-1.0.dist-info")
    more = f"""
class Own:
    @classmethod
    def find_spec(cls, *words):
        return None
    @classmethod
    def find_distributions(cls, context):
        from importlib.metadata import PathDistribution
        from pathlib import Path
        return [PathDistribution(Path({str(tmp_path)!r}) / "example_method-1.0.dist-info")]
sys.meta_path.append(Own)
"""
    assert _found("/none", more) == "False ['wrapped'] True"
