"""Learns which policy a command needs: `sandwright learn`.

A run under the current policy is recorded by the launcher (`launcher/source/record.c`), and read by
`session.access_log`. `needs` compares that with the current policy and the preset `default`, `generalise`
makes grants of it by the tables in `tables`, `proposal` writes them into the policy's text, `attempt` runs
the command, and `learn` runs it under the proposal until it passes or nothing changes.
"""
