"""What is filled in in the arguments of workers; names and meaning are those of
``torch.distributed.elastic.utils.macros``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["macros"]


class macros:
    """Words that stand for what each worker has of its own."""

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: Iterable[Any], local_rank: str) -> list[Any]:
        """The arguments of one worker; those that are no text stay as they are."""
        return [
            arg.replace(macros.local_rank, local_rank) if isinstance(arg, str) else arg
            for arg in args
        ]
