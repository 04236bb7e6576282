"""A node over one of torch's handlers, in a process of its own; a pipe leads there.

What it is told: ``("join", 3)``, ``("barrier", 3)``, ``("leave",)``, ``("shutdown",)``,
``("count_spares",)``, ``("end",)``, ``("quit",)``. What it tells: the events.
"""

from __future__ import annotations

import logging
import os
import threading
from datetime import timedelta
from types import SimpleNamespace

from elastic_fsm.clock import SystemClock
from elastic_fsm.distributed.elastic.rendezvous import (
    RendezvousParameters,
    rendezvous_handler_registry,
)
from elastic_fsm.events import Event
from elastic_fsm.group import WorkerSpec
from elastic_fsm.loop import Loop
from elastic_fsm.rendezvous.closing import shut_down
from elastic_fsm.rendezvous.over_handler import HandlerRendezvous
from elastic_fsm.server.local import LocalElasticAgent
from elastic_fsm.server.simple import SimpleElasticAgent
from elastic_fsm.world import Node


class Seat:
    def __init__(self, name, pipe, parameters, options):
        params = RendezvousParameters(*parameters, local_addr="127.0.0.1", **options)
        self.pipe = pipe
        self.handler = rendezvous_handler_registry.create_handler(params)
        self.node = Node(name, "trainer", 2, "127.0.0.1")
        self.loop = Loop(SystemClock())
        self.port = HandlerRendezvous(self.loop, self.handler, interval=0.02)

    def obey(self):
        word = ""
        while word != "quit":
            word, *numbers = self.pipe.recv()
            self.loop.call_soon(lambda word=word, numbers=numbers: self.do(word, *numbers))

    def do(self, word, *numbers):
        if word == "join":
            self.port.join(self.node, *numbers)
        elif word == "shutdown":
            self.port.close()
            self.loop.post(Event("shut_down", {"worked": self.handler.shutdown()}))
        elif word == "count_spares":
            self.handler.is_closed()  # reads what the nodes share
            spares = len(self.handler._state_holder.state.redundancy_list)
            self.loop.post(Event("counted", {"spares": spares}))
        elif word == "end":
            shut_down(self.handler)
            os._exit(0)  # and with it the store that it may serve
        elif word == "quit":
            self.loop.post(Event("quit"))
        else:
            getattr(self.port, word)(*numbers)

    def run(self):
        threading.Thread(target=self.obey, daemon=True).start()
        self.pipe.send(Event("ready"))
        while (event := self.loop.next_event()).name != "quit":
            self.pipe.send(event)
        self.port.close()


class Coarse(SimpleElasticAgent):
    """Only meets the others."""

    def _start_workers(self, worker_group): ...

    def _stop_workers(self, worker_group): ...

    def _monitor_workers(self, worker_group): ...

    def _shutdown(self, death_sig=None, timeout=30): ...


class CoarseSeat(Seat):
    """Agrees by the methods of a ``SimpleElasticAgent``, which block: ``("join", 3)``."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        spec = WorkerSpec("trainer", 2, self.handler, entrypoint="train", local_addr="127.0.0.1")
        self.agent = Coarse(spec)

    def do(self, word, *numbers):
        if word != "join":
            return super().do(word, *numbers)
        group = self.agent.get_worker_group()
        self.agent._rendezvous(group)
        found = {
            "ranks": [worker.global_rank for worker in group.workers],
            "place": (group.master_addr, group.master_port),
        }
        self.loop.post(Event("agreed", found))
        return None


def run_node(*arguments):
    Seat(*arguments).run()


def run_coarse_node(*arguments):
    CoarseSeat(*arguments).run()


class Quick:
    """A handler of whose nodes one is missed soon."""

    settings = SimpleNamespace(keep_alive_interval=timedelta(seconds=0.1), keep_alive_max_attempt=5)

    def __init__(self, handler):
        self._handler = handler

    def __getattr__(self, name):
        return getattr(self._handler, name)


class Told(logging.Handler):
    """Sends what is logged through a pipe."""

    def __init__(self, pipe):
        super().__init__()
        self._pipe = pipe

    def emit(self, record):
        self._pipe.send(Event("logged", {"line": record.getMessage()}))


def run_agent(name, pipe, parameters, options):
    """A whole agent, whose workers only sleep; it tells the lines of its log."""
    params = RendezvousParameters(*parameters, local_addr="127.0.0.1", **options)
    handler = Quick(rendezvous_handler_registry.create_handler(params))
    log = logging.getLogger("elastic_fsm")
    log.setLevel(logging.INFO)
    spec = WorkerSpec("trainer", 1, handler, entrypoint="/bin/sleep", args=("1000",))
    pipe.send(Event("ready"))
    log.addHandler(Told(pipe))
    LocalElasticAgent(spec, overrides=[f"run_dir={options['run_dir']}"]).run()
