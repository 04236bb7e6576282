"""Whether the kernel's out-of-memory killer was at work: evidence for an unexplained SIGKILL."""

from __future__ import annotations

from pathlib import Path

__all__ = ["explain_sigkill", "oom_kills"]


def oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int | None:
    """Processes killed for lack of memory since the boot, those over a cgroup's limit included.

    None where the kernel does not count them.
    """
    try:
        lines = vmstat.read_text().splitlines()
    except OSError:
        return None
    counts = [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return counts[0] if counts else None


def explain_sigkill(before: int | None, now: int | None) -> str:
    """What the two counts, from the start of the workers and from a worker's death, tell."""
    if before is None or now is None:
        return "not sent by the agent"
    if now > before:
        kills = f"{now - before} process{'es' * (now - before != 1)}"
        return (
            "not sent by the agent: out of memory (the kernel's out-of-memory killer "
            f"ended {kills} of this machine since the workers were started)"
        )
    return "not sent by the agent, nor by the kernel's out-of-memory killer"
