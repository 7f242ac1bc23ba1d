"""The diagrams of the pages: drawn by a script, shown on their page, and legible in both themes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("diagrams", PICTURES / "diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


SCRIPT = _script()
NAMES = sorted(SCRIPT.DIAGRAMS)


@pytest.mark.parametrize("name", NAMES)
def test_a_diagram_is_what_the_script_draws(name: str) -> None:
    """`python docs/pictures/diagrams.py` draws them again."""
    assert (PICTURES / f"{name}.svg").read_text(encoding="utf-8") == SCRIPT.svg(SCRIPT.DIAGRAMS[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_diagram_is_on_its_page(name: str) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert f"![{SCRIPT.DIAGRAMS[name].title}](pictures/{name}.svg)" in page


@pytest.mark.parametrize("name", NAMES)
def test_boxes_do_not_overlap_and_no_arrow_leads_nowhere(name: str) -> None:
    diagram = SCRIPT.DIAGRAMS[name]
    cells = [(node.column, node.row) for node in diagram.nodes.values()]
    assert len(cells) == len(set(cells)) > 2
    assert {end for arrow in diagram.arrows for end in arrow[:2]} == set(diagram.nodes)


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_has_a_title_and_loads_nothing(path: Path) -> None:
    picture = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    assert picture.find(f"{SVG}title") is not None
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert "http" not in text
    assert "<image" not in text
