"""Runs written down as plain text, for tests, simulations and injected failures.

``forms`` is the grammar, ``script`` reads a file, ``playing`` acts it out in virtual time,
``telling`` writes down what came of it, ``injecting`` plays it against real processes.
"""

from __future__ import annotations
