"""`keys`: create, list and revoke API keys."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import typer

from cli import options
from cli.context import context_of
from cli.terminal import exit_on_error, print_secret, say
from engine.errors import InvalidOption
from storage.errors import VoiceNotFound

if TYPE_CHECKING:
    from storage import Storage
    from storage.api_keys import Allowance, KeyRecord

keys = typer.Typer(
    help="Keys of programs that call the server: create, list, revoke.", no_args_is_help=True, rich_markup_mode=None
)

_OWNER = re.compile(r"local|(user|hub|browser):.+")


@keys.command()
def create(
    context: typer.Context,
    name: options.KeyName,
    owner: options.KeyOwner = "local",
    rate: options.KeyRate = None,
    quota: options.KeyQuota = None,
    days: options.KeyDays = None,
    voice: options.KeyVoices = None,
    model: options.ModelAfter = None,
    database: options.DatabaseAfter = None,
) -> None:
    """Create a key and print it. It is stored as a hash: it cannot be shown again."""
    command = context_of(context, model=model, database=database)
    from storage.api_keys import NewKey
    from storage.validation import LOCAL

    with exit_on_error():
        expires = datetime.now(UTC) + timedelta(days=days) if days else None
        owner = _owner(owner)
        new = NewKey(name, owner, expires, _allowance(rate), _allowance(quota), _voices(voice or []))
        with command.storage() as storage:
            for known in new.voices.values():
                command.check_voice(storage.voices, known, owner)
            record, key = storage.keys.create(new)
            try:
                print_secret(key)
            except OSError:
                storage.keys.revoke(record.name)  # nobody has seen it
                raise
            empty = all(voice.shared for voice in storage.voices.list(owner=owner))
        say(f"This is the key “{record.name}”. Keep it: it cannot be shown again.")
        if empty and owner != LOCAL:
            say(f"“{owner}” has no voices yet: is the name spelled as on the page?")


@keys.command("list")
def list_keys(context: typer.Context, database: options.DatabaseAfter = None) -> None:
    """List the keys, showing only the first characters of each."""
    command = context_of(context, database=database)
    from studio.access import describe_allowance

    with exit_on_error(), command.storage() as storage:
        found = storage.keys.list()
        for key in found:
            limits = [
                describe_allowance(key.rate, "request") if key.rate else "",
                f"{key.used:,} of {describe_allowance(key.quota, 'character')}" if key.quota else "",
                f"until {key.expires:%Y-%m-%d}" if key.expires else "",
                ", ".join(f"{alias} = {_voice_name(storage, key, to)}" for alias, to in key.voices.items()),
            ]
            typer.echo("\t".join([key.name, f"{key.hint}…", key.owner, *filter(None, limits)]))
        if not found:
            say("There are no keys: programs on this machine may call without one, others not at all.")


@keys.command()
def revoke(context: typer.Context, name: options.KeyName, database: options.DatabaseAfter = None) -> None:
    """Revoke a key: it is refused from now on."""
    command = context_of(context, database=database)
    with exit_on_error(), command.storage() as storage:
        storage.keys.revoke(name)
        say(f"The key “{name}” is revoked.")


def _voice_name(storage: Storage, key: KeyRecord, target: str) -> str:
    """Return the current name of the voice that an alias refers to."""
    from storage.validation import is_id

    if not is_id(target):
        return target
    try:
        return storage.voices.get(target, owner=key.owner).name
    except VoiceNotFound:
        return "a deleted voice"


def _owner(text: str) -> str:
    """Return an owner as it is stored. Raises InvalidOption."""
    owner = options.stored_owner(text)
    if not _OWNER.fullmatch(owner):
        raise InvalidOption(f"“{text}” is not an owner: write local, or user:NAME for an account of the page.")
    return owner


def _allowance(text: str | None) -> Allowance | None:
    """Parse an allowance in the syntax of `limits`: "60/minute", "1000000/30 days". Raises InvalidOption.

    Several allowances, which that syntax separates by semicolons, are refused, since one is kept.
    """
    from limits import parse_many

    from storage.api_keys import Allowance

    if text is None:
        return None
    try:
        (item,) = parse_many(text)
    except ValueError as error:
        raise InvalidOption(f"“{text}” is not a valid limit: write it as 60/minute or 1000000/month.") from error
    return Allowance(item.amount, item.get_expiry())


def _voices(texts: list[str]) -> dict[str, str]:
    """Parse aliases of voices from texts such as `alloy=Anna`. Raises InvalidOption."""
    found = {}
    for text in texts:
        alias, equals, name = (part.strip() for part in text.partition("="))
        if not (alias and equals and name):
            raise InvalidOption(f"“{text}” maps no name to a voice: write it as alloy=Anna.")
        found[alias] = name
    return found
