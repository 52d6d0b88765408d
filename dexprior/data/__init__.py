"""Data sets, clips, importers and what is read from disk."""
