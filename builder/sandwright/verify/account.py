"""Prepares planted files for the method `user`: its account can reach them, except one."""

from __future__ import annotations

from sandwright.methods.user.sharing import let_through, share
from sandwright.verify.fixture import Fixture

CLOSED = "of-a-person/.ssh/config"
"""A file in a readable directory that no rule denies: only its mode closes it."""

FROM_HOST = "from-host"
"""A file that was made in the workspace after it was shared."""


def share_fixture(fixture: Fixture, uid: int) -> None:
    """Give an account the rights that the set-up gives it in a project: to write, and to reach the rest."""
    let_through(fixture.root, uid)
    share(fixture.write, uid)
    (fixture.write / FROM_HOST).write_text(fixture.plain, encoding="utf-8")
    for directory in (fixture.read, fixture.probe):
        for path in (directory, *directory.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path == fixture.program else 0o644)
    closed = fixture.read / CLOSED
    closed.parent.mkdir(parents=True)
    closed.write_text(fixture.word, encoding="utf-8")
    closed.chmod(0o600)
    for directory in (closed.parent, closed.parent.parent):
        directory.chmod(0o700)
