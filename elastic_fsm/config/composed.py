"""A run's configuration, ready to use: plain values, and where each came from."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from elastic_fsm.config.masking import MASK, hide, secrets_of
from elastic_fsm.config.schema import RunConfig
from elastic_fsm.config.tree import leaves
from elastic_fsm.list_form import place_in_lists
from elastic_fsm.problems import COMMAND_LINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elastic_fsm.config.layers import Layers
    from elastic_fsm.problems import Problem


__all__ = ["Composed"]


class Composed:
    """One resolved and checked run.

    ``values`` is a plain nested dict: references resolved, durations in seconds, signals by
    their full names. It shares nothing with Hydra's objects. ``secrets`` are texts to be hidden
    in whatever is shown or saved of the run.
    """

    def __init__(
        self, values: dict[str, Any], *, layers: Layers, secrets: tuple[str, ...] = ()
    ) -> None:
        self.values = values
        self.secrets = secrets
        self._layers = layers

    def with_command(self, command: Sequence[str], *, module: bool) -> Composed:
        """The same run with a command that was typed at the end of the line, word for word."""
        typed = {"entrypoint": command[0], "args": list(command[1:]), "module": module}
        values = self.values | {"spec": self.values["spec"] | typed}
        secrets = secrets_of(list(command), known=self.secrets)
        return Composed(values, layers=self._layers, secrets=secrets)

    @cached_property
    def config(self) -> RunConfig:
        """The same values as dataclasses; ``machine`` stays a dict."""
        blank = RunConfig()
        return RunConfig(**{f.name: self._part(f.name, blank) for f in fields(RunConfig)})

    def _part(self, name: str, blank: RunConfig) -> Any:
        default, value = getattr(blank, name), self.values[name]
        return value if isinstance(default, dict | list | str | None) else type(default)(**value)

    @cached_property
    def _origins(self) -> dict[str, str]:
        from elastic_fsm.config.origins import origins

        return origins(self._layers)

    def origin(self, path: str) -> str:
        """Where the value at a dotted path came from.

        ``file:line``; ``command line:`` and the word as it was typed; ``the calling program``;
        or ``default``.
        """
        return self._origins.get(path, "default")

    def locate(self, problem: Problem) -> Problem:
        """The finding with its place filled in: of its path, else of what it stands in."""
        path = place_in_lists(problem.path, self.values.get("machine"))
        while path and not problem.where:
            if where := self._origins.get(path):
                return problem._replace(where=_short(where, problem.path))
            path = path.rpartition(".")[0]
        return problem

    def masked(self) -> dict[str, Any]:
        """A copy of ``values`` with secrets hidden, to show or save."""
        masked: dict[str, Any] = hide(self.values, self.secrets)
        return masked

    def to_yaml(self, *, origin: bool = False) -> str:
        """The masked values as YAML; with ``origin`` each with the place it came from."""
        from elastic_fsm.config.emit import to_yaml

        return to_yaml(self.masked(), self._masked_origin if origin else None)

    def _masked_origin(self, path: str) -> str:
        where = self.origin(path)
        if where in self._secret_words:
            return f"{where.partition('=')[0]}={MASK}"
        return str(hide(where, self.secrets))

    @cached_property
    def _secret_words(self) -> set[str]:
        """Words of the command line that set something secret, and so hold it themselves."""
        pairs = zip(leaves(self.values), leaves(self.masked()), strict=True)
        hidden = (".".join(map(str, path)) for (path, plain), (_, shown) in pairs if plain != shown)
        return {where for where in map(self.origin, hidden) if where.startswith(COMMAND_LINE)}


def _short(where: str, path: str) -> str:
    """The word of a command line is not repeated where the path already says it."""
    place, _, word = where.partition(": ")
    named = word.lstrip("+").startswith(f"{path}=")
    return place if place == COMMAND_LINE and named else where
