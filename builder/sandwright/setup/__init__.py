"""What comes from the distribution: `requirements` says what that is, `plan` installs it."""

from __future__ import annotations

from sandwright.setup.plan import SetupPlan, plan_setup
from sandwright.setup.requirements import GROUPS, how_to_get

__all__ = ["GROUPS", "SetupPlan", "how_to_get", "plan_setup"]
