"""Publishes images with evidence, and checks what was published.

`contents` and `packages` find out what is in an image, `sbom` says it (CycloneDX, SPDX); `evidence` is what
was seen of it running, `sources` what it was made of, `provenance` binds all of that to its digest, and
`signing` puts a key behind it. `publish` brings it to a registry in an order that leaves no tag on anything
unsigned; `check` reads it back and believes nothing but the key.
"""
