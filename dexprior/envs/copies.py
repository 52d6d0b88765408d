"""Copies of environments, which there are none of."""

from __future__ import annotations

__all__ = ["NotCopied"]


class NotCopied:
    """What holds a simulator, a socket or a robot: copies and pickles of it are refused, with what to do instead."""

    def __getstate__(self) -> object:
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled: the state of what it runs is not Python's. Make "
            "another one with the same arguments, and bring it to the same point by reset(seed=...) and the same "
            "actions; hand other processes a function that makes one, as gymnasium.vector.AsyncVectorEnv takes it"
        )
