"""How workers are started, signalled and reaped."""
