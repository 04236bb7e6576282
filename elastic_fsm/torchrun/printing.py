"""A translation as text: overrides, the line that is the same, and a job file."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from elastic_fsm.config.emit import to_yaml
from elastic_fsm.config.writing import override

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elastic_fsm.torchrun.translation import Translation

__all__ = ["describe", "overrides"]


def overrides(translation: Translation) -> list[str]:
    """The words of ``elastic-fsm run`` before the command."""
    choices = [f"{group}={option}" for group, option in translation.choices.items()]
    return [*choices, *(override(key, value) for key, value in translation.values.items())]


def describe(translation: Translation, more: Sequence[str] = ()) -> str:
    """A job file that reads back; in its head the command line that means the same.

    ``more`` are overrides on top, which are the line's alone.
    """
    head = "-m" if translation.module else "--"
    words = ["elastic-fsm", "run", *overrides(translation), *more, head, *translation.command]
    line = " ".join(shlex.quote(word) for word in words)
    return (
        f"# The same as:\n#   {line}\n# or, with this as job.yaml:\n"
        f"#   {shlex.join(['elastic-fsm', 'run', '-c', 'job.yaml', *more])}\n"
        f"{to_yaml(_job(translation))}"
    )


def _job(translation: Translation) -> dict[str, Any]:
    job: dict[str, Any] = {
        "defaults": [{group: option} for group, option in translation.choices.items()]
    }
    entrypoint, *args = translation.command
    command = {"spec.entrypoint": entrypoint, "spec.module": translation.module, "spec.args": args}
    for key, value in (translation.values | command).items():
        group, _, name = key.rpartition(".")
        (job.setdefault(group, {}) if group else job)[name] = value
    return job
