"""Routing to replicas that have a voice cached.

This module is pickled by value for Serve's processes, so it must not import other modules of Reprise.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from ray.serve.request_router import FIFOMixin, PendingRequest, ReplicaID, RequestRouter, RunningReplica

REMEMBERED = 10_000  # voices
SPILL = 4  # additional requests, over the least loaded replica, up to which a replica with the voice is preferred


class VoiceRouter(FIFOMixin, RequestRouter):  # type: ignore[misc, unused-ignore]
    """Prefers replicas with the request's voice in their KV cache, then the least loaded, and among these the ones that
    have been sent the fewest voices.

    A request names its voice in the keyword argument `voice_key`. Replicas report the voices that they have prefilled
    (`record_routing_stats`); the router also remembers where it has sent a voice since.
    """

    def initialize_state(self, **_: Any) -> None:
        """Initialise the router. Serve calls it once."""
        self._sent: OrderedDict[str, set[ReplicaID]] = OrderedDict()
        self._voices: Counter[ReplicaID] = Counter()  # number of voices in `_sent`

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return ranks of replicas. Serve chooses the shortest queue in the first rank with room."""
        if not candidate_replicas:
            return []
        key = pending_request.kwargs.get("voice_key", "") if pending_request else ""
        load = {
            replica.replica_id: self.replica_queue_len_cache.get(replica.replica_id) or 0
            for replica in candidate_replicas
        }
        least = min(load.values())
        sent = self._sent.get(key, set()) if key else set()
        holders = [
            replica
            for replica in candidate_replicas
            if key
            and (replica.replica_id in sent or key in (replica.routing_stats or {}).get("voices", ()))
            and load[replica.replica_id] <= least + SPILL
        ]

        def cost(replica: RunningReplica) -> tuple[int, int]:
            return load[replica.replica_id], self._voices[replica.replica_id]

        others = sorted((each for each in candidate_replicas if each not in holders), key=cost)
        best = [each for each in others if cost(each) == cost(others[0])]
        return [rank for rank in (holders, best, others[len(best) :]) if rank]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """Remember the replica that the voice was sent to."""
        if key := pending_request.kwargs.get("voice_key", ""):
            replicas = self._sent.setdefault(key, set())
            self._voices[replica_id] += replica_id not in replicas
            replicas.add(replica_id)
            self._sent.move_to_end(key)
            while len(self._sent) > REMEMBERED:
                _, forgotten = self._sent.popitem(last=False)
                self._voices.subtract(forgotten)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Forget the voices of the replica."""
        super().on_replica_actor_died(replica_id)
        for replicas in self._sent.values():
            replicas.discard(replica_id)
        del self._voices[replica_id]
