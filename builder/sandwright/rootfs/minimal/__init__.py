"""What given programs need of a root file system, why, and a copy of just that."""
