"""Tar archives as streams: one audited reader and one deterministic writer.

`entry` describes a member; `reader` parses archives, with `member` and `header` for the bytes;
`writer` makes them.
"""
