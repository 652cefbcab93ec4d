"""The number of replicas that the queue needs.

This module is pickled by value for Serve's controller, so it must not import other modules of Reprise.
"""

from __future__ import annotations

from math import ceil
from typing import Any

QUEUED_SECONDS = "queued_seconds"  # metric of a replica: seconds of waiting audio
BUSY = "busy"  # metric of a replica: running and waiting requests per slot
TARGET_SECONDS = 10.0  # of waiting audio per replica
TARGET_BUSY = 0.8


def replicas_for(queued: list[float], busy: list[float], running: int) -> int:
    """Return the number of replicas. queued, busy: metrics of each replica. running: current number.

    While audio waits, one more for every TARGET_SECONDS of it per replica. Otherwise as many as keep their slots
    TARGET_BUSY busy.
    """
    waiting = sum(queued)
    if waiting > 0:
        return running + ceil(waiting / TARGET_SECONDS / max(running, 1))
    return max(1, ceil(sum(busy) / TARGET_BUSY))


def policy(context: Any) -> tuple[int, dict[str, Any]]:
    """Autoscaling policy of the deployment. context: Serve's AutoscalingContext."""
    metrics = context.aggregated_metrics or {}
    queued, busy = (list((metrics.get(name) or {}).values()) for name in (QUEUED_SECONDS, BUSY))
    running = context.current_num_replicas
    wanted = replicas_for(queued, busy, running) if busy else running
    least, most = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
    return min(max(wanted, least), most), {}
