"""The engine on a cluster: a Ray Serve deployment of replicas with the interface of an engine in this process.

    ClusterEngine ── VoiceRouter ──→ EngineReplica (Engine) × n
                                     autoscaling by queued seconds of audio

engine.py       ClusterEngine: the client; continues a speech on another replica when one dies
router.py       routes a request to a replica that has its voice cached, else to the least loaded
replica.py      EngineReplica: one engine of the deployment, with its metrics and health
autoscaling.py  number of replicas for the queue
deployment.py   connects to a cluster or starts one, and deploys
messages.py     messages between ClusterEngine and replicas

Ray is optional (`pip install -r requirements-extra.txt`) and imported only when a cluster is used.
"""
