"""Failures of calls to replicas, as Ray raises them, and how often a call is tried.

Ray is imported when they are needed, since it is optional.
"""

ATTEMPTS = 4  # of a call, each on another replica if there is one
RETRY_SECONDS = 0.5  # before the next attempt


def full_cluster() -> tuple[type[Exception], ...]:
    """Return the exceptions that Serve raises for a call when its queue is full."""
    from ray.serve.exceptions import BackPressureError

    return (BackPressureError,)


def lost_replica() -> tuple[type[Exception], ...]:
    """Return the exceptions that Ray raises for a replica that has died, is being replaced, or cannot be reached."""
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    return RayError, RayServeException
