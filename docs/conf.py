"""The documentation site: Sphinx reads the pages of this directory and the README.

`invoke docs-site` builds it. The pages are written for a reader of the repository, so they link to source
files by relative paths. The site has no source files: such a link leads to the repository address that
`project.urls` in pyproject.toml gives. A link to a file that does not exist is a warning, and each warning
fails the build.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parents[1]
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = _PROJECT.get("urls", {}).get("Source", "https://sandwright.example/source")
"""A placeholder until the project has an address."""

project = "sandwright"
author = copyright = "the sandwright authors"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # the README is included, and has a title of its own
exclude_patterns = ["README.md", "**/__pycache__"]
html_theme = "furo"
html_title = "sandwright"
html_static_path = ["pictures/site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, list[str]] = {"top_of_page_buttons": []}

SECTIONS = {"methods": "methods/*", "decisions/README": "[0-9]*"}
"""Pages with pages below them, which are listed by a pattern as these pages have tables of their own."""

_LINK = re.compile(r"""(\]\(|src="|href=")(?![a-z]+:|#|/)([^)"\s#]+)(#[^)"]*)?""")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LOG = logging.getLogger(__name__)


def setup(app: Sphinx) -> None:
    """Register the handlers; Sphinx calls this."""
    app.connect("source-read", _source_read)
    app.connect("include-read", _include_read)


def _source_read(_app: Sphinx, document: str, content: list[str]) -> None:
    if document in SECTIONS:
        content[0] += f"\n```{{toctree}}\n:hidden:\n:glob:\n\n{SECTIONS[document]}\n```\n"
    content[0] = rewrite_links(content[0], f"docs/{document}.md", base=posixpath.dirname(f"docs/{document}"))


def _include_read(_app: Sphinx, path: Path, _document: str, content: list[str]) -> None:
    content[0] = rewrite_links(content[0], Path(path).name, base="docs")


def rewrite_links(markdown: str, name: str, *, base: str) -> str:
    """Point links that leave `docs/` to the repository.

    `name` is the page's path in the repository, `base` the directory of the page that it appears on.
    """

    def link(found: re.Match[str]) -> str:
        opening, target, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        if not (ROOT / path).exists():
            _LOG.warning("%s links to %s, which does not exist", name, target)
        if path in ("docs/README.md", "README.md"):
            path = "docs/index.md"
        if not path.startswith("docs/"):
            return f"{opening}{REPOSITORY}/blob/main/{path}{anchor}"
        return f"{opening}{posixpath.relpath(path, base)}{anchor}"

    return "".join(
        part if part.startswith("```") else _LINK.sub(link, part) for part in _FENCE.split(markdown)
    )
