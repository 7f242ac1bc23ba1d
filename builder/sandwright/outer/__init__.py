"""gVisor's outer container: one that stays and holds many sandboxes, and the search for what it needs.

`outer_container` starts one and gives its sandboxes by name: create, start, exec, kill, delete, or `run` in
one go. One run of a policy doesn't need it: that is `sandwright run` with `outer` in the policy.
"""

from sandwright.outer.container import OuterContainer, outer_container

__all__ = ["OuterContainer", "outer_container"]
