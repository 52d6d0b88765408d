"""Objects that no task of the suite has: files of their clouds, and what to ask the prior for."""
