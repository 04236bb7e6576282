"""Runs written down as plain text, for tests, simulations and injected failures.

``forms`` is the grammar, ``script`` reads a file, ``playing`` acts it out in virtual time,
``telling`` and ``data`` say what came of it, ``injecting`` plays it against real processes, and
``posting`` says in which order both do what happens at one moment; ``naming`` and ``settings`` hold
what a file names against the run. ``counterexample`` writes files, with ``exit_codes`` that fit.
"""

from __future__ import annotations
