"""Images as they lie on disk: OCI layouts, OCI archives, and the output of `docker save`."""
