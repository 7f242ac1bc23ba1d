"""Images built by Docker, Podman or Buildah, from Dockerfiles that are rendered from the same definitions."""
