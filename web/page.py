"""The page: its layout, and which event does what. What it does is in `web.voices` and `web.speaking`."""

from __future__ import annotations

import json
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from web.components import clip_input, courier, player, read
from web.sentences import running
from web.speaking import Speaking
from web.voices import CONSENT, VoiceEvents

if TYPE_CHECKING:
    from engine.engine import Engine
    from storage import VoiceLibrary

FIRST_TEXT = "The rain has stopped, and the first birds are singing again. Now it is your turn to say something."
# About twelve seconds, with most sounds of English.
SCRIPT = (
    "On Thursday my cousin Joyce brought fresh oranges, a jar of plum jam and a huge yellow kite to the beach. "
    "We laughed all afternoon, watched the boats sail past, and were home just before the thunder."
)
HOURS_KEPT = 6  # finished takes and forgotten uploads; longer than any job
QUEUE_SIZE = 20  # waiting; more are refused with a sentence
REMEMBERED = "() => localStorage.getItem('reprise.voice')"
REMEMBER = "(id) => { if (id) localStorage.setItem('reprise.voice', id); }"
# The player makes the ticket in the click itself, because browsers let sound start only then.
BEGIN = "(...values) => [...values.slice(0, -1), window.reprisePlayer.begin()]"


def create_app(engine: Engine, library: VoiceLibrary, folder: str | Path) -> gr.Blocks:
    """The page over an engine and a library; `web.serve` launches it.

    `folder`: where Gradio keeps uploads and finished takes (its GRADIO_TEMP_DIR); no place for the library.
    """
    kept = HOURS_KEPT * 3600
    with gr.Blocks(title="Reprise", analytics_enabled=False, delete_cache=(600, kept)) as demo:
        heading = gr.HTML(_heading(engine), elem_id="rp-heading", apply_default_css=False)
        # Anew for every visitor: it says how many are speaking.
        demo.load(partial(_heading, engine), None, heading, show_progress="hidden", api_visibility="private")
        with gr.Row(elem_id="rp-columns", equal_height=False):
            with gr.Column(scale=5, min_width=320, elem_id="rp-voice"):
                picker = _voice_column(VoiceEvents(engine, library, folder), demo)
            with gr.Column(scale=7, min_width=320, elem_id="rp-speech"):
                _speech_column(Speaking(engine, library, folder), engine, picker)
    demo.queue(max_size=QUEUE_SIZE, api_open=False)
    return demo


def _heading(engine: Engine) -> str:
    remarks = f'<p class="rp-model-notice">{escape(engine.notice)}</p>' if engine.notice else ""
    return f"""
<header class="rp-heading">
  <div><h1>Reprise</h1><p>Clone a voice, and hear it speak as the speech is made.</p></div>
  <aside class="rp-model" aria-label="Model">
    <p>Model <strong>{escape(engine.name)}</strong> on {escape(engine.device)}, {escape(running(engine.status()))}</p>
    {remarks}
  </aside>
</header>"""


WELCOME = """
<div class="rp-welcome"><h2>Welcome</h2><p>There is no voice here yet. Make your first one: record or choose a
clip, write down its words, give it a name. It stays on the machine that runs this page.</p></div>"""


def _voice_column(events: VoiceEvents, demo: gr.Blocks) -> gr.Dropdown:
    gr.HTML("<h2>Voice</h2>", elem_classes="rp-title", apply_default_css=False)
    welcome = gr.HTML(WELCOME, visible=False, apply_default_css=False)
    picker = gr.Dropdown(label="Speak with", choices=[], value=None, elem_id="rp-picker")
    said = gr.HTML("", elem_id="rp-shelf-notice", apply_default_css=False)
    with gr.Accordion("Manage this voice", open=False, visible=False, elem_id="rp-manage") as manage:
        shelf = [picker, welcome, manage]
        _managing(events, shelf, said)
    form = _new_voice(events, shelf, said)
    bring = gr.UploadButton("Import a voice file", size="sm", elem_id="rp-import")
    _on(bring.upload, events.take_in, [bring, picker], [*shelf, said])
    _on(demo.load, events.arrive, [picker], [*shelf, form], js=REMEMBERED)
    picker.change(None, picker, None, js=REMEMBER)
    return picker


def _managing(events: VoiceEvents, shelf: list[Any], said: gr.HTML) -> None:
    picker = shelf[0]
    about = gr.HTML("", apply_default_css=False)
    with gr.Row(equal_height=True, elem_classes="rp-inline"):
        new_name = gr.Textbox(label="Name", max_lines=1, scale=3, min_width=140, elem_id="rp-rename-to")
        rename = gr.Button("Rename", scale=1, min_width=90, size="md", elem_id="rp-rename")
    with gr.Row():
        export = gr.Button("Export", size="sm", min_width=90, elem_id="rp-export")
        ask = gr.Button("Delete …", size="sm", min_width=90, elem_id="rp-delete")
    with gr.Column(visible=False, elem_id="rp-sure") as question:
        asked = gr.HTML("", apply_default_css=False)
        with gr.Row():
            sure = gr.Button("Delete for good", size="sm", min_width=90, elem_id="rp-delete-sure")
            keep = gr.Button("Keep it", size="sm", min_width=90)
    parcel = courier()
    _on(picker.change, events.look, [picker], [new_name, about, question])
    _on(rename.click, events.rename, [picker, new_name], [*shelf, said])
    _on(new_name.submit, events.rename, [picker, new_name], [*shelf, said])
    _on(export.click, events.export, [picker], [parcel, said])
    _on(ask.click, events.ask, [picker], [question, asked])
    _on(sure.click, events.delete, [picker], [*shelf, said, question])
    keep.click(lambda: gr.Column(visible=False), None, question, queue=False, api_visibility="private")


def _new_voice(events: VoiceEvents, shelf: list[Any], said: gr.HTML) -> gr.Accordion:
    with gr.Accordion("New voice", open=False, elem_id="rp-new") as form:
        clip = clip_input()
        words = gr.Textbox(
            label="The words in this clip",
            info="Exactly what is said in the recording, not what you want spoken later.",
            lines=3, max_lines=6, elem_id="rp-transcript",
        )  # fmt: skip
        script = gr.Button("Give me something to read", size="sm", elem_id="rp-script")
        with gr.Row():
            name = gr.Textbox(label="Name of the voice", max_lines=1, min_width=140, elem_id="rp-name")
            speaker = gr.Textbox(
                label="Speaker",
                placeholder="if not the same",
                max_lines=1,
                min_width=140,
                elem_id="rp-speaker",
            )
        agreed = gr.Checkbox(label=CONSENT, value=False, elem_id="rp-consent")
        save = gr.Button("Save voice", variant="primary", elem_id="rp-save")
        trouble = gr.HTML("", elem_id="rp-form-notice", apply_default_css=False)
    script.click(None, None, words, js=f"() => {json.dumps(SCRIPT)}")
    save.click(
        events.save,
        [clip, words, name, speaker, agreed, shelf[0]],
        [*shelf, trouble, said, form, clip, words, name, speaker, agreed],
        show_progress="hidden", preprocess=False, api_visibility="private", concurrency_id="clips",
    )  # fmt: skip
    return form


def _speech_column(events: Speaking, engine: Engine, picker: gr.Dropdown) -> None:
    gr.HTML("<h2>Speech</h2>", elem_classes="rp-title", apply_default_css=False)
    text = gr.Textbox(label="Text to speak", value=FIRST_TEXT, lines=6, max_lines=16, elem_id="rp-text")
    with gr.Row(elem_id="rp-buttons"):
        speak = gr.Button("Speak", variant="primary", scale=3, min_width=140, elem_id="rp-speak")
        stop = gr.Button("Stop", scale=1, min_width=90, elem_id="rp-stop")
    stage = player(engine.sample_rate)
    with gr.Accordion("Advanced", open=False, elem_id="rp-advanced"):
        settings = _settings()
    speaking = speak.click(
        events.speak,
        [text, picker, *settings, stage],
        stage,
        js=BEGIN, show_progress="minimal", preprocess=False, api_visibility="private",
        concurrency_id="speech", concurrency_limit=engine.slots,
    )  # fmt: skip
    speaking.failure(None, js="() => { window.reprisePlayer.refused(); }")
    stop.click(None, js="() => { window.reprisePlayer.stop(); }")
    stage.halt(events.stop, None, None, queue=False, api_visibility="private")
    stage.abandon(None, None, None, cancels=[speaking])


def _settings() -> list[Any]:
    with gr.Row():
        seed = gr.Textbox(  # not a Number: that makes 0 of an empty field
            label="Seed", info="The same seed gives the same take.", placeholder="a new one each time",
            max_lines=1, min_width=140, elem_id="rp-seed",
        )  # fmt: skip
        temperature = gr.Slider(0, 2, 0.7, step=0.05, label="Temperature", info="Higher is livelier.", min_width=140)
    with gr.Row():
        top_p = gr.Slider(0.05, 1, 0.8, step=0.05, label="Top-p", info="Share of likely choices kept.", min_width=140)
        top_k = gr.Slider(1, 200, 30, step=1, label="Top-k", info="At most this many choices.", min_width=140)
    return [seed, temperature, top_p, top_k]


def _on(event: Any, fn: Any, inputs: list[Any], outputs: list[Any], **more: Any) -> None:
    """A quick event: past the queue, out of the public API. Its values come as the browser sent them."""
    event(
        fn, inputs, outputs,
        queue=False, show_progress="hidden", api_visibility="private", preprocess=False, **more,
    )  # fmt: skip


def looks() -> dict[str, Any]:
    """What `launch` must be given for the page to look right. No font or style comes from elsewhere."""
    sans = ("ui-sans-serif", "system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif")
    mono = ("ui-monospace", "SFMono-Regular", "Consolas", "monospace")
    theme = gr.themes.Base(primary_hue="teal", neutral_hue="stone", radius_size="lg", font=sans, font_mono=mono)
    # As `css`, Gradio would rewrite every selector.
    return {"theme": theme.set(**_THEME), "head": f"<style>{read('page.css')}</style>"}


_THEME = {
    "body_text_color_subdued": "*neutral_600",
    "body_text_color_subdued_dark": "*neutral_400",
    "block_info_text_color": "*neutral_600",
    "block_info_text_color_dark": "*neutral_400",
    "block_title_text_color": "*neutral_800",
    "block_title_text_color_dark": "*neutral_200",
    "button_secondary_background_fill": "white",
    "button_secondary_background_fill_dark": "*neutral_800",
    "button_secondary_background_fill_hover": "*neutral_100",
    "button_secondary_background_fill_hover_dark": "*neutral_700",
    "button_secondary_border_color": "*neutral_300",
    "button_secondary_border_color_dark": "*neutral_600",
    "button_border_width": "1px",
    "slider_color": "*primary_600",
    "slider_color_dark": "*primary_500",
    "body_background_fill": "*neutral_50",
    "body_background_fill_dark": "*neutral_950",
    "block_background_fill": "white",
    "block_background_fill_dark": "*neutral_900",
    "block_border_width": "0px",
    "block_shadow": "none",
    "block_label_text_weight": "500",
    "block_title_text_weight": "500",
    "input_border_width": "1px",
    "input_background_fill": "*neutral_50",
    "input_background_fill_dark": "*neutral_800",
    "button_primary_background_fill": "*primary_700",
    "button_primary_background_fill_hover": "*primary_800",
    "button_primary_background_fill_dark": "*primary_700",
    "button_primary_background_fill_hover_dark": "*primary_600",
    "button_primary_text_color": "white",
    "button_primary_text_color_dark": "white",
}
