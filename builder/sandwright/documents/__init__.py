"""Documents: YAML and JSON with positions, strict JSON, and the decoder that makes typed values of them."""
