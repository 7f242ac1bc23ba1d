"""bubblewrap: namespaces of the kernel, without a daemon and without root."""
