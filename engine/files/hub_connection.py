"""Whether the Hugging Face Hub can be reached."""

import threading

ANSWER_SECONDS = 10.0


def hub_answers(repo: str, token: str | None = None) -> bool:
    """Return whether the Hub answers a question about a repository in time.

    A download from it waits for an answer without end, also if nothing is missing.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    answered = threading.Event()

    def ask() -> None:
        try:
            HfApi().model_info(repo, token=token, timeout=ANSWER_SECONDS)
        except HfHubHTTPError:  # an answer
            pass
        except (client_error(), OSError):
            return
        answered.set()

    asking = threading.Thread(target=ask, name="reprise-hub", daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)  # a timeout of the request holds for each address of the Hub
    return answered.is_set()


def client_error() -> type[Exception]:
    """Return the base class of the errors of the Hub's HTTP client. Which client it is depends on the version."""
    from huggingface_hub.errors import HfHubHTTPError

    found: type[Exception] = next(
        base for base in HfHubHTTPError.__mro__ if base.__name__ in ("HTTPError", "RequestException")
    )
    return found
