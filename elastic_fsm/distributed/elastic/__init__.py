"""The names of ``torch.distributed.elastic`` at its module paths."""
