"""The names of ``torch.distributed`` at its module paths, for a migration of one word."""
