"""Chunk sizes: small at first, so that audio starts soon, then larger while enough audio is buffered.

Large chunks cost less per frame, but each must arrive before playback reaches the end of the buffered audio.
"""

import threading
from bisect import bisect_right

# Frames of a chunk. Few sizes, so that the chunks of many takes can be decoded as one batch.
CHUNK_FRAMES = (4, 8, 16)
# Share of the buffered audio that generating the next chunk may take.
BUFFER_SHARE = 0.6


class Pacer:
    """Playback model of one take. Playback starts with the first chunk and stalls when the buffer is empty.

    It is separate from the turns because playback is continuous over all turns of a take. Thread-safe.

    frame_seconds: of audio in a frame. All times are seconds on one clock.
    lookahead: frames of the first chunk that are kept back until later ones are decoded.
    """

    def __init__(self, frame_seconds: float, lookahead: int = 0) -> None:
        self._frame_seconds, self._lookahead = frame_seconds, lookahead
        self._seconds_per_frame = frame_seconds  # recent time to generate a frame
        self._buffered_until: float | None = None  # when playback reaches the end of the sent audio
        self._sent_last = 0.0
        self._lock = threading.Lock()
        self.underruns = 0
        self.stall_seconds = 0.0  # seconds without audio after the first chunk

    def next_frames(self, now: float) -> int:
        """Return the number of frames that the next chunk should have."""
        if self._buffered_until is None:
            return CHUNK_FRAMES[0] + self._lookahead
        affordable = BUFFER_SHARE * (self._buffered_until - now) / self._seconds_per_frame
        return CHUNK_FRAMES[max(0, bisect_right(CHUNK_FRAMES, affordable) - 1)]

    def sent(self, frames: int, now: float) -> None:
        """Count a chunk that has been sent."""
        with self._lock:
            if self._buffered_until is None:
                self._buffered_until = now
            else:
                self._seconds_per_frame += 0.5 * ((now - self._sent_last) / frames - self._seconds_per_frame)
                if now > self._buffered_until:
                    self.underruns += 1
                    self.stall_seconds += now - self._buffered_until
                    self._buffered_until = now
            self._sent_last = now
            self._buffered_until += frames * self._frame_seconds

    def withdrawn(self, frames: int, now: float) -> None:
        """Take back the last frames, which will be replaced. Frames already played are not affected."""
        with self._lock:
            if self._buffered_until is not None:
                left = max(now, self._buffered_until - frames * self._frame_seconds)
                self._buffered_until = min(self._buffered_until, left)
