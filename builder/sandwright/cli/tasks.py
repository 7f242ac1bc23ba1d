"""Every task of the product, in one collection."""

from __future__ import annotations

from invoke.collection import Collection

from sandwright.cli import (
    bridge,
    bundles,
    check,
    completion,
    engines,
    evaluators,
    images,
    init,
    locks,
    mapping,
    outer,
    policies,
    registries,
    release,
    sessions,
    verify,
)

namespace = Collection(
    images.setup,
    images.lock_images,
    locks.lock_diff,
    images.build_images,
    images.export_image,
    engines.dockerfile,
    registries.push_image,
    registries.pull_image,
    release.sbom,
    release.prove_image,
    release.publish,
    release.verify_image,
    check.check_image,
    bundles.bundle,
    mapping.prove_mapping,
    init.init,
    policies.render,
    policies.explain,
    policies.facts,
    policies.lint,
    policies.schema,
    sessions.run,
    sessions.doctor,
    sessions.status,
    sessions.cleanup,
    bridge.bridge,
    bridge.shim_check,
    verify.verify,
    outer.minimise_capabilities,
    evaluators.sbpl_eval,
    evaluators.seccomp_eval,
    completion.completion,
)
