"""New voice: clips, their words, a name and the speaker's consent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import gradio as gr

from engine.audio.transcription import can_transcribe
from web.tabs.new_voice.clip_server import ClipServer
from web.tabs.new_voice.handlers import Cloning
from web.tabs.new_voice.sentences import SCRIPTS
from web.ui.components import clip_input
from web.ui.wiring import Shared, line, quick, title

if TYPE_CHECKING:
    from web.context import House

# The answer to Save is seen, and the keyboard is where the first thing is missing.
SHOW = """() => requestAnimationFrame(() => {
  const notice = document.querySelector('#rp-form-notice .rp-notice');
  if (notice?.dataset.field) document.querySelector(notice.dataset.field)?.focus();
  notice?.scrollIntoView({ block: 'nearest' });
})"""
# What was missing may be there by now.
FORGET = "(said) => (said?.includes('rp-bad') ? '' : said)"
# Nothing is said here of a voice that was saved: Speak is shown by then.
WRITE = """() => {
  if (!document.querySelector('#rp-form-notice .rp-notice')) document.querySelector('#rp-text textarea')?.focus();
}"""


def build(house: House, shared: Shared) -> None:
    """Lays out the tab and ties its events."""
    events, label = Cloning(house), house.label
    title(label("new.title"))
    clips = clip_input(ClipServer(house).functions(), scripts=list(SCRIPTS), dictates=can_transcribe())
    with gr.Row():
        name = gr.Textbox(label=label("new.name"), max_lines=1, min_width=140, elem_id="rp-name")
        speaker = gr.Textbox(
            label=label("new.speaker"),
            placeholder=label("new.speaker_hint"),
            max_lines=1,
            min_width=140,
            elem_id="rp-speaker",
        )
    agreed = gr.Checkbox(label=label("new.consent_blank"), value=False, elem_id="rp-consent")
    trouble = line("rp-form-notice")
    save = gr.Button(label("new.save"), variant="primary", elem_id="rp-save")
    # One event of both, so that the last letter has the last word.
    typed = partial(gr.on, [name.change, speaker.change])
    quick(typed, events.sentence, [name, speaker], agreed, trigger_mode="always_last")
    gr.on([clips.change, name.input, agreed.input], None, trouble, trouble, js=FORGET, api_visibility="private")
    asked = quick(save.click, events.begin, None, trouble)
    saved = asked.then(
        events.save_in_turn,
        [clips, name, speaker, agreed, shared.token],
        [trouble, clips, name, speaker, agreed, shared.picker, shared.notice, shared.tabs, shared.bell],
        show_progress="hidden", preprocess=False, api_visibility="private", concurrency_limit=None,
    )  # fmt: skip
    saved.then(None, js=WRITE)
    trouble.change(None, js=SHOW)
