"""The command line: Invoke tasks, mounted in the checkout's `tasks.py` and behind the `sandwright` command.

The only room that prints and exits. Each module holds the tasks of one subject; a task reads its arguments,
calls the library, and shows what came back. Nothing heavy is imported before a task that needs it runs.
"""

from __future__ import annotations

from sandwright.cli.program import main
from sandwright.cli.tasks import namespace

__all__ = ["main", "namespace"]
