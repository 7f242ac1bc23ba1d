"""Sessions: one run of a command in a sandbox, from the policy to the exit status, and their records.

If the policy was rendered before and has not changed, a run needs `user_dirs`, `render_cache`, `state` and
`run` only, which import only small modules of the standard library. Otherwise `prepare` renders it.
"""
