"""English sentences of the doctor, by key. `{value}` is a finding's number, rounded by `Finding.parameters`."""

from collections.abc import Mapping
from types import MappingProxyType

from engine.audio import reference

SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "length.good": "The clip lasts {value} s, which is enough.",
        "length.too_short": "The clip lasts only {value} s: record at least 5 s, ideally 8 to 15.",
        "length.short": "The clip lasts {value} s: a voice sounds better with 8 to 15 s, so record more.",
        "length.long": "The clip lasts {value} s, but only 30 s can be used: choose the best 8 to 15 s.",
        "speech.good": "{value} % of the clip is speech.",
        "speech.silence_around": "Only {value} % of the clip is speech: trim the silence.",
        "speech.silence_inside": "Only {value} % of the clip is speech: shorten the pauses.",
        "speech.silent": reference.IS_SILENT,
        "speech.none": reference.NO_SPEECH,
        "speech.little": "Less than a second of the clip is speech: record at least 5 s, ideally 8 to 15.",
        "pauses.good": "There is no long silence between the words.",
        "pauses.long": "There is a silence of {value} s between the words: shorten the pauses, or cut the clip there.",
        "clipping.good": "Nothing is clipped.",
        "clipping.some": reference.SOUNDS_CLIPPED,
        "clipping.much": "The clip is clipped, which cannot be repaired well: lower the level and record again.",
        "clipping.beyond_use": reference.IS_CLIPPED,
        "loudness.good": "The loudness is right ({value} LUFS).",
        "loudness.loud": "The clip is very loud ({value} LUFS): level it.",
        "loudness.quiet": "The clip is very quiet ({value} LUFS): level it, or record closer to the microphone.",
        "noise.good": "The voice is {value} dB above the noise.",
        "noise.audible": "Noise or echo is audible, {value} dB below the voice, and would be cloned with it: "
        "record in a quiet room, closer to the microphone.",
        "noise.loud": "Noise or echo is loud, only {value} dB below the voice, and would be cloned with it: "
        "record in a quiet room, closer to the microphone.",
        "rumble.good": "There is no hum or rumble under the voice.",
        "rumble.present": "There is hum or rumble under the voice: remove it.",
        "bandwidth.good": "The speech is not cut off below {value} kHz.",
        "bandwidth.dull": "The speech ends at {value} kHz, as after heavy compression, so the voice will sound dull: "
        "use the original recording if there is one.",
        "bandwidth.telephone": "The speech ends at {value} kHz, as on a telephone, and so will the voice: "
        "record with a better microphone, or use the original recording.",
        "voices.good": "Nothing sounds like a second voice.",
        "voices.unknown": "There is too little speech to tell whether only one person speaks: listen and check.",
        "voices.unlike": "Parts of the clip sound different: if two people speak, keep only one person's part.",
        "voices.two": "Two people seem to speak: if so, keep a part in which only one does.",
        "transcript.good": "The transcript's length fits the speech.",
        "transcript.empty": "The transcript is empty: write down the words that are spoken in the clip.",
        "transcript.long": "The transcript has too many words for the speech, about {expected} s for {spoken} s: "
        "is it from a longer clip, or the text to speak?",
        "transcript.short": "The transcript has too few words for the speech, about {expected} s for {spoken} s: "
        "are some of the spoken words missing?",
        "fix.rumble": "Remove the rumble",
        "fix.excerpt": "Choose the best 8–15 s",
        "fix.trim": "Trim the silence",
        "fix.pauses": "Shorten the pauses",
        "fix.level": "Level the loudness",
    }
)
