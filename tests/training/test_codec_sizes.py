"""Sizes and files of the bundled codec."""

from pathlib import Path

import torch

from engine.families.s2.codec import codec_files
from engine.release.hub import BUNDLED
from training.codec.sizes import bundled_codec_config, write_codec


def test_sizes_are_those_of_the_bundled_codec() -> None:
    assert codec_files(BUNDLED)[1] == bundled_codec_config()


def test_written_codec_is_readable_by_all(tmp_path: Path) -> None:
    write_codec(tmp_path / "codec", {"weight": torch.zeros(2, 2).T}, bundled_codec_config())
    file, config = codec_files(tmp_path / "codec")
    assert config == bundled_codec_config()
    assert file.stat().st_mode & 0o777 == 0o644
