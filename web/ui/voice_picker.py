"""The voice dropdown of the Speak tab, which several tabs update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from engine.errors import InvalidInput
from engine.messages import UserMessage
from studio.voices.available_voices import BuiltInSpeaker
from web.ui.payloads import Payload, SelectedId

if TYPE_CHECKING:
    from studio.voices.available_voices import ListedVoice
    from web.ui.i18n import Texts


class SelectedVoice(Payload):
    """A voice that the page sends, such as the selected one; "" if invalid."""

    voice: SelectedId


def select_voice(voices: Sequence[ListedVoice], wanted: Any, texts: Texts) -> gr.Dropdown:
    """Return the picker with these voices. Selects the wanted one, else the first."""
    ids = [voice.id for voice in voices]
    selected = wanted if wanted in ids else next(iter(ids), None)
    return gr.Dropdown(choices=_choices(voices, texts), value=selected)


def update_choices(voices: Sequence[ListedVoice], selected: Any, texts: Texts) -> gr.Dropdown:
    """Return the picker with these voices. The selection is kept unless its voice is gone.

    The value is left unset, so that this response does not undo a selection made in the meantime.
    """
    if any(voice.id == selected for voice in voices):
        return gr.Dropdown(choices=_choices(voices, texts))
    return select_voice(voices, selected, texts)


def voice_label(voice: ListedVoice, texts: Texts) -> str:
    """Return a voice's name for lists."""
    if isinstance(voice, BuiltInSpeaker):
        return texts("voice.model_label", name=voice.name)
    return texts("voice.sample_label", name=voice.name) if voice.shared else voice.name


def description_of(voice: ListedVoice, texts: Texts) -> str:
    """Return a voice's description, translated for sample voices that come with Reprise."""
    if isinstance(voice, BuiltInSpeaker):
        return texts("voice.of_model")
    sample = UserMessage(f"sample.{voice.name.casefold()}")
    return texts.write(sample) if voice.shared and voice.description == str(sample) else voice.description


def require_voice(voice_id: Any, texts: Texts) -> str:
    """Return the id of the selected voice. Raises InvalidInput if none is selected."""
    if not isinstance(voice_id, str) or not voice_id:
        raise InvalidInput(texts("voice.none_picked"))
    return voice_id


def _choices(voices: Sequence[ListedVoice], texts: Texts) -> list[tuple[str, str]]:
    return [(voice_label(voice, texts), voice.id) for voice in voices]
