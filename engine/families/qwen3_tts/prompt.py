"""Prompts of Qwen3-TTS. Each turn has its own prompt; prompts share only the voice.

Source: `generate` of the package qwen-tts 0.1.1, with `non_streaming_mode=True`: all the text, after the transcript of
the clip, comes before the clip's codes and the first frame. In the package's other layout, its default for clones, text
enters one token per frame, several times as fast as it is spoken, and the speech becomes faster and faster
(QwenLM/Qwen3-TTS#239).
"""

import hashlib
from collections.abc import Callable, Sequence

import regex
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import InvalidInput
from engine.families.family import MIN_SPEECH_FRAMES, PromptReference, PromptVoice
from engine.families.qwen3_tts.config import TalkerConfig
from engine.families.qwen3_tts.talker import NOTHING, SPEAKER
from engine.families.qwen3_tts.tokenizer import TextTokenizer
from engine.models.prompt import Prompt
from engine.text.cuts import written_size
from engine.text.sentences import ends_sentence, with_style
from engine.text.tags import SPEAKER_TAG, STYLE_TAG, speaker_numbers

_ROLE, _TURN_END, _NEXT_ROLE = 3, 2, 5
"""Numbers of tokens around a text: `<|im_start|>assistant\\n`, `<|im_end|>\\n`, and the latter with the next role."""
_CLAUSE_ENDS = " ,;:-–—、，；："
_WITHOUT_SPACES = regex.compile(r"(?r)[\p{Han}\p{Hiragana}\p{Katakana}ー]\P{L}*+")
_STYLE_TAGS = regex.compile(rf"\s*(?:{STYLE_TAG.pattern}\s*)+")
_DIALECT_OF = ("", "chinese")  # requested languages for which a speaker's dialect is used
_DIGEST_BITS = 31  # per row, so that the value is a non-negative 32-bit integer
_CODEC_CONTEXT = 25  # frames; qwen-tts decodes as many again before each chunk of a long take


class TalkerPrompts:
    """Builder of prompt columns `[K + 1, T]` int64; see `Talker` for their rows.

    style_tags: as in `Profile`. Without them, tags are not in the prompt, because the models read them as words.
    """

    def __init__(self, config: TalkerConfig, tokenizer: TextTokenizer, style_tags: bool = False) -> None:
        self.config, self._tokenizer, self._control = config, tokenizer, config.control_tokens
        self._style_tags = style_tags
        self._languages = dict(config.languages)
        self._speakers = {name: (token, dialect) for name, token, dialect in config.speakers}

    def conversation(self, voice: PromptVoice, positions: int, context_positions: int) -> "IndependentTurns":
        return IndependentTurns(self, voice, positions)

    def prefixes(self, voice: PromptVoice) -> Sequence[Prompt]:
        found = []
        for reference in voice.references or (None,):
            for language in ("", *self._languages):
                shared = self._shared(reference, PromptVoice((), voice.speaker, voice.description, language))
                found.append(Prompt(shared, shared=shared.shape[1], codec_context=_codec_context(reference)))
        return found

    def count_phones(self, text: str) -> int | None:
        return None

    def unpronounceable(self, text: str) -> list[str]:
        return []

    @property
    def text_size(self) -> Callable[[str], int]:
        return written_size

    def prompt(self, reference: PromptReference | None, voice: PromptVoice, text: str) -> Prompt:
        """Build the prompt of a turn that says `text`.

        reference: the reference to clone; None for one of the model's built-in voices.
        """
        text = self._spoken(with_style(text, voice.style))
        ids = self._tokenizer.encode(f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n")
        shared, said = self._shared(reference, voice), self._said([*ids[_ROLE:-_NEXT_ROLE], self._control.text_eos])
        return Prompt(
            torch.cat((shared, said, self._speech(reference)), dim=1),
            shared=shared.shape[1],
            independent=True,
            embedding=None if reference is None else reference.embedding,
            codec_context=_codec_context(reference),
        )

    def fits(self, reference: PromptReference | None, voice: PromptVoice, positions: int) -> bool:
        """Return whether the part of a prompt besides its text leaves room for speech in `positions`."""
        used = self._shared(reference, voice).shape[1] + self._speech(reference).shape[1]
        return used + MIN_SPEECH_FRAMES <= positions

    def _shared(self, reference: PromptReference | None, voice: PromptVoice) -> Tensor:
        """Return the columns that all prompts of a voice start with."""
        head = self._head(reference, voice)
        if reference is None or not reference.transcript:
            return head
        transcript = _ended(self._spoken(reference.transcript))
        ids = self._tokenizer.encode(f"<|im_start|>assistant\n{transcript}<|im_end|>\n")
        return torch.cat((head, self._said(ids[_ROLE:-_TURN_END])), dim=1)

    def _spoken(self, text: str) -> str:
        """Return the part of a text that is spoken."""
        text = self._tokenizer.without_own_tokens(text)
        return (text if self._style_tags else _STYLE_TAGS.sub(" ", text)).strip()

    def _head(self, reference: PromptReference | None, voice: PromptVoice) -> Tensor:
        """Return the columns of instruction, role, language and speaker."""
        control, speaker = self._control, self._speakers.get(voice.speaker)
        description = self._tokenizer.without_own_tokens(voice.description)
        instruction = f"<|im_start|>user\n{description}<|im_end|>\n" if description else ""
        role = self._tokenizer.encode("<|im_start|>assistant\n")
        text = [*self._tokenizer.encode(instruction), *role]
        language = self._language(voice.language, speaker[1] if speaker else "")
        begin = (
            [control.nothink, control.think_bos] if language is None else [control.think, control.think_bos, language]
        )
        tags = [self._above([control.text_pad] * (len(begin) + 1), [*begin, control.think_eos])]
        if reference is not None and reference.embedding is not None:
            tags.append(self._speaker_column(reference.embedding))
        elif speaker is not None:
            tags.append(self._column(control.text_pad, speaker[0]))
        return torch.cat(
            (self._above(text, [NOTHING] * len(text)), *tags, self._column(control.text_bos, control.pad)), dim=1
        )

    def _language(self, language: str, dialect: str) -> int | None:
        if dialect and language in _DIALECT_OF:
            return self._languages[dialect]
        return self._languages[language] if language else None

    def _said(self, tokens: list[int]) -> Tensor:
        """Return the columns of text that is before all speech."""
        return self._above(tokens, [self._control.pad] * len(tokens))

    def _speech(self, reference: PromptReference | None) -> Tensor:
        """Return the columns of speech that precedes the first frame: the start mark, and the frames of a clip."""
        start = self._column(self._control.text_pad, self._control.bos)
        if reference is None or not reference.transcript:
            return start
        return torch.cat((start, F.pad(reference.codes.long(), (0, 0, 1, 0), value=self._control.text_pad)), dim=1)

    def _above(self, text: Sequence[int], codec: Sequence[int]) -> Tensor:
        """Return columns of text tokens and codec tokens, without residual codes."""
        columns = torch.zeros(self.config.num_codebooks + 1, len(text), dtype=torch.long)
        columns[0], columns[1] = torch.tensor(text), torch.tensor(codec)
        return columns

    def _column(self, text: int, codec: int) -> Tensor:
        return self._above([text], [codec])

    def _speaker_column(self, embedding: Tensor) -> Tensor:
        column = self._column(self._control.text_pad, SPEAKER)
        digest = hashlib.sha256(embedding.detach().to("cpu", torch.float32).numpy().tobytes()).digest()
        number = int.from_bytes(digest, "big")
        for row in range(2, len(column)):
            column[row] = number & ((1 << _DIGEST_BITS) - 1)
            number >>= _DIGEST_BITS
        return column


def _ended(transcript: str) -> str:
    """Return a transcript that ends with a mark of a sentence's end.

    The text follows it without a space, as in the package: without a mark, the last word of one and the first of the
    other would be one word.
    """
    if ends_sentence(transcript):
        return transcript
    words = transcript.rstrip(_CLAUSE_ENDS)
    if ends_sentence(words):
        return words
    return words + ("。" if _WITHOUT_SPACES.match(words) else ".")


def _codec_context(reference: PromptReference | None) -> Tensor | None:
    """Return the last codes of the reference clip, from which the codec continues; None if no clip is in the prompt."""
    return reference.codes[:, -_CODEC_CONTEXT:].long() if reference is not None and reference.transcript else None


class IndependentTurns:
    """The context of one request with independent turns. Raises InvalidInput if the voice is too long.

    positions: maximum for a prompt and its speech together.
    """

    def __init__(self, prompts: TalkerPrompts, voice: PromptVoice, positions: int) -> None:
        self._prompts, self._voice, self._positions = prompts, voice, positions
        if not all(prompts.fits(reference, voice, positions) for reference in voice.references or (None,)):
            raise InvalidInput("voices.too_long")

    def begin_turn(self, text: str, budget: int) -> tuple[Prompt, int]:
        """Build the prompt of a turn that says `text`. Also return how many of `budget` frames fit after it.

        The first speaker tag selects the reference for the whole turn.
        """
        references, speakers = self._voice.references, speaker_numbers(text)
        speaker = speakers[0] if speakers else 0
        reference = references[min(speaker, len(references) - 1)] if references else None
        prompt = self._prompts.prompt(reference, self._voice, SPEAKER_TAG.sub("", text))
        room = self._positions - prompt.columns.shape[1]
        if room < MIN_SPEECH_FRAMES:
            raise InvalidInput("text.long_turn")
        return prompt, min(budget, room)

    def append(self, text: str, codes: Tensor) -> None:
        """Do nothing: prompts do not contain earlier turns."""
