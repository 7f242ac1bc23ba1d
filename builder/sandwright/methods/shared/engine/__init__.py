"""Code that Docker and Podman share: containers of an engine."""
