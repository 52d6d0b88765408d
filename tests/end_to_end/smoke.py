"""How the demo is run at smoke size."""

from __future__ import annotations

import sys

COMMAND = [sys.executable, "-m", "dexprior", "demo", "preset=smoke", "out=run", "threads=1"]
