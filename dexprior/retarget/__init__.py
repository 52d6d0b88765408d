"""Retargeting: a human hand over time becomes a robot over time."""
