"""The port of a source: it owns descriptors, threads or timers, and it never decides anything."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["Source"]


class Source(ABC):
    """Something that posts events to the loop it was made with, from start to close."""

    @abstractmethod
    def start(self) -> None:
        """Begin to watch."""

    @abstractmethod
    def close(self) -> None:
        """Give back everything it owns; calling it again does nothing."""
