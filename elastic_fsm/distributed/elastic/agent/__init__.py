"""The names of ``torch.distributed.elastic.agent``."""
