"""The files of a root file system that given programs need, the reasons, and a copy of just these files."""
