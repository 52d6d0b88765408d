"""Rotations, rigid transforms, timing: NumPy functions, batched over leading axes."""
