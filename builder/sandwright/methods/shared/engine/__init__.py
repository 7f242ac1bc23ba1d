"""What Docker and Podman share: containers of an engine."""
