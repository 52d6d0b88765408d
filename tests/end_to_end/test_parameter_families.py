"""The program of the page on parameter families, run as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "parameter-families.md"


def test_the_pages_program_tells_friction_and_speed_and_leaves_the_mass():
    program = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, truth in (("friction", 0.4), ("speed", 1.2)):
        low, high = map(float, re.search(rf"{name} \[(\S+), (\S+)\] True", done.stdout).groups())
        assert low < truth < high
    assert "mass None False" in done.stdout
    assert "covered: True" in done.stdout
