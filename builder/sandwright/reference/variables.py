"""The table of environment variables in docs/commands.md."""

from __future__ import annotations

from sandwright.environment import VARIABLES
from sandwright.reference.markdown import code, table


def texts() -> dict[str, str]:
    """The part `environment`."""
    rows = [[code(each.name), each.reader, each.about] for each in VARIABLES]
    return {"environment": table(("variable", "read by", "meaning"), rows)}
