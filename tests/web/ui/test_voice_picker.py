"""Names and descriptions of voices in lists."""

from dataclasses import replace

from storage import VoiceLibrary
from storage.voices.sample_voices import install_samples
from studio.voices.available_voices import BuiltInSpeaker
from tests.support.fake_engine import voice
from web.ui.i18n import Translations
from web.ui.voice_picker import description_of, voice_label

GERMAN = Translations.load().texts_for("de")


def test_samples_and_voices_of_the_model_are_described_in_the_page_s_language(library: VoiceLibrary) -> None:
    install_samples(library)
    sample = library.list()[0]
    own = library.get(library.add(replace(voice(f"{sample.name} 2"), description=sample.description)).id)
    speaker = BuiltInSpeaker("uncle_fu", description="A seasoned voice.")
    assert [voice_label(each, GERMAN) for each in (sample, own, speaker)] == [
        f"{sample.name} (Beispiel)", f"{sample.name} 2", "Uncle Fu (eingebaut)"
    ]  # fmt: skip
    translated = description_of(sample, GERMAN)
    assert translated != sample.description != ""
    assert description_of(own, GERMAN) == sample.description
    changed = replace(sample, description="Another text.")
    assert description_of(changed, GERMAN) == "Another text."
    assert description_of(speaker, GERMAN) == "Eine eingebaute Stimme des Modells"
