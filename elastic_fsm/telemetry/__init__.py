"""Event records and metrics with torch's names, made from what the agent's journal says."""
