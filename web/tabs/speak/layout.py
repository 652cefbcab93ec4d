"""Layout of the Speak tab: voice, text, settings and takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr

from web.draft import KEEP_VOICE
from web.tabs.speak.handlers import SpeakHandlers
from web.tabs.speak.proof import TakeProofHandlers
from web.tabs.speak.rail import RailHandlers
from web.tabs.speak.settings import NAMES, build_settings
from web.tabs.speak.streaming import TakeStreams
from web.tabs.speak.take_list import TakeListHandlers
from web.ui.components import take_list, voice_card, voice_rail
from web.ui.events import REPEATED, broadcast_change, keeping, listen, listen_to_marks, show
from web.ui.shared import SharedComponents

if TYPE_CHECKING:
    from web.context import WebContext

FIRST_TEXT = "The rain has stopped, and the first birds are singing again. Now it is your turn to say something."
TELL_VOICE = "(id) => { document.dispatchEvent(new CustomEvent('reprise:picked', { detail: id })); }"
SHOW_NEW_VOICE = "() => ({ __type__: 'update', selected: 'new' })"
BEGIN = "(...values) => reprise.beginSpeaking(values)"


def build(context: WebContext, shared: SharedComponents) -> None:
    """Lay out the tab and register its event listeners."""
    label = context.label
    with gr.Row(elem_id="rp-studio"):
        with gr.Column(elem_id="rp-rail"):
            rail = voice_rail()
            new = gr.Button(label("tab.new"), size="md", elem_id="rp-to-new")
        with gr.Column(elem_id="rp-editor"):
            with gr.Row(elem_id="rp-voice"):
                card = voice_card()
                shared.picker.render()
            shared.notice.render()
            shared.text.render()
            shared.hints.render()
            with gr.Row(elem_id="rp-buttons"):
                speak = gr.Button(label("speech.speak"), variant="primary", scale=3, min_width=140, elem_id="rp-speak")
                stop = gr.Button(label("speech.stop"), scale=1, min_width=90, elem_id="rp-stop")
            with gr.Accordion(
                label("speech.advanced"), open=False, elem_id="rp-advanced", elem_classes="rp-fold"
            ) as accordion:
                settings = build_settings(context)
        with gr.Column(elem_id="rp-side"):
            takes = take_list()
    shared.settings[:] = [*settings, accordion]
    shared.persisted.extend([shared.text, *settings])
    new.click(None, None, shared.tabs, js=SHOW_NEW_VOICE, queue=False, api_visibility="private")
    handlers = SpeakHandlers(context)
    _listen_to_voice(handlers, shared, card)
    _listen_to_rail(RailHandlers(context), shared, rail)
    _listen_to_speech(context, handlers, shared, speak, stop, settings, takes)
    _listen_to_takes(context, shared, takes, settings[0], accordion)


def _listen_to_voice(handlers: SpeakHandlers, shared: SharedComponents, card: gr.HTML) -> None:
    picker, token, hints = shared.picker, shared.token, shared.hints
    picker.change(None, picker, None, js=KEEP_VOICE)
    picker.change(None, picker, None, js=TELL_VOICE)
    for event in (picker.change, card.renew_links, shared.changes.voices):
        show(event, handlers.show_voice, [picker, token], [card, hints])
    speed = shared.settings[NAMES.index("speed")]
    for part in (shared.text, speed):
        part.change(None, [shared.text, speed], hints, js="(text, speed) => ({ text, speed })")


def _listen_to_rail(handlers: RailHandlers, shared: SharedComponents, rail: gr.HTML) -> None:
    picker, token = shared.picker, shared.token
    for event in (rail.renew_links, shared.changes.voices):
        show(event, handlers.list_voices, token, rail)
    listen_to_marks(rail.mark, handlers.mark_voice, token, rail)
    chose = keeping(picker, "return reprise.picking;")
    rail.pick(None, None, picker, js=chose, queue=False, api_visibility="private")


def _listen_to_speech(
    context: WebContext,
    handlers: SpeakHandlers,
    shared: SharedComponents,
    speak: gr.Button,
    stop: gr.Button,
    settings: list[Any],
    takes: gr.HTML,
) -> None:
    player, streams = shared.player, TakeStreams(context, shared.demo)
    form = [shared.text, shared.picker, *settings, shared.token]
    # The notice has been read. Before the take, because Gradio runs the listeners of an event one after the other.
    for event in (speak.click, shared.picker.input, shared.hints.written):
        event(None, None, shared.notice, js="() => ''")
    listeners = [
        listen(speak.click, streams.stream(handlers.speak), [*form, player], player, js=BEGIN, queue=True),
        listen(takes.again, streams.stream(handlers.speak_again), [shared.token], player, queue=True),
    ]
    gathered = streams.gather(handlers.speak_more)
    more = listen(takes.speak_more, gathered, form, takes, trigger_mode="multiple", queue=True)
    more.failure(None, js="() => { window.repriseTakes.endBatches(); }")
    check = streams.steps(TakeProofHandlers(context).check)
    checked = listen(takes.check, check, [shared.token], takes, trigger_mode="multiple", queue=True)
    checked.failure(None, js="() => { window.repriseTakes.endCheck(); }")
    listen(checked.then, lambda: broadcast_change("history"), None, shared.changes)
    listen(takes.stop_speech, handlers.stop_more, None, None, js=REPEATED, trigger_mode="multiple")
    for listener in listeners:
        listener.failure(None, js="() => { window.reprisePlayer.refused(); }")
        listener.then(None, js="() => { window.reprisePlayer.over(); }")
        listen(listener.then, lambda: broadcast_change("history"), None, shared.changes)
    stop.click(None, js="() => { window.reprisePlayer.stopAll(); }")
    for component in (shared.text, settings[0]):
        component.change(None, js="() => { window.reprisePlayer?.clearMessage(); }")
    listen(player.stop_speech, handlers.stop, None, None, js=REPEATED, trigger_mode="multiple")
    listen(player.renew_links, handlers.renew_links, shared.token, player, trigger_mode="multiple")


def _listen_to_takes(
    context: WebContext, shared: SharedComponents, takes: gr.HTML, seed: gr.Textbox, accordion: gr.Accordion
) -> None:
    handlers, changed = TakeListHandlers(context), [takes, shared.notice, shared.changes]
    show(takes.renew_links, handlers.list_takes, [shared.token], takes)
    listen_to_marks(takes.star, handlers.star_take, [shared.token], changed)
    erased = listen(takes.erase, handlers.delete_take, [shared.token], changed, trigger_mode="multiple")
    erased.failure(None, js="() => { reprise.deletionsFailed('rp-takes'); }")
    show(takes.seed, handlers.reuse_seed, None, [seed, accordion])
    shared.changes.history(None, None, None, js="() => { window.repriseTakes?.refresh(); }")
