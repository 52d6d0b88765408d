"""From a human hand over time to a robot over time."""
