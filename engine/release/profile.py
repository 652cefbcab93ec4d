"""The profile of a release: its optional `reprise.json`."""

from dataclasses import dataclass, fields, replace
from pathlib import Path

from engine.checks import check_flag, check_int, check_number, check_text, listed, shown
from engine.errors import InvalidConfig
from engine.files.bounded import read_object
from engine.models.sampling import MAX_TOP_K, SamplingOptions
from engine.text.segmentation import MAX_TURNS, Segmentation
from engine.text.tags import has_words, is_speakable


@dataclass(frozen=True)
class Profile:
    """Settings of a release beyond its sizes, from Reprise's own optional `reprise.json`.

    max_segment_bytes: longest text, in UTF-8 bytes, that the model speaks as one turn.
    max_segment_sentences: maximum number of sentences of a turn; None for as many as fit. A model that was
        trained on single sentences leaves out the words after the first.
    max_segment_turns: maximum number of turns of a dialogue that the model speaks as one; 1 for a model that
        speaks each with one voice.
    sentence_pause: seconds of silence between two turns where a sentence or a line ends, besides what the model speaks
        itself; twice as long between paragraphs.
    context_positions: positions of earlier turns that stay in context in a long text; 1024 are about 40 s of speech.
        A model trained on fewer turns drops words with more.
    postfilter: whether speech passes the postfilter (`engine/codec/postfilter/`), for decoders too small to speak
        without roughness.
    style_tags: whether tags such as `[whisper]` change how the model speaks.
    temperature, top_p, top_k: default options of this model; see `SamplingOptions`.
    alignment_head: layer and query head of the Slow AR whose attention follows the phones, in a model trained for it;
        None for others.
    notice: licence notice, shown where the model is named: a sentence's key (`engine.messages`) or a text; "" for
        none.
    """

    max_segment_bytes: int = 300
    max_segment_sentences: int | None = None
    max_segment_turns: int = MAX_TURNS
    sentence_pause: float = 0.0
    context_positions: int = 1024
    postfilter: bool = False
    style_tags: bool = True
    temperature: float = SamplingOptions.temperature
    top_p: float = SamplingOptions.top_p
    top_k: int = SamplingOptions.top_k
    alignment_head: tuple[int, int] | None = None
    notice: str = ""

    @property
    def segmentation(self) -> Segmentation:
        """How texts are split into segments for this model."""
        return Segmentation(
            self.max_segment_bytes,
            self.max_segment_sentences,
            self.sentence_pause,
            self.max_segment_turns,
            is_spoken=is_speakable if self.style_tags else has_words,
        )

    @classmethod
    def load(cls, folder: Path, usual: "Profile | None" = None) -> "Profile":
        """Read `reprise.json` of a release folder over the `usual` profile of its family. Raises InvalidConfig."""
        path = folder / "reprise.json"
        if not path.exists():
            return usual or cls()
        values = read_object(path)
        unknown = sorted(set(values) - {f.name for f in fields(cls)})
        if unknown:
            raise InvalidConfig(f"reprise.json has settings that Reprise does not know: {listed(unknown)}.")
        return replace(usual or cls(), **values)

    def __post_init__(self) -> None:
        check_int("reprise.json", "max_segment_bytes", self.max_segment_bytes, 8, 100_000)
        if self.max_segment_sentences is not None:
            check_int("reprise.json", "max_segment_sentences", self.max_segment_sentences, 1, 1_000)
        check_int("reprise.json", "max_segment_turns", self.max_segment_turns, 1, 1_000)
        if self.sentence_pause != 0:
            check_number("reprise.json", "sentence_pause", self.sentence_pause, 0, 10)
        check_int("reprise.json", "context_positions", self.context_positions, 0, 1 << 20)
        check_flag("reprise.json", "postfilter", self.postfilter)
        check_flag("reprise.json", "style_tags", self.style_tags)
        if self.temperature != 0:
            check_number("reprise.json", "temperature", self.temperature, 0, 2)
        check_number("reprise.json", "top_p", self.top_p, 0, 1)
        check_int("reprise.json", "top_k", self.top_k, 1, MAX_TOP_K)
        if self.alignment_head is not None:
            _check_head(self.alignment_head)
            object.__setattr__(self, "alignment_head", tuple(self.alignment_head))
        check_text("reprise.json", "notice", self.notice, 2_000)


def _check_head(head: object) -> None:
    """Raise InvalidConfig for anything but two whole numbers."""
    if not isinstance(head, list | tuple) or len(head) != 2:
        raise InvalidConfig(f"reprise.json has alignment_head = {shown(head)}; it must be a layer and a head.")
    for number in head:
        check_int("reprise.json", "alignment_head", number, 0, 1_000)
