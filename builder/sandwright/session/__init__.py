"""Sessions: one run of a command in a sandbox, from the policy to the exit status, and their records.

What runs on the short way (a policy that was rendered before, and has not changed) imports the standard
library's small modules only: `user_dirs`, `render_cache`, `state`, `run`. The long way is `prepare`.
"""
