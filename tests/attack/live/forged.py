"""The forged events of `tests.attack.inputs.events` against the real app, with a visitor's cookie."""

from tests.attack.attack import Attack, Broken, once
from tests.attack.live.guest import Guest
from tests.attack.live.server import shared_server

CALLS = 100  # of one case


def _forge(number: int) -> int:
    from tests.attack.inputs.events import forge_events

    guest = Guest(shared_server("--owners", "browser"))
    report = forge_events(guest.server.url, count=CALLS, seed=number, headers={"Cookie": guest.cookies})
    if report.failures:
        raise Broken("\n".join(report.failures[:20]))
    guest.server.check_log()
    return CALLS


FORGED = Attack("forged events", "values that no page sends, in every event", once, _forge, 20, 240.0, None, alone=True)
