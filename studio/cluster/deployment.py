"""Connecting to a Ray cluster, or starting one on this machine, and deploying the engine on it."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from engine.engine import CPU_SLOTS, GPU_SLOTS
from engine.errors import EngineFailed, first_line
from engine.options import QUEUE
from engine.serving.device import use_container_cores
from studio.cluster import autoscaling
from studio.cluster.engine import ClusterEngine
from studio.cluster.messages import DeploymentSettings

if TYPE_CHECKING:
    from ray.serve import Application


ANY_CLUSTER, NEW_CLUSTER = "auto", "local"  # addresses on this machine; see `connect`
APPLICATION = "reprise"
ROOT = Path(__file__).resolve().parents[2]
DRAIN_SECONDS = 120.0  # for the speeches of a replica to end before it is stopped
STATS_SECONDS = 1.0  # between two reports of a replica
HEALTH_SECONDS = 5.0
HEAD_PORT, CONNECT_SECONDS = 6379, 10.0  # Ray's default; for a connection to the head
# Serve's states of a deployment that another process can use: also while it replaces a dead replica (UNHEALTHY), and
# while it loads or updates replicas (DEPLOYING).
_ATTACHABLE = ("RUNNING", "UNHEALTHY", "DEPLOYING")
# By default, Ray ends a program a minute after it loses the head. Reprise keeps running and shows an error.
_RECONNECT_VARIABLE, _RECONNECT_SECONDS = "RAY_gcs_rpc_server_reconnect_timeout_s", str(10 * 365 * 24 * 3600)
_PUSH_VARIABLE = "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S"
# Read when Ray is imported. Otherwise Serve's threads, which outlive a connection, would start a cluster of their own.
os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")


def connect(
    address: str,
    settings: DeploymentSettings,
    *,
    attach: bool = False,
    cpus: int | None = None,
    gpus: int | None = None,
) -> ClusterEngine:
    """Connect to the cluster, deploy the engine unless it is deployed with these settings, and wait until it is ready.

    A deployment with other settings is replaced replica by replica; running speeches end on the old ones. The
    deployment stays when the engine is closed, unless the cluster was started here. Raises EngineFailed.

    address: of a cluster (`HOST:PORT`); `auto` uses a cluster on this machine if one runs, else starts one for this
        process, as `local` always does.
    attach: use a running deployment whatever its settings are.
    cpus, gpus: of a new cluster; None for those of the machine.
    """
    import ray
    from ray import serve

    use_container_cores()  # of this process, which examines clips
    started = _connect(ray, address, cpus, gpus)
    try:
        serve.start(proxy_location="Disabled", logging_config={"enable_access_log": False, "log_level": "WARNING"})
        handle = _deploy(serve, settings, attach=attach)
        host, _, port = ray.get_runtime_context().gcs_address.rpartition(":")

        def close(lost: bool) -> None:
            if started and not lost:
                serve.shutdown()  # waits up to DRAIN_SECONDS for speeches
            ray.shutdown()

        return ClusterEngine(handle, (host, int(port)), close)
    except EngineFailed:
        ray.shutdown()
        raise
    except Exception as error:
        ray.shutdown()
        raise EngineFailed("cluster.not_deployed", why=first_line(error)) from error


def _connect(ray: Any, address: str, cpus: int | None, gpus: int | None) -> bool:
    """Connect to a cluster or start one; return whether one was started. Raises EngineFailed."""
    if address not in (ANY_CLUSTER, NEW_CLUSTER):
        _check_reachable(address)
    os.environ.setdefault(_RECONNECT_VARIABLE, _RECONNECT_SECONDS)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: any other program would delay speech
    # Lets Ray's processes on this machine import Reprise. Other machines need it in the same folder.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": APPLICATION}
    if address != NEW_CLUSTER:
        try:
            ray.init(address, **quiet)
            return False
        except (ConnectionError, RuntimeError, ValueError) as error:
            if address != ANY_CLUSTER:
                raise EngineFailed("cluster.unreachable", address=address) from error
    try:
        ray.init(NEW_CLUSTER, num_cpus=cpus, num_gpus=gpus, include_dashboard=False, **quiet)
    except Exception as error:  # of no other class if its processes do not start in time
        ray.shutdown()
        raise EngineFailed("cluster.not_deployed", why=first_line(error)) from error
    return True


def _check_reachable(address: str) -> None:
    """Raise EngineFailed unless the head can be reached: Ray would try for as long as `_RECONNECT_SECONDS`."""
    try:
        head = urlsplit(address if "://" in address else f"ray://{address}")
        with socket.create_connection((head.hostname or "", head.port or HEAD_PORT), CONNECT_SECONDS):
            return
    except (OSError, ValueError) as error:
        raise EngineFailed("cluster.unreachable", address=address) from error


def _deploy(serve: Any, settings: DeploymentSettings, *, attach: bool) -> Any:
    """Deploy the engine if needed; return the deployment's handle. Raises EngineFailed."""
    settings = _with_gpus(settings)
    found = serve.status().applications.get(APPLICATION)
    status = None if found is None else found.status
    if attach and status in _ATTACHABLE:
        return serve.get_app_handle(APPLICATION)
    if status == "RUNNING":
        handle = serve.get_app_handle(APPLICATION)
        if handle.properties.remote().result(timeout_s=30).settings == settings:
            return handle
    try:
        return serve.run(application(settings), name=APPLICATION, route_prefix=None)
    except RuntimeError as error:
        raise EngineFailed("cluster.not_deployed", why=first_line(error)) from error


def _with_gpus(settings: DeploymentSettings) -> DeploymentSettings:
    """Return the settings with the number of GPUs per replica filled in."""
    import ray

    if settings.gpus is not None:
        return settings
    found = ray.cluster_resources().get("GPU", 0) >= 1 and settings.engine.device != "cpu"
    return replace(settings, gpus=float(found))


def application(settings: DeploymentSettings) -> Application:
    """Return the application for Serve: one deployment of replicas."""
    import ray
    from ray import serve
    from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig

    from studio.cluster import router
    from studio.cluster.replica import EngineReplica

    # Serve's own processes then need no code of Reprise.
    ray.cloudpickle.register_pickle_by_value(router)
    ray.cloudpickle.register_pickle_by_value(autoscaling)
    slots = settings.engine.slots or (GPU_SLOTS if settings.gpus else CPU_SLOTS)
    least, most = settings.replicas
    deployment = serve.deployment(EngineReplica).options(
        name="engine",
        ray_actor_options={
            "num_cpus": settings.cpus,
            "num_gpus": settings.gpus,
            "runtime_env": {"env_vars": {"PYTHONPATH": str(ROOT), _PUSH_VARIABLE: str(STATS_SECONDS)}},
        },
        max_ongoing_requests=slots + QUEUE,  # the engine's own queue gives owners equal shares
        max_queued_requests=QUEUE,  # in each client process, when all replicas are full
        autoscaling_config=AutoscalingConfig(
            min_replicas=least,
            initial_replicas=least,
            max_replicas=most,
            look_back_period_s=15.0,
            upscale_delay_s=5.0,
            downscale_delay_s=300.0,
            policy=AutoscalingPolicy(policy_function=autoscaling.policy),
        ),
        request_router_config=RequestRouterConfig(
            request_router_class=router.VoiceRouter, request_routing_stats_period_s=STATS_SECONDS
        ),
        graceful_shutdown_timeout_s=DRAIN_SECONDS,
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=HEALTH_SECONDS,
        max_constructor_retry_count=1,
    )
    return deployment.bind(settings)
