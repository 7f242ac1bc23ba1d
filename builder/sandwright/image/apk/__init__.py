"""Alpine's packages and indices (apk version 2): read, verified, resolved, recorded as installed."""
