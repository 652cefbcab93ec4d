"""Damaged and malicious model folders either load or raise a ReleaseError with one sentence."""

import gzip
import json
import shutil
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import InvalidCheckpoint, InvalidConfig, ReleaseError, ReleaseIncomplete
from engine.families.s2.dual_ar import load_dual_ar, read_config
from engine.families.s2.release import S2Release
from engine.release.profile import Profile
from engine.text.english.pronunciation import Lexicon
from engine.text.tokenizer import Tokenizer
from tests.attack.inputs import releases
from tests.paths import BUNDLED, MINIATURE


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINIATURE, tmp_path / "release"))


def rewrite_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_crafted_releases_load_or_raise() -> None:
    for case in islice(releases.crafted(), 0, None, 12):
        releases.run(case)


@pytest.mark.filterwarnings(
    "ignore:invalid escape sequence:DeprecationWarning"
)  # from the standard library's pickletools
def test_random_mutations_load_or_raise() -> None:
    for case in releases.damaged_releases(seed=0, count=20):
        releases.run(case)


@pytest.mark.parametrize("place", ["../release/model-00001-of-00002.safetensors", "/etc/passwd", "..", "", 7, None, []])
def test_index_must_name_files_in_its_own_folder(release: Path, place: object) -> None:
    index = release / "model.safetensors.index.json"
    weights = json.loads(index.read_text())["weight_map"]
    rewrite_json(index, weight_map={**weights, next(iter(weights)): place})
    with pytest.raises(InvalidConfig, match="which is not a file of tensors in its folder"):
        load_dual_ar(release, dtype=torch.float32, device="cpu")


@pytest.mark.parametrize("weights", [None, [], 3, {}, "x"])
def test_index_must_have_a_weight_map(release: Path, weights: object) -> None:
    rewrite_json(release / "model.safetensors.index.json", weight_map=weights)
    with pytest.raises(InvalidConfig, match="no weight_map"):
        load_dual_ar(release, dtype=torch.float32, device="cpu")


def test_oversized_config_is_rejected_before_allocation(release: Path) -> None:
    config = json.loads((release / "config.json").read_text())
    tracemalloc.start()
    try:
        for name in ("n_layer", "vocab_size", "max_seq_len"):
            rewrite_json(release / "config.json", text_config={**config["text_config"], name: 1 << 31})
            with pytest.raises(InvalidConfig, match=f"{name} = 2147483648"):
                read_config(release)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [None, 0, 1 << 31, "256", 1.5])
def test_codebook_size_must_be_within_bounds(release: Path, size: object) -> None:
    for name, data in releases._release("s1").items():
        (release / name).write_bytes(data)
    (release / "tokenizer.json").unlink()
    rewrite_json(release / "config.json", codebook_size=size)
    with pytest.raises(InvalidConfig, match="codebook_size = "):
        read_config(release)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("max_segment_bytes", value) for value in (None, "72", 0, -1, 1 << 40, True, [])),
        *(("max_segment_sentences", value) for value in ("1", 0, -1, 1 << 40, True, [])),
        *(("max_segment_turns", value) for value in (None, "1", 0, 1 << 40, True, [])),
        *(("context_positions", value) for value in (None, "x", -1, 1 << 40, 1.5)),
        *(("postfilter", value) for value in (None, 1, "yes")),
        *(("style_tags", value) for value in (None, 0, "yes")),
        *(("temperature", value) for value in (None, "x", -1, 9, True, [])),
        *(("notice", value) for value in (None, 3, [], "x" * 2_001)),
    ],
)
def test_profile_values_must_have_valid_type_and_range(tmp_path: Path, name: str, value: object) -> None:
    (tmp_path / "reprise.json").write_text(json.dumps({name: value}))
    with pytest.raises(InvalidConfig, match=f"reprise.json has {name} = "):
        Profile.load(tmp_path)


def test_profile_temperature_may_be_zero(tmp_path: Path) -> None:
    (tmp_path / "reprise.json").write_text('{"temperature": 0}')
    assert Profile.load(tmp_path).temperature == 0


@pytest.mark.parametrize(
    "content",
    [
        b'{"version": 1}',
        b'{"version": 1, "words": [], "letters": {}}',
        b'{"version": 1, "words": {"a": 3}, "letters": {}}',
        b'{"version": 1, "words": {}, "letters": null}',
        b"[" * 100_000,
        bytes(80 << 20),
    ],
)
def test_malformed_lexicon_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lexicon.json.gz").write_bytes(gzip.compress(content, 1))
    with pytest.raises(InvalidConfig, match=r"lexicon lexicon\.json\.gz"):
        Lexicon.load(tmp_path / "lexicon.json.gz")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer.tiktoken", b"YQ== 0 1\n"),
        ("tokenizer.tiktoken", b"YQ==\n"),
        ("tokenizer.tiktoken", b"YQ== x\n"),
        ("tokenizer.tiktoken", b"Y 0\n"),
        ("tokenizer.tiktoken", b"YQ== 0\nYg== 0\n"),
        ("tokenizer.tiktoken", b"YQ== -1\n"),
        ("tokenizer.tiktoken", b"YQ== 9999999999999999999999\n"),
        ("special_tokens.json", b"[]"),
        ("special_tokens.json", b'{"<|im_end|>": "x"}'),
        ("special_tokens.json", b'{"<|im_end|>": null}'),
        ("special_tokens.json", b'{"<|im_end|>": 1e9}'),
        ("special_tokens.json", b'{"<|im_end|>": 3, "<|im_start|>": 3}'),
    ],
)
def test_malformed_token_list_is_rejected(tmp_path: Path, file: str, content: bytes) -> None:
    for name in ("tokenizer.tiktoken", "special_tokens.json"):
        (tmp_path / name).write_bytes(releases._release("s1")[name])
    (tmp_path / file).write_bytes(content)
    with pytest.raises(ReleaseError):
        Tokenizer.load(tmp_path)


def test_empty_token_of_a_token_list_is_skipped(tmp_path: Path) -> None:
    """S1's tools write "=" for it. Its rank may be the id of a special token."""
    tokens, special = (releases._release("s1")[name] for name in ("tokenizer.tiktoken", "special_tokens.json"))
    taken = json.loads(special)["<|im_start|>"]
    (tmp_path / "tokenizer.tiktoken").write_bytes(tokens + f"= {taken}\n".encode())
    (tmp_path / "special_tokens.json").write_bytes(special)
    assert Tokenizer.load(tmp_path).encode("a<|im_start|>") == [97, taken]


def test_tokenizer_with_too_many_entries_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b'{"model": [' + b"0," * 3_100_000 + b"0]}")
    with pytest.raises(InvalidCheckpoint, match="too many entries"):
        Tokenizer.load(tmp_path)


def test_phonetic_tokenizer_needs_its_lexicon(tmp_path: Path) -> None:
    """Without it, each word would be the same unknown token."""
    release = shutil.copytree(BUNDLED, tmp_path / "release", ignore=shutil.ignore_patterns("lexicon*"))
    with pytest.raises(ReleaseIncomplete, match=r"no lexicon\.json\.gz"):
        S2Release(Path(release))


def test_tokenizer_padding_is_ignored(release: Path) -> None:
    padding = {"strategy": {"Fixed": 1 << 30}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    rewrite_json(release / "tokenizer.json", padding={**padding, "pad_type_id": 0, "pad_token": "x"})
    assert len(Tokenizer.load(release).encode("hi")) == 2


def test_tokens_beyond_the_vocabulary_are_rejected(release: Path) -> None:
    config = json.loads((release / "config.json").read_text())
    rewrite_json(release / "config.json", text_config={**config["text_config"], "vocab_size": 656})
    read = json.loads((release / "tokenizer.json").read_text())
    highest = max(token["id"] for token in read["added_tokens"])
    extra = {**read["added_tokens"][0], "id": highest + 1_000, "content": "<|more|>"}
    rewrite_json(release / "tokenizer.json", added_tokens=[*read["added_tokens"], extra])
    with pytest.raises(InvalidCheckpoint, match="vocabulary ends at 655"):
        read_config(release)
