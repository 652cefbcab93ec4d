"""Reference clips in, finished takes out. Files are read by `decode`, listened to by `vad`, prepared by
`reference`, judged and mended by `doctor`; takes are written by `encode` and `join`."""

from engine.audio.decode import decode_audio
from engine.audio.encode import AudioFormat, encode_audio, encode_flac, to_int16, wav_bytes
from engine.audio.reference import Clip, prepare_reference, transcript_for
from engine.audio.resample import resample

__all__ = [
    "AudioFormat",
    "Clip",
    "decode_audio",
    "encode_audio",
    "encode_flac",
    "prepare_reference",
    "resample",
    "to_int16",
    "transcript_for",
    "wav_bytes",
]
