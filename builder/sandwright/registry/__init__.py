"""A client of OCI registries (distribution-spec 1.1): pulls, pushes, mounts, referrers. On `requests`.

Registries are not trusted. Answers are bounded, verified by digest, and shown without control characters; no
credential follows a redirect to another host; everything has a time limit.

`reference` is the grammar of names, `client` the operations on one repository, `push` and `pull` move whole
images, `referrer` attaches documents to them. Below: `exchange` (one request with retries, redirects and
authorization), `authorization` and `credentials`, `upload` and `download`.
"""
