"""What speech in a voice is conditioned on: codes, speaker embeddings and adaptations, computed from its clips."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.audio import decode_audio, encode_audio, prepare_reference, transcript_for
from engine.audio.doctor import check_transcript
from engine.codec.postfilter import Postfilter
from engine.errors import InvalidCodes, InvalidInput, InvalidOption, UnusableReference
from engine.families.family import PromptReference, PromptVoice, Release
from engine.languages import language_name
from engine.messages import UserMessage
from engine.request.pipeline import SpeechPipeline
from engine.serving.clips.clip_encoder import ClipEncoder
from engine.serving.clips.speaker_adaptations import SpeakerAdaptation, SpeakerAdaptations
from engine.serving.clips.speaker_embeddings import SpeakerEmbeddings
from engine.text import clean_text, without_control_tokens
from engine.voice import BuiltInVoice, Reference, Voice, voices_of

_MAX_DIALOGUES = 64  # combinations of voices whose prompts are kept in the caches


class VoiceConditioner:
    """Encodes clips for a release, and turns voices into the inputs of its prompts. Thread-safe.

    What it computes from a voice is cached until the voice is forgotten. Methods that take a voice raise InvalidInput
    or a subclass, such as InvalidCodes and UnusableReference, for one that the release cannot speak in.
    """

    def __init__(self, release: Release, fingerprint: str, device: torch.device) -> None:
        """fingerprint: of the codec."""
        self._capabilities, self._codec = release.capabilities, release.architecture.codec
        self._fingerprint, self._device = fingerprint, device
        self._encoder = ClipEncoder(lambda: release.load_encoder(device), device)
        self._embeddings = SpeakerEmbeddings(lambda: release.load_speaker_encoder(device))
        self._pipeline: SpeechPipeline | None = None
        self._adaptations: SpeakerAdaptations | None = None
        # Of several voices each, whose prompts may be cached, by their clips' codes.
        self._dialogues: OrderedDict[tuple[bytes, ...], PromptVoice] = OrderedDict()
        self._dialogues_lock = threading.Lock()

    def start(self, pipeline: SpeechPipeline, postfilter: Postfilter | None) -> None:
        """Serve a pipeline: learn adaptations for its postfilter, and drop forgotten voices from its caches."""
        self._pipeline = pipeline
        self._adaptations = SpeakerAdaptations(pipeline.codec_worker, postfilter) if postfilter else None
        if self._capabilities.clones:
            pipeline.loop.idle_work.begin(self._encoder.warm_up_steps())

    def close(self) -> None:
        """Learn from no further clips ahead, and free the encoders; they are loaded again on next use."""
        if self._adaptations is not None:
            self._adaptations.close()
        self._encoder.release()
        self._embeddings.release()

    def encode(
        self, references: Sequence[tuple[bytes | str | Path, str]]
    ) -> tuple[tuple[Reference, ...], tuple[UserMessage, ...]]:
        """Encode (clip, transcript) pairs. Returns references, and notes for the user; see `Engine.encode_voice`."""
        if not self._capabilities.designs_voices:  # a described voice keeps a sample for other models to clone
            self._check_clones()
        if not references:
            raise InvalidInput("reference.none")
        encoded = [self._encode(source, transcript) for source, transcript in references]
        return tuple(made for made, _ in encoded), tuple(note for _, notes in encoded for note in notes)

    def reencode(self, voice: Voice) -> Voice:
        """Encode a voice's clips again. Raises UnusableReference when a clip was not kept."""
        self._check_clones()
        if any(not reference.clip for reference in voice.references):
            raise UnusableReference("voices.no_clip", name=voice.name)
        made = tuple(replace(r, codes=self._encoder.encode(self._decode(r.clip), r.clip)) for r in voice.references)
        return replace(voice, references=made, codec_fingerprint=self._fingerprint)

    def with_own_codes(self, voice: Voice) -> Voice:
        """Return a voice with this codec's codes, encoded again if they are another's."""
        return voice if voice.codec_fingerprint == self._fingerprint else self.reencode(voice)

    def references(self, voice: Voice | Sequence[Voice] | BuiltInVoice | None) -> list[tuple[Reference, str]]:
        """Return the references to clone, with this codec's codes, and the names of their voices."""
        voices = voices_of(voice)
        if voices:
            self._check_clones()
        return [(reference, each.name) for each in voices for reference in self.with_own_codes(each).references]

    def prompt_voice(
        self,
        voice: Voice | Sequence[Voice] | BuiltInVoice | None,
        references: Sequence[tuple[Reference, str]],
        language: str,
    ) -> PromptVoice:
        """Return the prompt inputs of a voice. references: of it. language: of the text, as in `SpeakOptions`."""
        language = self._language(language)
        if voice is None and self._capabilities.speakers:
            voice = BuiltInVoice(self._capabilities.speakers[0])
        if isinstance(voice, BuiltInVoice):
            return self._built_in(voice, language)
        prompted = self._prompted(references, language)
        if len(voices_of(voice)) > 1:
            self._remember_dialogue(prompted)
        return prompted

    def adapter(self, references: Sequence[tuple[Reference, str]]) -> Callable[[], list[SpeakerAdaptation | None]]:
        """Return a function that returns the adaptations of speech to these references' speakers; None without a
        postfilter or a clip. It caches none of them if a voice is forgotten after this call."""
        adaptations, drops = self._adaptations, self._adaptations.drops if self._adaptations else None

        def adaptation(reference: Reference) -> SpeakerAdaptation | None:
            if adaptations is None or not reference.clip:
                return None
            codes = self.checked_codes(reference.codes)
            return adaptations.adaptation_for(reference.clip, codes, self._decode, drops=drops)

        return lambda: [adaptation(reference) for reference, _ in references]

    def checked_codes(self, codes: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Return codes `[K, T]` as int64. Raises InvalidCodes if they are not of this codec."""
        sizes = self._codec.codebook_sizes
        if codes.ndim != 2 or codes.shape[0] != len(sizes):
            raise InvalidCodes("codes.other_codebooks")
        if (codes.max(axis=1, initial=0) >= sizes).any():
            raise InvalidCodes("codes.outside")
        return codes.astype(np.int64)

    def prepare(self, voice: Voice) -> None:
        """See `Engine.prepare`."""
        if not self._capabilities.clones or voice.codec_fingerprint != self._fingerprint:
            return
        with suppress(InvalidInput):
            # A speaker encoder would first have to run on the caller's thread.
            if self._pipeline is not None and not self._capabilities.has_speaker_encoder:
                self._pipeline.prepare(self._prompted(self.references(voice)))
            for reference in voice.references:
                if self._adaptations is not None and reference.clip:
                    self._adaptations.learn_ahead(reference.clip, self.checked_codes(reference.codes), self._decode)

    def forget(self, voice: Voice) -> None:
        """See `Engine.forget`."""
        if voice.codec_fingerprint != self._fingerprint:
            return
        if self._capabilities.has_speaker_encoder and not all(reference.clip for reference in voice.references):
            return  # without its clips the voice cannot have been used
        if self._pipeline is not None:
            with suppress(InvalidInput):  # a voice that cannot be prompted has no prompt
                self._forget_prompts(voice, self._pipeline)
        for reference in voice.references:
            self._encoder.forget(reference.codes)
            self._embeddings.forget(reference.clip)  # after the prompt, which was built from it
            if self._adaptations is not None:
                self._adaptations.forget(reference.clip, reference.codes.astype(np.int64))

    def _forget_prompts(self, voice: Voice, pipeline: SpeechPipeline) -> None:
        prompted = self._prompted(self.references(voice))
        own = set(_codes_key(prompted))
        with self._dialogues_lock:
            shared = [self._dialogues.pop(key) for key in list(self._dialogues) if not own.isdisjoint(key)]
        for each in (prompted, *shared):
            pipeline.forget(each)

    def _remember_dialogue(self, voices: PromptVoice) -> None:
        """Note that the prompt of several voices may be cached, for `forget`."""
        with self._dialogues_lock:
            self._dialogues[_codes_key(voices)] = voices
            oldest = self._dialogues.popitem(last=False)[1] if len(self._dialogues) > _MAX_DIALOGUES else None
        if oldest is not None and self._pipeline is not None:
            self._pipeline.forget(oldest)

    def _encode(self, source: bytes | str | Path, transcript: str) -> tuple[Reference, list[UserMessage]]:
        if not transcript.strip() and self._capabilities.needs_transcript:
            raise InvalidInput("reference.no_words")
        clip = prepare_reference(source, self._codec.sample_rate, device=self._device)
        spoken, notes = "", [*clip.notes]
        if transcript.strip():
            spoken, note = transcript_for(clip, clean_text(transcript))
            fit = check_transcript(spoken, clip.speech_seconds)
            notes += [*([note] if note else []), *([fit.message] if fit.light != "green" else [])]
        file = encode_audio(clip.samples.cpu().numpy(), clip.sample_rate, "flac")
        codes = self._encoder.encode(clip.samples, file)
        return Reference(spoken, codes, file, clip.sample_rate, clip.duration), notes

    def _prompt_reference(self, reference: Reference, name: str) -> PromptReference:
        """Return the prompt inputs of a reference. name: of its voice."""
        # Voice files may contain transcripts that were never cleaned.
        transcript = without_control_tokens(reference.transcript).strip()
        if not transcript and self._capabilities.needs_transcript:
            raise InvalidInput("reference.no_words")
        embedding = None
        if self._capabilities.has_speaker_encoder:
            if not reference.clip:
                raise UnusableReference("voices.no_clip", name=name)
            embedding = self._embeddings.embed(reference.clip, self._decode)
        return PromptReference(transcript, torch.from_numpy(self.checked_codes(reference.codes)), embedding)

    def _prompted(self, references: Sequence[tuple[Reference, str]], language: str = "") -> PromptVoice:
        """Return the prompt inputs of references. language: the model's name for it."""
        return PromptVoice([self._prompt_reference(each, name) for each, name in references], language=language)

    def _built_in(self, voice: BuiltInVoice, language: str) -> PromptVoice:
        speaker, capabilities = voice.speaker.strip().lower(), self._capabilities
        if speaker and speaker not in capabilities.speakers:
            raise InvalidOption("option.speaker", name=voice.speaker[:80], known=capabilities.speakers or "—")
        if voice.description and not (capabilities.designs_voices or (speaker and capabilities.follows_instructions)):
            raise InvalidOption("option.description")
        return PromptVoice((), speaker, without_control_tokens(voice.description).strip(), language)

    def _language(self, language: str) -> str:
        """Return the model's name for a language. Raises InvalidOption for an unsupported one."""
        language = str(language or "")
        known, wanted = self._capabilities.languages, language.strip().lower()
        if not known or wanted in ("", "auto"):
            return ""
        name = wanted if wanted in known else language_name(wanted)
        if name not in known:
            raise InvalidOption("option.language", language=language[:40], known=tuple(known))
        return name

    def _check_clones(self) -> None:
        if not self._capabilities.clones:
            raise InvalidInput("engine.describes_only" if self._capabilities.designs_voices else "engine.no_cloning")

    def _decode(self, clip: bytes) -> Tensor:
        """Decode the stored clip of a reference, which is already prepared."""
        return decode_audio(clip, self._codec.sample_rate, device=self._device)


def _codes_key(voice: PromptVoice) -> tuple[bytes, ...]:
    return tuple(reference.codes.numpy().tobytes() for reference in voice.references)
