"""Tar archives as streams: one audited reader and one deterministic writer.

`entry` says what a member is; `reader` takes archives apart, with `member` and `header` for the bytes;
`writer` makes them.
"""
