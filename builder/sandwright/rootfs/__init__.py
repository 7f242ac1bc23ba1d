"""Root file systems: archives, layers, unpacking, bundles. Hostile input lives here and only here."""
