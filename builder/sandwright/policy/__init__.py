"""The policy: the grants of a sandbox, from the text of its layers to a value that answers every question.

    text → Layer (checked) → MergedPolicy (held to the floor) → ResolvedPolicy (paths of one host)

Nothing here reads a clock, an environment variable or a file of the host, except `load` (the policy's own
files) and `collect` (the facts about a host that a policy needs). The Python API is `sandwright.api`.
"""
