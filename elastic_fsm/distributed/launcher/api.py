"""The names of ``torch.distributed.launcher.api``."""

from __future__ import annotations

from elastic_fsm.server.launching import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
