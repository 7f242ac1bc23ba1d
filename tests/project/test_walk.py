"""The length of a request's way through `run` before the launcher starts, and the page about it.

On its way the request has five forms (`walktrace.FORMS`): the command line's request, the merged policy, the
policy on this host, the rendered sandbox, the prepared sandbox. A module *hands it on* if one of its
functions calls a function of another module with a form as an argument: these modules are the walk, and a
reader who follows a request needs all of them. A module that is given one and hands it to nobody is a leaf:
it answers one question about the request. Not counted: calls with less than a form (a path, a rule, the facts
of the host), calls by a form's own methods, imports, and everything after the exec. The traced command is
`run --method bwrap -- true` in a new home.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import walktrace

MOST = 25
MOST_GIVEN = 40
"""The maximum number, including leaves."""

PAGE = Path(__file__).parents[2] / "docs/architecture.md"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    home = tmp_path_factory.mktemp("home")
    for name in ("project", "run"):
        (home / name).mkdir(mode=0o700)
    environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "run"), "PATH": os.environ["PATH"]}
    words = [sys.executable, "-E", "-P", walktrace.__file__]
    traced = subprocess.run(
        words, capture_output=True, cwd=home / "project", env=environ, timeout=120, check=False
    )
    assert traced.stdout, traced.stderr.decode()
    return dict(json.loads(traced.stdout))


@pytest.mark.needs("bwrap")
def test_the_walk_is_short(walk: dict[str, list[str]]) -> None:
    assert {"cli.running", "session.run", "session.prepare", "methods.registry"} <= set(walk["hands_on"])
    assert walk["forms"] == sorted(walktrace.FORMS)
    assert len(walk["hands_on"]) <= MOST, walk["hands_on"]
    assert len(walk["given"]) <= MOST_GIVEN, walk["given"]


@pytest.mark.needs("bwrap")
def test_the_page_shows_it(walk: dict[str, list[str]]) -> None:
    _, _, text = PAGE.read_text().partition("The modules of the walk:")
    listed = re.findall(r"`([a-z_./]+)\.py`", text.partition("\n\n")[0])
    assert sorted(name.replace("/", ".") for name in listed) == sorted(walk["hands_on"])


@pytest.mark.needs("bwrap")
def test_it_imports_no_template_engine(walk: dict[str, list[str]]) -> None:
    assert walk["slow"] == []
