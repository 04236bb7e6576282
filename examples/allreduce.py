"""Sum and broadcast arrays between the workers of one group, over plain TCP sockets.

A star: rank 0 listens at MASTER_ADDR:MASTER_PORT and every other rank keeps one connection to
it. A message is a length (8 bytes) and that many bytes of float64. Rank 0 adds the arrays in
rank order, so that the same run gives the same bits each time. Real training uses NCCL or gloo;
this is the least that shows what the variables of an agent are for.
"""

from __future__ import annotations

import os
import socket
import struct
import time

import numpy as np

LENGTH = struct.Struct("!Q")
HELLO = struct.Struct("!4sI")  # a magic word and the caller's rank
MAGIC = b"sum1"
# Longest wait for peers to come up, and for an answer from one that hangs.
TIMEOUT = 60.0
LONGEST_PAUSE = 0.25


class PeerLost(ConnectionError):
    """Another worker ended, or was silent for too long: this one cannot go on alone."""


class Group:
    """The connections of one worker; with a world of one there are none, and all calls are free."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self._peers: dict[int, socket.socket] = {}
        if self.world_size > 1:
            address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            self._peers = (
                _serve(address, self.world_size) if self.rank == 0 else _join(address, self.rank)
            )
        for peer in self._peers.values():
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A second descriptor that only the end of the process closes. An interpreter that
            # dies of an exception drops its sockets early on the way out; without this the
            # peers could fail, and exit, before the worker that is the cause.
            os.dup(peer.fileno())

    def sum(self, array: np.ndarray) -> np.ndarray:
        """The sum of all ranks' arrays, the same bits on every rank."""
        if self.rank != 0:
            self._send(0, array)
            return self._receive(0, array.shape)
        total = array.astype(np.float64)
        for rank in sorted(self._peers):
            total += self._receive(rank, array.shape)
        return self.broadcast(total)

    def broadcast(self, array: np.ndarray) -> np.ndarray:
        """Rank 0's array; the others' gives only the shape."""
        if self.rank != 0:
            return self._receive(0, array.shape)
        for rank in sorted(self._peers):
            self._send(rank, array)
        return array

    def _send(self, rank: int, array: np.ndarray) -> None:
        data = array.astype(np.float64, copy=False).tobytes()
        try:
            self._peers[rank].sendall(LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise PeerLost(f"rank {self.rank} lost rank {rank} while sending: {error}") from error

    def _receive(self, rank: int, shape: tuple[int, ...]) -> np.ndarray:
        array = np.empty(shape)
        try:
            (size,) = LENGTH.unpack(_read(self._peers[rank], LENGTH.size))
            if size != array.nbytes:
                raise ValueError(f"rank {rank} sent {size} bytes, expected {array.nbytes}")
            array.reshape(-1)[:] = np.frombuffer(_read(self._peers[rank], size))
        except OSError as error:
            raise PeerLost(f"rank {self.rank} lost rank {rank}: {error}") from error
        return array


def _read(peer: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = peer.recv_into(view)
        if count == 0:
            raise ConnectionError("the connection was closed")
        view = view[count:]
    return bytes(data)


def _serve(address: tuple[str, int], world_size: int) -> dict[int, socket.socket]:
    """Rank 0: wait until every other rank has called and said who it is."""
    peers: dict[int, socket.socket] = {}
    deadline = time.monotonic() + TIMEOUT
    try:
        listener = socket.create_server(address, backlog=world_size)  # sets SO_REUSEADDR
    except OSError as error:
        raise SystemExit(f"rank 0 cannot listen at {address}: {error}") from None
    with listener as server:
        while len(peers) < world_size - 1:
            server.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                peer, _ = server.accept()
                peer.settimeout(TIMEOUT)
                magic, rank = HELLO.unpack(_read(peer, HELLO.size))
            except TimeoutError:
                missing = sorted(set(range(1, world_size)) - set(peers))
                raise PeerLost(f"rank 0 waited {TIMEOUT:.0f} s for ranks {missing}") from None
            if magic == MAGIC and 0 < rank < world_size:
                peers[rank] = peer
            else:
                peer.close()  # a stranger
    return peers


def _join(address: tuple[str, int], rank: int) -> dict[int, socket.socket]:
    """Another rank: call rank 0, which may not listen yet."""
    deadline = time.monotonic() + TIMEOUT
    pause = 0.01
    while True:
        try:
            peer = socket.create_connection(address, timeout=TIMEOUT)
            # A call to a free local port can be answered by itself.
            if peer.getsockname() != peer.getpeername():
                peer.sendall(HELLO.pack(MAGIC, rank))
                return {0: peer}
            peer.close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise PeerLost(f"rank {rank} cannot reach rank 0 at {address}: {error}") from error
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
