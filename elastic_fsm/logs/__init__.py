"""The workers' log files, and the one thread that owns the console."""
