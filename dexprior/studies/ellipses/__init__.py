"""Recorded impacts of an ellipse, planned with after the fact: a judge of collision models that is no simulator."""

from dexprior.studies.ellipses.planning import choose_starts, evaluate_choices, score_choices

__all__ = ["choose_starts", "evaluate_choices", "score_choices"]
