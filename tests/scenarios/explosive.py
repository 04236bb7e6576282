"""The rules of some scenarios here: an action that raises."""

from __future__ import annotations

from elastic_fsm import action


@action
def explode(agent, event):
    """Raise."""
    raise OSError("boom")
