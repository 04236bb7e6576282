"""``elastic-fsm torchrun``: torchrun's command line, put into words of ``elastic-fsm run``."""
