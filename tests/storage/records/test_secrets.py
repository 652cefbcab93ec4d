"""Server secrets: created once and shared by all processes on the database."""

from concurrent.futures import ThreadPoolExecutor

from storage import Storage
from tests.storage.making import open_voices


def test_secret_is_created_once_and_persists(url: str) -> None:
    with open_voices(url) as library:
        secret = library.secret("signing")
        assert len(secret) == 32
        assert library.secret("signing") == secret
        assert library.secret("another") != secret
    with open_voices(url) as again:
        assert again.secret("signing") == secret


def test_concurrent_libraries_get_the_same_secret(url: str) -> None:
    storages = [Storage.open(url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for name in ("first", "second", "third"):
            asked = [pool.submit(storage.voices.secret, name) for storage in storages]
            assert len({secret.result() for secret in asked}) == 1
    for storage in storages:
        storage.close()
