"""Container engines: Docker, Podman and Buildah.

Builds and smoke runs use `contract.Engine`: Docker through its API, Podman and Buildah through their command
lines. Methods and launchers use `client.EngineClient`, the command line that Docker and Podman share: only
that knows Docker's contexts, by which users choose a daemon.
"""
