"""What reproduces published tables and is no part of the line; only the command line imports it.

adroit/     the Adroit hand with human demonstrations, and with experts that were made worse
cubes/      the cube tosses: every simulator on ten tosses, scored on others
ellipses/   recorded impacts of an ellipse: which start gives a wanted velocity, judged by the record
strikes/    every simulator of strikes on an independent engine's table: velocities, places of rest, plans
kl/         what the KL to the behavioral prior buys, and when it buys nothing
parts.py    how the parts of a study are run
mini_lab/   the whole loop of the ledger on a toy: a gait meets a friction that it was not trained for
"""
