"""torch's HashStore without torch: keys and values in memory, for agents that share a process."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["HashStore"]


class HashStore:
    """Keys and values in memory; safe from any thread.

    Values are given as text or bytes and come back as bytes. Reading a key that is not there
    waits for it, up to ``timeout``, and then raises ``TimeoutError``.
    """

    def __init__(self, timeout: timedelta = timedelta(minutes=5)) -> None:
        self.timeout = timeout
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def set_timeout(self, timeout: timedelta) -> None:
        """How long reading waits from now on."""
        self.timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Write a value."""
        self._write(lambda: {key: _as_bytes(value)})

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Write several values at once."""
        self._write(lambda: dict(zip(keys, map(_as_bytes, values), strict=True)))

    def get(self, key: str) -> bytes:
        """The value of a key."""
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys, once all are there."""
        with self._changed:
            self._wait(keys, self.timeout)
            return [self._values[key] for key in keys]

    def add(self, key: str, amount: int) -> int:
        """Count a key up, from 0 where it is new; what it is then."""
        written = self._write(lambda: {key: b"%d" % (int(self._values.get(key, 0)) + amount)})
        return int(written[key])

    def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
        """Write a key if it has the expected value; what it has then.

        An empty ``expected`` stands for a key that is not there. For another that is not there
        either, what comes back is ``expected``.
        """
        before, wanted = _as_bytes(expected), _as_bytes(desired)

        def change() -> dict[str, bytes]:
            return {key: wanted} if self._values.get(key, b"") == before else {}

        with self._changed:
            self._write(change)
            return self._values.get(key, before)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all the keys are there."""
        with self._changed:
            self._wait(keys, self.timeout if timeout is None else timeout)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all the keys are there."""
        with self._changed:
            return all(key in self._values for key in keys)

    def delete_key(self, key: str) -> bool:
        """Delete a key; whether there was one."""
        with self._changed:
            return self._values.pop(key, None) is not None

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._values)

    def _write(self, change: Callable[[], dict[str, bytes]]) -> dict[str, bytes]:
        with self._changed:
            written = change()
            self._values.update(written)
            self._changed.notify_all()
            return written

    def _wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        seconds = timeout.total_seconds()
        if not self._changed.wait_for(lambda: self.check(keys), seconds):
            missing = [key for key in keys if key not in self._values]
            raise TimeoutError(f"nobody wrote {', '.join(missing)} within {seconds:g} s")


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
