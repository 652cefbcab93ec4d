"""The Speak tab's settings: components, and updates when another model is loaded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr

from engine.languages import language_tags
from studio.provenance.provenance import public_name
from studio.takes.settings import FASTEST, SLOWEST
from web.ui.events import keep_choices, listen, show
from web.ui.i18n import own_name
from web.ui.payloads import Payload, ShortText, default_if_invalid, parse_payload

if TYPE_CHECKING:
    from web.context import WebContext
    from web.ui.i18n import Texts

# The order of `settings`. model: the one that temperature, top-p and top-k were set for; a hidden field.
NAMES = ("seed", "temperature", "top_p", "top_k", "paragraph_pause", "speed", "language", "model")


class ShownSettings(Payload):
    """The language and model in a page's settings."""

    language: Annotated[ShortText, default_if_invalid("")]
    model: Annotated[ShortText, default_if_invalid("")]


class SettingsHandlers:
    """Event handlers of the settings."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    def defaults(self, request: gr.Request) -> list[Any]:
        """Outputs: all settings."""
        return [*default_values(self._context), self._languages("", self._context.texts(request)), self._model]

    def follow_model(self, language: Any, model: Any, request: gr.Request) -> list[Any]:
        """Outputs: temperature, top-p and top-k (reset to defaults if they were set for another model); the loaded
        model's languages; its name.
        """
        shown = parse_payload(ShownSettings, language=language, model=model)
        sampling = [gr.skip()] * 3 if shown.model == self._model else default_values(self._context)[1:4]
        return [*sampling, self._languages(shown.language, self._context.texts(request)), self._model]

    @property
    def _model(self) -> str:
        return public_name(self._context.engine.info.name)

    def _languages(self, chosen: str, texts: Texts) -> gr.Dropdown:
        """Return the language dropdown, hidden for models without a language option."""
        tags = language_tags(self._context.engine.info.capabilities.languages)
        choices = [(texts("speech.any_language"), ""), *((own_name(tag), tag) for tag in tags)]
        return gr.Dropdown(choices=choices, value=chosen if chosen in tags else "", visible=bool(tags))


def default_values(context: WebContext) -> list[Any]:
    """Return the loaded model's default seed, temperature, top-p and top-k, a paragraph pause of 0, and speed 1."""
    defaults = context.engine.info.default_options
    return ["", defaults.temperature, defaults.top_p, defaults.top_k, 0, 1]


def build_settings(context: WebContext) -> list[Any]:
    """Lay out the settings and return their components in the order of `NAMES`."""
    label, handlers = context.label, SettingsHandlers(context)
    seed, temperature, top_p, top_k, paragraph_pause, speed = default_values(context)
    language = gr.Dropdown(  # `follow_model` fills it in and shows it
        label=label("speech.language"), info=label("speech.language_info"),
        choices=[("", "")], value="", visible=False, elem_id="rp-language",
    )  # fmt: skip

    def slider(name: str, elem_id: str, least: float, most: float, value: float, step: float) -> gr.Slider:
        text, info = label(f"speech.{name}"), label(f"speech.{name}_info")
        return gr.Slider(least, most, value, step=step, elem_id=elem_id, label=text, info=info, min_width=140)

    with gr.Row():
        parts: list[Any] = [
            gr.Textbox(  # not a Number, which turns an empty field into 0
                seed, label=label("speech.seed"), info=label("speech.seed_info"),
                placeholder=label("speech.seed_hint"), max_lines=1, min_width=140, elem_id="rp-seed",
            ),
            slider("temperature", "rp-temperature", 0.1, 1.5, temperature, 0.05),
        ]  # fmt: skip
    with gr.Row():
        parts += [slider("top_p", "rp-top-p", 0.1, 1, top_p, 0.05), slider("top_k", "rp-top-k", 1, 100, top_k, 1)]
    with gr.Row():
        parts += [
            slider("paragraphs", "rp-paragraph-pause", 0, 5, paragraph_pause, 0.1),
            slider("speed", "rp-take-speed", SLOWEST, FASTEST, speed, 0.05),
        ]
    model = gr.Textbox(public_name(context.engine.info.name), visible=False, elem_id="rp-settings-model")
    parts += [language, model]
    reset = gr.Button(label("speech.reset"), size="sm", elem_id="rp-reset")
    listen(reset.click, handlers.defaults, None, parts)
    keep_choices(language)
    return parts


def keep_to_model(context: WebContext, settings: Sequence[Any], events: Iterable[Any]) -> None:
    """Update the settings for the loaded model after these events. settings: in the order of `NAMES`."""
    part = dict(zip(NAMES, settings, strict=False))
    outputs = [part[name] for name in ("temperature", "top_p", "top_k", "language", "model")]
    for event in events:
        show(event, SettingsHandlers(context).follow_model, [part["language"], part["model"]], outputs)


def open_if_changed(settings: Sequence[Any], event: Any) -> None:
    """Open the settings after this event if one is not at its default. settings: as in `SharedComponents`."""
    *parts, _model, accordion = settings
    defaults = json.dumps([part.value for part in parts])
    event(
        None, parts, accordion, queue=False, api_visibility="private",
        js=f"(...values) => reprise.openIfChanged(values, {defaults})",
    )  # fmt: skip
