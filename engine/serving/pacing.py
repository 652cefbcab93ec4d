"""How much audio to make before it is sent: soon at first, then in pieces that grow while the listener has enough.

Large pieces cost less a frame; a piece must be there before the listener has heard all of those before it.
"""

from bisect import bisect_right

# Frames of a piece. Few sizes, so that the pieces of many takes can be decoded together.
SIZES = (4, 8, 16)
# Making a piece may take this share of what the listener still has to hear.
SHARE = 0.6


class Pacer:
    """The listener of one take, as the engine imagines it: it starts with the first piece and never pauses.

    frame_seconds: of audio in a frame. Times are seconds on any one clock.
    """

    def __init__(self, frame_seconds: float) -> None:
        self._frame_seconds = frame_seconds
        self._per_frame = frame_seconds  # seconds that a frame takes to make, of late
        self._heard_until: float | None = None  # when the listener will have heard all that was sent
        self._sent_last = 0.0
        self.underruns = 0
        self.starved = 0.0  # seconds without anything to hear, once it had begun

    def next_frames(self, now: float) -> int:
        """How many frames the next piece should have."""
        if self._heard_until is None:
            return SIZES[0]
        affordable = SHARE * (self._heard_until - now) / self._per_frame
        return SIZES[max(0, bisect_right(SIZES, affordable) - 1)]

    def sent(self, frames: int, now: float) -> None:
        """A piece has been sent."""
        if self._heard_until is None:
            self._heard_until = now
        else:
            self._per_frame += 0.5 * ((now - self._sent_last) / frames - self._per_frame)
            if now > self._heard_until:
                self.underruns += 1
                self.starved += now - self._heard_until
                self._heard_until = now
        self._sent_last = now
        self._heard_until += frames * self._frame_seconds

    def withdrawn(self, frames: int, now: float) -> None:
        """The last frames are to be replaced; what of them was heard already stays heard."""
        if self._heard_until is not None:
            self._heard_until = min(self._heard_until, max(now, self._heard_until - frames * self._frame_seconds))
