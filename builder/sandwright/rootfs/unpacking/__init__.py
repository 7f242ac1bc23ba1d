"""From layers to a root file system: merged, contained, and visible only when complete."""
