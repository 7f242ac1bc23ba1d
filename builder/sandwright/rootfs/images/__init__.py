"""Images as they lie on disk: OCI layouts, OCI archives, and what `docker save` writes."""
