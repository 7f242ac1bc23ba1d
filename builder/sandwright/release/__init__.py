"""Publishes images with evidence, and checks published images.

`contents` and `packages` read an image, `sbom` writes its SBOMs (CycloneDX, SPDX); `evidence` records
its test runs, `sources` its inputs, `provenance` binds all of that to its digest, and
`signing` puts a key behind it. `publish` brings it to a registry in an order that leaves no tag on anything
unsigned; `check` reads it back and believes nothing but the key.
"""
