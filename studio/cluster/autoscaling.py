"""How many replicas the queue needs.

This module is sent to Serve's controller by value, so it imports nothing of ours.
"""

from __future__ import annotations

from math import ceil
from typing import Any

QUEUED_SECONDS = "queued_seconds"  # what replicas report: seconds of audio that wait
BUSY = "busy"  # and their requests under way, per slot
TARGET_SECONDS = 10.0  # of waiting audio per replica
TARGET_BUSY = 0.8


def replicas_for(queued: list[float], busy: list[float], running: int) -> int:
    """The number of replicas for what each of those running reports.

    One more for every TARGET_SECONDS of audio that wait; fewer when nothing waits and the rest could take the load.
    """
    waiting = sum(queued)
    if waiting > 0:
        return running + ceil(waiting / TARGET_SECONDS / max(running, 1))
    return max(1, ceil(sum(busy) / TARGET_BUSY))


def policy(context: Any) -> tuple[int, dict[str, Any]]:
    """The policy of the deployment, for Serve's AutoscalingContext."""
    metrics = context.aggregated_metrics or {}
    queued, busy = (list((metrics.get(name) or {}).values()) for name in (QUEUED_SECONDS, BUSY))
    running = context.current_num_replicas
    wanted = replicas_for(queued, busy, running) if busy else running
    least, most = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
    return min(max(wanted, least), most), {}
