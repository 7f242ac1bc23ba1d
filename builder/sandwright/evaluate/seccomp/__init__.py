"""Answers about seccomp profiles: what one does with a call and why, and what is wrong with one."""
