"""The function of each command, imported when the command runs: most import much."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sandwright.checked import Checked
from sandwright.lazy import load

FUNCTIONS: Mapping[str, str] = {
    "verify-audit": ".sessions:verify_audit",
    "setup": ".images:setup",
    "init-image": ".image_init:init_image",
    "lock-images": ".locks:lock_images",
    "lock-diff": ".locks:lock_diff",
    "build-images": ".images:build_images",
    "prune-images": ".prune:prune_images",
    "export-image": ".images:export_image",
    "dockerfile": ".engines:dockerfile",
    "push-image": ".registries:push_image",
    "pull-image": ".registries:pull_image",
    "sbom": ".release:sbom",
    "attest-image": ".release:attest_image",
    "publish": ".release:publish",
    "verify-image": ".release:verify_image",
    "lint-image": ".check:lint_image",
    "bundle": ".bundles:bundle",
    "verify-mapping": ".mapping:verify_mapping",
    "init": ".init:init",
    "render": ".policies:render",
    "diff": ".changes:diff",
    "explain": ".policies:explain",
    "facts": ".policies:facts",
    "lint": ".linting:lint",
    "schema": ".policies:schema",
    "run": ".running:run",
    "changes": ".review:changes",
    "apply": ".review:apply",
    "discard": ".review:discard",
    "undo": ".review:undo",
    "workspaces": ".review:workspaces",
    "exec": ".executing:execute",
    "shell": ".executing:shell",
    "attach": ".executing:attach",
    "fleet": ".fleet:fleet",
    "learn": ".learn:learn",
    "trust": ".trust:trust",
    "doctor": ".sessions:doctor",
    "status": ".sessions:status",
    "logs": ".sessions:logs",
    "stop": ".sessions:stop",
    "cleanup": ".sessions:cleanup",
    "uninstall": ".uninstall:uninstall",
    "account-setup": ".accounts:account_setup",
    "account-remove": ".accounts:account_remove",
    "bridge": ".bridge:bridge",
    "shim-eval": ".bridge:shim_eval",
    "verify": ".verify:verify",
    "verify-presets": ".verify:verify_presets",
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
