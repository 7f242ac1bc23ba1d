"""gVisor in an outer container (`gvisor.engine`), and the search for the container's requirements.

`container.outer_container` starts a container that stays and holds many sandboxes, and gives them by name:
create, start, exec, kill, delete, or `run` in one go. One run of a policy doesn't need it: that is
`sandwright run` with `gvisor.engine` in the policy.
"""
