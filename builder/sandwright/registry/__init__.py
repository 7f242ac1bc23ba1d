"""A client of OCI registries (distribution-spec 1.1): pulls, pushes, mounts, referrers. On `requests`.

A registry is a stranger. What it sends is bounded, compared with the digest it was asked for, and shown
without control characters; where it sends us goes no credential; and everything has a time limit.

`reference` is the grammar of names, `client` the operations on one repository, `push` and `pull` move whole
images, `referrer` attaches documents to them. Below: `exchange` (one request with retries, redirects and
authorization), `authorization` and `credentials`, `upload` and `download`.
"""
