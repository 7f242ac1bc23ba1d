"""`python -m sandwright.bridge`: the bridge's own process. Started by `sandwright.bridge.serve` only."""

from __future__ import annotations

import sys

from sandwright.bridge.server import serve_forever

if __name__ == "__main__":
    serve_forever(0, int(sys.argv[1]), [int(each) for each in sys.argv[2:]])
