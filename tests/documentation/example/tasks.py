"""The team's tasks, and sandwright's beside them: `invoke test`, `invoke sandbox.run -- make test`."""

from __future__ import annotations

from invoke.collection import Collection
from invoke.context import Context
from invoke.tasks import task

from sandwright.cli import namespace as sandbox


@task
def test(c: Context) -> None:
    """Run the checks, without a sandbox."""
    c.run("make test")


namespace = Collection(test, sandbox=sandbox)
