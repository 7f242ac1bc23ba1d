"""The artifacts of `user`: each step in its plan is one that its program knows.

Tests of methods/user/launch.py.
"""

from __future__ import annotations

import re

import pytest

from sandwright.evaluate.explain.plans import read_plan
from sandwright.launcher import LAUNCH
from sandwright.methods.registry import render
from sandwright.methods.user.render import account_for
from support.goldens import CASES, case_policy

STEPS = {
    "bind": 2, "ro-bind": 2, "try": 1, "tmpfs": 2, "proc": 1, "dev": 1, "readonly": 1, "directory": 1,
    "file": 1, "symlink": 2, "ignored": 1, "beside": 2, "trusted": 2, "loopback": 0,
}  # fmt: skip


LIMITED = "ci"
"""The case that limits memory, which this method cannot do."""


def test_with_a_proxy_the_caller_makes_the_network() -> None:
    """The session's proxy is brought into this network; root's half makes none of its own."""
    plans = [read_plan(render(case_policy(case), "user")).plan for case in ("python-project", "strict")]
    assert [(plan.proxy, plan.user.network) for plan in plans] == [(True, False), (False, True)]


def test_the_program_has_these_steps() -> None:
    text = (LAUNCH.source / "user_root.c").read_text()
    table = text.partition("STEPS[] = {")[2].partition("};")[0]
    found = {name: int(count) for name, count in re.findall(r'\{"([a-z-]+)", (\d)\}', table)}
    assert found == STEPS


@pytest.mark.parametrize("case", [case for case in CASES if case != LIMITED])
def test_every_word_of_a_plan_has_its_place(case: str) -> None:
    words = render(case_policy(case), "user").artifact("plan").content.decode("utf-8", "surrogateescape")
    assert words.endswith("\0")
    rest = words[:-1].split("\0")
    assert rest[1:3] == ["/", "/"] or rest[:2] == ["tmpfs", "/"]
    while rest:
        count = STEPS[rest.pop(0)]
        assert all(word.startswith(("/", "0", "1")) or count == 2 for word in rest[:count])
        del rest[:count]


def test_a_project_has_one_account_for_each_person() -> None:
    """The names are valid for useradd(8): 32 characters at most, of these letters."""
    names = {
        account_for(project, uid).name
        for project in ("/home/ada/app", "/home/ada/äpp\n")
        for uid in (0, 1000)
    }
    assert len(names) == 4
    assert all(re.fullmatch(r"sandwright-[0-9a-f]{12}", name) for name in names)
    assert account_for("/home/ada/app", 1000).name == "sandwright-797333fb486f"
