"""Export a trained model as a release: the files that the engine loads, in the layout of S2-Pro.

python -m training.export --work DIR --codec FOLDER --out assets/bundled
"""

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import torch

from engine.codec.fingerprint import codec_fingerprint
from engine.families.s2.codec import codec_files, load_codec_decoder
from engine.families.s2.config import DualARConfig
from engine.release.hub import BUNDLED
from engine.text.tokenizer import LEXICON_FILE, Tokenizer
from training.dual_ar.encode import CodeFormat
from training.dual_ar.model import ALIGNMENT_HEAD, ALIGNMENT_LAYER, bundled_config, save_release
from training.speech.lexicon import LEXICON
from training.work import DEFAULT_WORK, exit_with_message

# The longest text of one turn in bytes of UTF-8: the length of the longest training sentence.
MAX_SEGMENT_BYTES = 72
MAX_SEGMENT_SENTENCES = 1
# Turns end a fifth of a second after their last word, which is too short a pause between sentences.
SENTENCE_PAUSE = 0.25
# With a context of about ten seconds the model speaks all sentences of a long text; with forty it skips one in twenty.
CONTEXT_POSITIONS = 256
# Phone error rate on held-out sentences: 0.17 at this temperature, 0.20 at S2-Pro's 0.7.
TEMPERATURE = 0.5


def release_config(config: DualARConfig) -> dict[str, object]:
    """Return the content of the release's `config.json`, with S2-Pro's keys."""
    return {
        "model_type": "fish_qwen3_omni",
        "semantic_start_token_id": config.semantic_start_id,
        "semantic_end_token_id": config.semantic_end_id,
        "text_config": asdict(config.slow),
        "audio_decoder_config": asdict(config.fast) | {"num_codebooks": config.num_codebooks},
    }


def export(work: Path, codec: Path, out: Path) -> None:
    """Write a release into `out`. Raises TrainingError when the dual AR was not trained on the codes of the codec."""
    run = work / "ar"
    state = torch.load(run / "checkpoint.pt", map_location="cpu", weights_only=True)
    tokenizer = Tokenizer.load(run)
    codes = CodeFormat.load(work / "codes")
    codes.check(work / "codes", codec_fingerprint(load_codec_decoder(*codec_files(codec))), codec)
    out.mkdir(parents=True, exist_ok=True)
    vocabulary = len(state["model"]["slow.embeddings.weight"])
    config = bundled_config(vocabulary, tokenizer.semantic_start_id, codes.semantic_size, codes.num_codebooks)
    save_release(state["model"], out)
    (out / "config.json").write_text(json.dumps(release_config(config), indent=1) + "\n")
    profile = {
        "max_segment_bytes": MAX_SEGMENT_BYTES,
        "max_segment_sentences": MAX_SEGMENT_SENTENCES,
        "sentence_pause": SENTENCE_PAUSE,
        "context_positions": CONTEXT_POSITIONS,
        "temperature": TEMPERATURE,
        "postfilter": True,
        "style_tags": False,
        "alignment_head": [ALIGNMENT_LAYER, ALIGNMENT_HEAD],
        "notice": "model.notice_bundled",
    }
    (out / "reprise.json").write_text(json.dumps(profile, indent=1) + "\n")
    for name in ("codec.safetensors", "codec_config.json"):
        shutil.copy(codec / name, out / name)
    shutil.copy(run / "tokenizer.json", out / "tokenizer.json")
    if out.resolve() != BUNDLED:
        shutil.copy(LEXICON, out / LEXICON_FILE)  # from training.speech.lexicon; valid for any model with these phones
    size = sum(file.stat().st_size for file in out.iterdir()) / 2**20
    print(f"{out}: {size:.1f} MiB after {state['step']} steps ({state['elapsed'] / 60:.0f} minutes)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=DEFAULT_WORK)
    parser.add_argument("--codec", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("assets/bundled"))
    args = parser.parse_args()
    with exit_with_message():
        export(args.work, args.codec, args.out)


if __name__ == "__main__":
    main()
