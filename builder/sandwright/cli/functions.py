"""The function of each command, imported when the command runs: most import much."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Callable

    from sandwright.checked import Checked


def function_of(command: str) -> Callable[..., int | Checked | None]:
    """The function of a command of the table.

    It gives an exit status, None for 0, or how much it checked.
    """
    match command:
        case "audit":
            from sandwright.cli.sessions import audit

            return audit
        case "setup":
            from sandwright.cli.images import setup

            return setup
        case "lock-images":
            from sandwright.cli.locks import lock_images

            return lock_images
        case "lock-diff":
            from sandwright.cli.locks import lock_diff

            return lock_diff
        case "build-images":
            from sandwright.cli.images import build_images

            return build_images
        case "export-image":
            from sandwright.cli.images import export_image

            return export_image
        case "dockerfile":
            from sandwright.cli.engines import dockerfile

            return dockerfile
        case "push-image":
            from sandwright.cli.registries import push_image

            return push_image
        case "pull-image":
            from sandwright.cli.registries import pull_image

            return pull_image
        case "sbom":
            from sandwright.cli.release import sbom

            return sbom
        case "prove-image":
            from sandwright.cli.release import prove_image

            return prove_image
        case "publish":
            from sandwright.cli.release import publish

            return publish
        case "verify-image":
            from sandwright.cli.release import verify_image

            return verify_image
        case "check-image":
            from sandwright.cli.check import check_image

            return check_image
        case "bundle":
            from sandwright.cli.bundles import bundle

            return bundle
        case "prove-mapping":
            from sandwright.cli.mapping import prove_mapping

            return prove_mapping
        case "init":
            from sandwright.cli.init import init

            return init
        case "render":
            from sandwright.cli.policies import render

            return render
        case "diff":
            from sandwright.cli.changes import diff

            return diff
        case "explain":
            from sandwright.cli.policies import explain

            return explain
        case "facts":
            from sandwright.cli.policies import facts

            return facts
        case "lint":
            from sandwright.cli.linting import lint

            return lint
        case "schema":
            from sandwright.cli.policies import schema

            return schema
        case "run":
            from sandwright.cli.running import run

            return run
        case "fleet":
            from sandwright.cli.fleet import fleet

            return fleet
        case "learn":
            from sandwright.cli.learn import learn

            return learn
        case "trust":
            from sandwright.cli.trust import trust

            return trust
        case "doctor":
            from sandwright.cli.sessions import doctor

            return doctor
        case "status":
            from sandwright.cli.sessions import status

            return status
        case "cleanup":
            from sandwright.cli.sessions import cleanup

            return cleanup
        case "account-setup":
            from sandwright.cli.accounts import account_setup

            return account_setup
        case "account-remove":
            from sandwright.cli.accounts import account_remove

            return account_remove
        case "bridge":
            from sandwright.cli.bridge import bridge

            return bridge
        case "shim-check":
            from sandwright.cli.bridge import shim_check

            return shim_check
        case "verify":
            from sandwright.cli.verify import verify

            return verify
        case "prove":
            from sandwright.cli.verify import prove

            return prove
        case "sbpl-eval":
            from sandwright.cli.evaluators import sbpl_eval

            return sbpl_eval
        case "seccomp-eval":
            from sandwright.cli.evaluators import seccomp_eval

            return seccomp_eval
        case "completion":
            from sandwright.cli.completion import completion

            return completion
    raise AssertionError(command)
