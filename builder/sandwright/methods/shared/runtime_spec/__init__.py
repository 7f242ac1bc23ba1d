"""Code that oci and gvisor share: an OCI runtime on an unpacked image."""
