"""The bridge: runs a few programs on the host for the sandbox, with secrets that the sandbox never sees.

    shim (inside) ⇄ frames ⇄ server (host) → grammar → environment, secrets, repository → the program

A shim is a small static program that is named like the program it stands for. It sends its arguments, working
directory and standard input to the server over a Unix socket and returns the program's output and exit
status. The server runs only calls that the policy's `credentials.shims` allow. It builds the program's
command line itself from the parsed call and never passes on the received one. With the keys of
`credentials.signing` it signs commits and tags.
"""
