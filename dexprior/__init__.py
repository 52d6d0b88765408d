"""dexprior: contact-rich dexterous manipulation without hand-tuned contact physics.

Importing this package loads nothing heavy; each stage imports what it needs.
"""

import os
import sys

__version__ = "0.1.0"
__all__ = ["__version__"]

# MuJoCo reads this once, when it is first imported: without a display, only an off-screen context can work.
if sys.platform == "linux" and not os.environ.get("DISPLAY"):
    os.environ.setdefault("MUJOCO_GL", "egl")
