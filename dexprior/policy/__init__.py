"""Policies: training under the KL to a behavior prior, planning, evaluation."""
