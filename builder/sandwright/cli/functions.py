"""The function of each command, imported when the command runs: most import much."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sandwright.checked import Checked
from sandwright.lazy import load

FUNCTIONS: Mapping[str, str] = {
    "audit": ".sessions:audit",
    "setup": ".images:setup",
    "lock-images": ".locks:lock_images",
    "lock-diff": ".locks:lock_diff",
    "build-images": ".images:build_images",
    "export-image": ".images:export_image",
    "dockerfile": ".engines:dockerfile",
    "push-image": ".registries:push_image",
    "pull-image": ".registries:pull_image",
    "sbom": ".release:sbom",
    "prove-image": ".release:prove_image",
    "publish": ".release:publish",
    "verify-image": ".release:verify_image",
    "check-image": ".check:check_image",
    "bundle": ".bundles:bundle",
    "prove-mapping": ".mapping:prove_mapping",
    "init": ".init:init",
    "render": ".policies:render",
    "diff": ".changes:diff",
    "explain": ".policies:explain",
    "facts": ".policies:facts",
    "lint": ".linting:lint",
    "schema": ".policies:schema",
    "run": ".running:run",
    "fleet": ".fleet:fleet",
    "learn": ".learn:learn",
    "trust": ".trust:trust",
    "doctor": ".sessions:doctor",
    "status": ".sessions:status",
    "cleanup": ".sessions:cleanup",
    "account-setup": ".accounts:account_setup",
    "account-remove": ".accounts:account_remove",
    "bridge": ".bridge:bridge",
    "shim-check": ".bridge:shim_check",
    "verify": ".verify:verify",
    "prove": ".verify:prove",
    "sbpl-eval": ".evaluators:sbpl_eval",
    "seccomp-eval": ".evaluators:seccomp_eval",
    "completion": ".completion:completion",
}
"""By command: the module in this room, and its function."""


def function_of(command: str) -> Callable[..., int | Checked | None]:
    """The function of a command of the table.

    It gives an exit status, None for 0, or how much it checked.
    """
    function: Callable[..., int | Checked | None] = load(FUNCTIONS[command], __package__)
    return function
