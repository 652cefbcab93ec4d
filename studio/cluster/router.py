"""Routing to the replica that has read a voice before.

This module is sent to Serve's processes by value, so it imports nothing of ours.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from ray.serve.request_router import FIFOMixin, PendingRequest, ReplicaID, RequestRouter, RunningReplica

REMEMBERED = 10_000  # voices
SPILL = 4  # requests more than on the least loaded replica, beyond which a voice is read there as well


class VoiceRouter(FIFOMixin, RequestRouter):  # type: ignore[misc, unused-ignore]
    """Prefers replicas that have the keys and values of a request's voice, then the least loaded, and of these the one
    that has been sent the fewest voices.

    A request names its voice in the keyword argument `voice_key`. Replicas report the voices that they have read
    (`record_routing_stats`); the router also remembers where it has sent a voice since.
    """

    def initialize_state(self, **_: Any) -> None:
        """Called by Serve once."""
        self._sent: OrderedDict[str, set[ReplicaID]] = OrderedDict()
        self._voices: Counter[ReplicaID] = Counter()  # sent there and remembered

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return ranks of replicas; Serve takes from the first rank that has room the one with the shortest queue."""
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
        """Remember where the voice went."""
        if key := pending_request.kwargs.get("voice_key", ""):
            replicas = self._sent.setdefault(key, set())
            self._voices[replica_id] += replica_id not in replicas
            replicas.add(replica_id)
            self._sent.move_to_end(key)
            while len(self._sent) > REMEMBERED:
                _, forgotten = self._sent.popitem(last=False)
                self._voices.subtract(forgotten)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Forget what the replica had."""
        super().on_replica_actor_died(replica_id)
        for replicas in self._sent.values():
            replicas.discard(replica_id)
        del self._voices[replica_id]
