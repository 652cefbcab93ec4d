"""The engine on a cluster: replicas of it as a Ray Serve deployment, behind the interface of an engine in this process.

    ClusterEngine ── VoiceRouter ──→ EngineReplica (Engine) × n
                                     autoscaling by queued seconds of audio

engine.py       ClusterEngine: what the faces call; speaks on where a replica died
router.py       sends a request to a replica that has read its voice before, else to the least loaded
replica.py      EngineReplica: one engine of the deployment, with its metrics and health
autoscaling.py  how many replicas the queue needs
deployment.py   connects to a cluster or starts one, and deploys
messages.py     what goes over the wire

Ray is optional (`pip install -r requirements-extra.txt`) and imported when a cluster is asked for.
"""
