"""The voice dropdown of the Speak tab, which several tabs update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InvalidInput
from engine.sentences import Sentence
from studio.voices.available_voices import ModelVoice
from web.ui.payloads import Payload, SelectedId

if TYPE_CHECKING:
    from studio.voices.available_voices import ListedVoice
    from web.ui.i18n import Words


class SelectedVoice(Payload):
    """The selected voice, or the one selected when the page was last open."""

    voice: SelectedId


def select_voice(voices: Sequence[ListedVoice], wanted: Any, words: Words) -> gr.Dropdown:
    """Return the picker with these voices. Selects the wanted one, else the first."""
    ids = [voice.id for voice in voices]
    selected = wanted if wanted in ids else next(iter(ids), None)
    return gr.Dropdown(choices=_choices(voices, words), value=selected)


def update_choices(voices: Sequence[ListedVoice], selected: Any, words: Words) -> gr.Dropdown:
    """Return the picker with these voices. The selection is kept unless its voice is gone.

    The value is left unset, so that this response does not undo a selection made in the meantime.
    """
    if any(voice.id == selected for voice in voices):
        return gr.Dropdown(choices=_choices(voices, words))
    return select_voice(voices, selected, words)


def voice_label(voice: ListedVoice, words: Words) -> str:
    """Return a voice's name for lists."""
    if isinstance(voice, ModelVoice):
        return words("voice.model_label", name=voice.name)
    return words("voice.sample_label", name=voice.name) if voice.shared else voice.name


def description_of(voice: ListedVoice, words: Words) -> str:
    """Return a voice's description, translated for sample voices that come with Reprise."""
    if isinstance(voice, ModelVoice):
        return words("voice.of_model")
    sample = Sentence(f"sample.{voice.name.casefold()}")
    return words.write(sample) if voice.shared and voice.description == str(sample) else voice.description


def require_voice(voice_id: Any, words: Words) -> str:
    """Return the id of the selected voice. Raises InvalidInput if none is selected."""
    if not isinstance(voice_id, str) or not voice_id:
        raise InvalidInput(words("voice.none_picked"))
    return voice_id


def _choices(voices: Sequence[ListedVoice], words: Words) -> list[tuple[str, str]]:
    return [(voice_label(voice, words), voice.id) for voice in voices]
