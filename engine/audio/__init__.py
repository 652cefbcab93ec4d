"""Reference clips and takes: decoding, voice activity detection, preparation, the reference doctor, encoding."""

from engine.audio.decode import decode_audio
from engine.audio.output.encode import AudioFormat, encode_audio, to_int16, wav_bytes
from engine.audio.reference import Clip, prepare_reference, transcript_for
from engine.audio.resample import resample

__all__ = [
    "AudioFormat",
    "Clip",
    "decode_audio",
    "encode_audio",
    "prepare_reference",
    "resample",
    "to_int16",
    "transcript_for",
    "wav_bytes",
]
