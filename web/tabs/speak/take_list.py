"""Handlers of the list of the session's takes. Events contain the shown ids, which are looked up under the owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import gradio as gr
from pydantic import Field

from engine.options import MAX_SEED
from storage.errors import TakeNotFound
from web.tabs.speak.views import take_view
from web.ui.events import broadcast_change, skip_on_error, with_nonce
from web.ui.messages import error_message, notice
from web.ui.payloads import Id, Ids, Payload, affected_id, parse_payload

if TYPE_CHECKING:
    from web.context import WebContext
    from web.identity.owners import Owner

Updates = tuple[Any, ...]


class ShownTakes(Payload):
    """The takes that the page shows."""

    ids: Ids


class TakeStar(ShownTakes):
    """A take and its new star state."""

    id: Id
    starred: bool


class TakeDeletion(ShownTakes):
    """A take to delete."""

    id: Id


class TakeSeed(Payload):
    """The seed of a take."""

    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]


class TakeListHandlers:
    """Event handlers of the list of takes."""

    def __init__(self, context: WebContext) -> None:
        self._context = context

    @skip_on_error(1)
    def list_takes(self, token: Any, request: gr.Request, event: gr.EventData) -> Any:
        """Output: list, with new links."""
        return list_value(self._context, self._context.owner(token, request), parse_payload(ShownTakes, event).ids)

    def star_take(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """Outputs: list, notice, change broadcast."""
        try:
            owner, star = self._context.owner(token, request), parse_payload(TakeStar, event)
            self._context.takes.star(star.id, star.starred, owner=owner.key)
            return list_value(self._context, owner, star.ids), "", broadcast_change("history")
        except Exception as error:
            return self._failure(error, request)

    def delete_take(self, token: Any, request: gr.Request, event: gr.EventData) -> Updates:
        """Outputs: list (`refused`: a take that is not deleted), notice, change broadcast."""
        try:
            owner, deletion = self._context.owner(token, request), parse_payload(TakeDeletion, event)
            self._context.takes.delete(deletion.id, owner=owner.key)
            self._context.take_proofs.forget(owner.key, deletion.id)
            return list_value(self._context, owner, deletion.ids), "", broadcast_change("history")
        except Exception as error:
            _, *others = self._failure(error, request)
            return with_nonce({"refused": affected_id(event)}), *others

    @skip_on_error(2)
    def reuse_seed(self, event: gr.EventData) -> Updates:
        """Outputs: seed, settings accordion (opened)."""
        return str(parse_payload(TakeSeed, event).seed), gr.Accordion(open=True)

    def _failure(self, error: Exception, request: gr.Request) -> Updates:
        message = notice(error_message(error, self._context.texts(request)), "bad")
        return gr.skip(), message, broadcast_change("history")


def list_value(context: WebContext, owner: Owner, ids: Ids) -> dict[str, Any]:
    """Return the list's value: the existing takes, and the ids of missing ones."""
    takes, gone = [], []
    for take_id in ids:
        try:
            take = context.takes.get(take_id, owner=owner.key)
        except TakeNotFound:
            gone.append(take_id)
        else:
            takes.append(take_view(take, owner, context.links, context.take_proofs.hearing(take_id, owner=owner.key)))
    return with_nonce({"takes": takes, "gone": gone})
