"""From a video, or its landmarks, to a human hand over time."""
