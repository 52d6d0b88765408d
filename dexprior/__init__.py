"""dexprior: contact-rich dexterous manipulation without hand-tuned contact physics.

Importing this package loads nothing heavy; each stage imports what it needs.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
