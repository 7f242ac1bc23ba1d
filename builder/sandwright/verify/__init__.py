"""Proves a rendered sandbox: attempts inside what the policy denies and what it allows, and judges that.

`prove` is the way in. A *probe* is one or more attempts with what must come of each, and controls that must
succeed in the same sandbox; what is expected stands in a table (`expected`), written by hand and never taken
from a renderer. The attempts are made by one small static program for every method (`probe/*.c`).
"""
