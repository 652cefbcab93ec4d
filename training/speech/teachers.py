"""Flite, Festival and espeak-ng: speech with phone times."""

import ctypes as c
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import soundfile as sf

from training.speech.flite import Flite, SynthesizedUtterance

_IPA = {
    "ə": "ax", "ɐ": "ax", "ʌ": "ah", "ɑː": "aa", "ɑ": "aa", "ɒ": "aa", "ɔː": "ao", "ɔ": "ao", "oː": "ao",
    "æ": "ae", "a": "ae", "aː": "aa", "ɛ": "eh", "e": "eh", "ɪ": "ih", "ᵻ": "ih", "i": "iy", "iː": "iy",
    "ʊ": "uh", "u": "uw", "uː": "uw", "eɪ": "ey", "aɪ": "ay", "aʊ": "aw", "oʊ": "ow", "əʊ": "ow",
    "ɔɪ": "oy", "ɜː": "er", "ɚ": "er", "ɜ": "er", "ɡ": "g", "ɹ": "r", "ɾ": "t", "ʔ": "t", "ʃ": "sh",
    "ʒ": "zh", "tʃ": "ch", "dʒ": "jh", "θ": "th", "ð": "dh", "ŋ": "ng", "j": "y", "h": "hh", "əl": "ax l",
    "n̩": "ax n", "ɑːɹ": "aa r", "ɔːɹ": "ao r", "oːɹ": "ao r", "ɛɹ": "eh r", "ɪɹ": "ih r", "ʊɹ": "uh r",
    "aɪɚ": "ay er", "aɪə": "ay ax", "iə": "iy ax", "eə": "eh r", "ɪə": "ih r", "ʊə": "uh r", "x": "k",
    "ɬ": "l", "ɛː": "eh", "ɪː": "iy",
}  # fmt: skip
_FESTIVAL_PHONES = {
    "dx": "t", "nx": "n", "hv": "hh", "axr": "er", "el": "l", "em": "m", "en": "n", "h#": "pau",
}  # fmt: skip


_FESTIVAL_SAY = """
(define (say words name)
  (let ((utterance (eval (list 'Utterance 'Text words))))
    (utt.synth utterance)
    (utt.save.wave utterance (string-append name ".wav") 'riff)
    (utt.save.segs utterance (string-append name ".lab"))))
"""


class _EventId(c.Union):
    _fields_ = [("number", c.c_int), ("name", c.c_char_p), ("string", c.c_char * 8)]


class _Event(c.Structure):
    _fields_ = [
        ("type", c.c_int),
        ("identifier", c.c_uint),
        ("text_position", c.c_int),
        ("length", c.c_int),
        ("audio_position", c.c_int),
        ("sample", c.c_int),
        ("user_data", c.c_void_p),
        ("id", _EventId),
    ]


_CALLBACK = c.CFUNCTYPE(c.c_int, c.POINTER(c.c_short), c.c_int, c.POINTER(_Event))
_SYNCHRONOUS, _PHONEME_EVENTS, _IPA_NAMES = 2, 1, 2
_UTF8 = 1
_RATE, _PITCH = 1, 3
_PHONEME, _LIST_END = 7, 0


class Espeak:
    """espeak-ng through its C library. Raises OSError when it is not installed."""

    def __init__(self) -> None:
        self._lib = c.CDLL("libespeak-ng.so.1")
        self.sample_rate: int = self._lib.espeak_Initialize(_SYNCHRONOUS, 0, None, _PHONEME_EVENTS | _IPA_NAMES)
        self._pieces: list[np.ndarray] = []
        self._phones: list[tuple[str, float]] = []  # (IPA, start in seconds)
        self._callback = _CALLBACK(self._receive)  # keep a reference: the library holds only a pointer
        self._lib.espeak_SetSynthCallback(self._callback)
        self._lib.espeak_TextToPhonemes.restype = c.c_char_p
        self._lib.espeak_TextToPhonemes.argtypes = [c.POINTER(c.c_void_p), c.c_int, c.c_int]

    def _receive(self, samples: "c._Pointer[c.c_short]", count: int, events: "c._Pointer[_Event]") -> int:
        if count > 0 and bool(samples):  # the last call passes a null pointer
            self._pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        at = 0
        while events[at].type != _LIST_END:
            if events[at].type == _PHONEME:
                name = c.string_at(c.addressof(events[at].id), 8).split(b"\0")[0].decode("utf-8", "ignore")
                self._phones.append((name, events[at].audio_position / 1000))
            at += 1
        return 0

    def say(self, text: str, voice: str, *, pitch: int, rate: int) -> SynthesizedUtterance:
        """Speak `text`; `pitch` is espeak-ng's setting (0 to 99), `rate` in words per minute."""
        self._pieces, self._phones = [], []
        if self._lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice}")
        self._lib.espeak_SetParameter(_RATE, rate, 0)
        self._lib.espeak_SetParameter(_PITCH, pitch, 0)
        data = text.encode()
        self._lib.espeak_Synth(data, len(data) + 1, 0, 1, 0, 1, None, None)
        self._lib.espeak_Synchronize()
        samples = np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.int16)
        return SynthesizedUtterance(samples, self.sample_rate, self._segments(len(samples) / self.sample_rate))

    def phonemes(self, text: str, voice: str = "en-us") -> str:
        """Return `text` in IPA with stress, clauses separated by spaces."""
        if self._lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise ValueError(f"espeak-ng has no voice {voice}")
        buffer = c.create_string_buffer(text.encode())
        position, clauses = c.c_void_p(c.addressof(buffer)), []
        while position.value:
            clauses.append(self._lib.espeak_TextToPhonemes(c.byref(position), _UTF8, _IPA_NAMES).decode())
        return " ".join(clauses)

    def _segments(self, length: float) -> list[tuple[str, float]]:
        """Convert starts of IPA names to ends of the lexicon's phones. Names of two phones are split evenly."""
        out: list[tuple[str, float]] = []
        ends = [start for _, start in self._phones[1:]] + [length]
        for (name, start), end in zip(self._phones, ends, strict=True):
            plain = name.strip("ˈˌ")
            phones = _IPA.get(plain, _IPA.get(plain.rstrip("ː"), plain)).split() or ["pau"]
            out += [(phone, start + (end - start) * (at + 1) / len(phones)) for at, phone in enumerate(phones)]
        return out


class Festival:
    """Festival, one process per batch of sentences. Raises OSError when it is not installed."""

    def say_all(self, texts: list[str], voice: str) -> list[SynthesizedUtterance]:
        """Speak sentences, which may contain only letters, apostrophes and plain punctuation."""
        with tempfile.TemporaryDirectory() as folder:
            lines = [_FESTIVAL_SAY, f"(voice_{voice})"]
            lines += [f'(say "{text}" "{folder}/{at}")' for at, text in enumerate(texts)]
            script = Path(folder, "say.scm")
            script.write_text("\n".join(lines))
            subprocess.run(["festival", "-b", str(script)], check=True, capture_output=True)
            return [self._read(Path(folder, str(at))) for at in range(len(texts))]

    @staticmethod
    def _read(path: Path) -> SynthesizedUtterance:
        samples, sample_rate = sf.read(path.with_suffix(".wav"), dtype="int16")
        rows = [line.split() for line in path.with_suffix(".lab").read_text().split("#\n", 1)[1].splitlines()]
        segments = [(_FESTIVAL_PHONES.get(row[2], row[2]), float(row[0])) for row in rows if len(row) == 3]
        return SynthesizedUtterance(samples, sample_rate, segments)


__all__ = ["Espeak", "Festival", "Flite", "SynthesizedUtterance"]
