"""MjSpec scenes of the tasks, their robots and the human hand; batched stepping. Gymnasium is not known here."""
