"""MjSpec scenes of the tasks, robots and the human hand; batched stepping. Gymnasium is not known here."""
