"""The commands: each heading of `sandwright --help` has a file, and `table` has all of them."""
