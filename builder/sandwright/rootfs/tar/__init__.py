"""Archives as streams: the audited reader, the deterministic writer, and what takes compression off."""
