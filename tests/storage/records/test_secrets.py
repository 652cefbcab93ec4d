"""Server secrets: created once and shared by all processes on the database."""

from concurrent.futures import ThreadPoolExecutor

from storage import VoiceLibrary


def test_secret_is_created_once_and_persists(url: str) -> None:
    with VoiceLibrary.open(url) as library:
        secret = library.secret("signing")
        assert len(secret) == 32
        assert library.secret("signing") == secret
        assert library.secret("another") != secret
    with VoiceLibrary.open(url) as again:
        assert again.secret("signing") == secret


def test_concurrent_libraries_get_the_same_secret(url: str) -> None:
    libraries = [VoiceLibrary.open(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for name in ("first", "second", "third"):
            asked = [pool.submit(library.secret, name) for library in libraries]
            assert len({secret.result() for secret in asked}) == 1
    for library in libraries:
        library.close()
