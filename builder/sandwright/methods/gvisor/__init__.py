"""gVisor's runsc on an unpacked image, on the host or in a container of its own."""
