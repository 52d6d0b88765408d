"""A human hand over time from a video, or from its landmarks over time."""
