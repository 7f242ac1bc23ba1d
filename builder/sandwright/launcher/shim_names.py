"""The names of programs in a bridge's directory. A start reads them, so this module imports nothing."""

SHIM = "shim"
"""The program that the names in `bin/` are links to."""

ENTER = "sandwright-enter"
"""Makes the listener on the sandbox's loopback, before the command starts."""

CHANGES = "sandwright-changes"
"""Lists the changes of a review workspace (`bridge/on_demand.py`)."""

PROTOCOL = 1
"""The version of the protocol between a shim and the bridge (`bridge/frames.py`)."""
