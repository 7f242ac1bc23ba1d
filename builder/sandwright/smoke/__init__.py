"""Proves that images start, under every runtime that is really there.

`run` starts images; `preflight` finds out which runtimes start anything; `runtimes` is the table of them;
`inside` is what runs in an image; `checks` judges what it said; `report` tells it.
"""
