"""Failed starts under `user`: the reasons are read from messages of the launcher, which must not drift apart.

Tests of methods/user/backend.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandwright.methods.user.backend import explain_failure
from sandwright.runtime.trial import Failed

SOURCE = Path(__file__).parents[3] / "builder/sandwright/launcher/source"
MESSAGES = re.compile(r'die_errno\("([^"]*(?:cannot create namespaces|cannot mount %)[^"]*)"')


@pytest.mark.parametrize("file", ["user_first.c", "user_root.c"])
def test_the_messages_of_the_launcher_are_recognized(file: str) -> None:
    messages = set(MESSAGES.findall((SOURCE / file).read_text()))
    assert messages
    for message in messages:
        code, said, remedy = explain_failure(
            Failed("not-started", f"sandbox: {message}: Operation not permitted")
        )
        assert (code, said.startswith("sandbox: ")) == ("container-filter", True)
        assert remedy
