"""The agent as a Python library, with the classes of ``torch.distributed.elastic.agent.server``.

One engine drives them all: a ``SimpleElasticAgent`` runs on a coarse machine whose actions call
its overridable, blocking methods; a ``LocalElasticAgent`` runs on the same machines as
``elastic-fsm run``.
"""
