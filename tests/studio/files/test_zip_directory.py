"""The length of a ZIP file's directory, by the record that `zipfile` uses."""

import io
import zipfile

import pytest

from studio.files.zip_directory import has_short_directory

LOCATOR = b"PK\x06\x07" + bytes(16)


class Observed(io.BytesIO):
    """A file that records the sizes that are read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.sizes: list[int | None] = []

    def read(self, size: int | None = -1) -> bytes:
        self.sizes.append(size)
        return super().read(size)


def archive(comment: bytes = b"") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        written.writestr("name", b"PK\x05\x06 in its content")
        written.comment = comment
    return file.getvalue()


@pytest.mark.parametrize(
    "comment", [b"", b"A comment.", b"PK\x05\x06" + bytes(18), b"PK\x05\x06" + bytes(17) + b"!", b"x" * 65_535]
)
def test_length_is_what_zipfile_reads(comment: bytes) -> None:
    file = Observed(archive(comment))
    zipfile.ZipFile(file).close()
    length = file.sizes[-1]
    assert length is not None
    assert has_short_directory(file, length)
    assert not has_short_directory(file, length - 1)


def test_zip64_counts_as_long_and_a_file_without_an_end_as_short() -> None:
    data = archive()
    for comment in (b"", b"x" * 65_535):
        end = archive(comment)[len(data) - 22 :]
        assert not has_short_directory(io.BytesIO(data[:-22] + LOCATOR + end), 1 << 30)
    for other in (b"", b"PK", data[:20], b"nothing of a ZIP file"):
        assert has_short_directory(io.BytesIO(other), 0)


def test_end_within_the_end_is_not_taken_for_it() -> None:
    file = io.BytesIO(b"PK\x05\x06" + bytes(4) + b"PK\x05\x06" + b"\xff\xff\xff\x7f" + bytes(6))
    assert not has_short_directory(file, 1 << 30)
