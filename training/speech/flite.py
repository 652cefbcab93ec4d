"""Flite through its C library: speech with phone times, and its lexicon.

Calls the shared libraries of the `flite` package (release 2.2) with ctypes. Create one object per process, because the
library keeps its settings in global state.
"""

import ctypes as c
from dataclasses import dataclass

import numpy as np

VOICES = ("slt", "rms", "awb", "kal16")
_LIBRARIES = {voice: f"libflite_cmu_us_{voice}.so.1" for voice in VOICES}
_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "flite_init": (c.c_int, []),
    "flite_synth_text": (c.c_void_p, [c.c_char_p, c.c_void_p]),
    "utt_relation": (c.c_void_p, [c.c_void_p, c.c_char_p]),
    "relation_head": (c.c_void_p, [c.c_void_p]),
    "item_next": (c.c_void_p, [c.c_void_p]),
    "item_feat_string": (c.c_char_p, [c.c_void_p, c.c_char_p]),
    "item_feat_float": (c.c_float, [c.c_void_p, c.c_char_p]),
    "feat_set_float": (None, [c.c_void_p, c.c_char_p, c.c_float]),
    "delete_utterance": (None, [c.c_void_p]),
    "lex_lookup": (c.c_void_p, [c.c_void_p, c.c_char_p, c.c_char_p, c.c_void_p]),
    "val_car": (c.c_void_p, [c.c_void_p]),
    "val_cdr": (c.c_void_p, [c.c_void_p]),
    "val_string": (c.c_char_p, [c.c_void_p]),
    "delete_val": (None, [c.c_void_p]),
}


class _Voice(c.Structure):
    _fields_ = [("name", c.c_char_p), ("features", c.c_void_p)]


class _Wave(c.Structure):
    _fields_ = [
        ("type", c.c_char_p),
        ("sample_rate", c.c_int),
        ("num_samples", c.c_int),
        ("num_channels", c.c_int),
        ("samples", c.POINTER(c.c_short)),
    ]


@dataclass(frozen=True)
class SynthesizedUtterance:
    """Synthesized speech: int16 samples, and (phone, end in seconds), `pau` for silence."""

    samples: np.ndarray
    sample_rate: int
    segments: list[tuple[str, float]]


class Flite:
    """Flite's voices and lexicon. Raises OSError when the libraries are not installed."""

    def __init__(self) -> None:
        self._lib = c.CDLL("libflite.so.1", mode=c.RTLD_GLOBAL)
        c.CDLL("libflite_usenglish.so.1", mode=c.RTLD_GLOBAL)
        lexicon = c.CDLL("libflite_cmulex.so.1", mode=c.RTLD_GLOBAL)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments
        self._lib.utt_wave.restype, self._lib.utt_wave.argtypes = c.POINTER(_Wave), [c.c_void_p]
        self._lib.flite_init()
        self._voices = {voice: self._register(voice) for voice in VOICES}
        lexicon.cmu_lex_init.restype = c.c_void_p
        self._lexicon = lexicon.cmu_lex_init()

    @staticmethod
    def _register(voice: str) -> "c._Pointer[_Voice]":
        library = c.CDLL(_LIBRARIES[voice], mode=c.RTLD_GLOBAL)
        register = getattr(library, f"register_cmu_us_{voice}")
        register.restype, register.argtypes = c.POINTER(_Voice), [c.c_char_p]
        pointer: c._Pointer[_Voice] = register(None)
        return pointer

    def say(self, text: str, voice: str, **features: float) -> SynthesizedUtterance:
        """Speak ASCII `text`. `features` are Flite's: duration_stretch, or int_f0_target_mean (Hz) for kal16."""
        pointer = self._voices[voice]
        for name, value in features.items():
            self._lib.feat_set_float(pointer.contents.features, name.encode(), value)
        utterance = self._lib.flite_synth_text(text.encode("ascii"), c.cast(pointer, c.c_void_p))
        try:
            wave = self._lib.utt_wave(utterance).contents
            samples = np.ctypeslib.as_array(wave.samples, (wave.num_samples,)).copy()
            return SynthesizedUtterance(samples, wave.sample_rate, self._segments(utterance))
        finally:
            self._lib.delete_utterance(utterance)

    def _segments(self, utterance: int) -> list[tuple[str, float]]:
        item = self._lib.relation_head(self._lib.utt_relation(utterance, b"Segment"))
        out = []
        while item:
            name = self._lib.item_feat_string(item, b"name").decode()
            out.append((name, self._lib.item_feat_float(item, b"end")))
            item = self._lib.item_next(item)
        return out

    def look_up(self, word: str) -> list[str]:
        """Return the phones of one lower-case word from the lexicon or, failing that, Flite's letter-to-sound rules."""
        value = self._lib.lex_lookup(self._lexicon, word.encode("ascii"), None, None)
        phones, cell = [], value
        while cell:
            phones.append(self._lib.val_string(self._lib.val_car(cell)).decode().rstrip("012"))
            cell = self._lib.val_cdr(cell)
        self._lib.delete_val(value)
        return phones
