"""The bridge: runs a few programs on the host for the sandbox, with secrets that the sandbox never sees.

    shim (inside) ⇄ frames ⇄ server (host) → grammar → environment, secrets, repository → the program

A shim is a small static program that is named like the program it stands for. It sends its arguments, working
directory and standard input to the server over a Unix socket and gives back what the program writes and how
it ends. The server runs only what the policy's `credentials.shims` let through, and hands the program a
command line that it wrote itself from what it understood: never the one that came in. With the keys of
`credentials.signing` it signs commits and tags.
"""
