"""Root file systems: reading archives, unpacking layers, writing bundles. Hostile input lives here and only here."""
