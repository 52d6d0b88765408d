"""Robots by name: one entry a machine, whoever builds its model; read by scenes and by retargeting alike."""
