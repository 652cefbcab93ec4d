"""Clips are encoded once, one at a time, and in parts that equal the encoding of the whole clip."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.audio import prepare_reference
from engine.codec.codec import CodecEncoder
from engine.families.s2.codec import codec_files, load_codec_encoder
from engine.serving.clips import clip_encoder as encoder_module
from engine.serving.clips.clip_encoder import ENCODE_SECONDS, ClipEncoder, SingleFlight
from tests.paths import MINIATURE

CLIP = MINIATURE.parent / "speech" / "flite_slt.flac"
V = TypeVar("V")
CPU = torch.device("cpu")
FRAME, PIECE = 4, 10  # samples per frame, frames per piece
# Seconds until a test counts as hanging.
TIMEOUT = 10.0


class FakeEncoder:
    """Fake encoder that counts its clips. Rows of codes: the first sample of each frame, and the number of the part."""

    def __init__(self, gate: threading.Event | None = None, linger: float = 0.0) -> None:
        self.config = SimpleNamespace(frame_length=FRAME, frame_rate=PIECE / ENCODE_SECONDS)
        self.clips, self.inside, self.most_inside = 0, 0, 0
        self.entered, self.gate = threading.Event(), gate
        self.linger = linger
        self.lock = threading.Lock()

    def init_state(self, batch: int) -> list[int]:
        assert batch == 1
        with self.lock:
            self.clips += 1
        return []

    def encode_step(self, audio: Tensor, state: list[int]) -> Tensor:
        with self.lock:
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)
        self.entered.set()
        if self.gate is not None:
            assert self.gate.wait(TIMEOUT)
        time.sleep(self.linger)
        state.append(1)
        first = audio[0, 0, ::FRAME].long()
        with self.lock:
            self.inside -= 1
        return torch.stack((first, torch.full_like(first, len(state))))[None]


def clip_encoder(*fakes: FakeEncoder, **options: Any) -> ClipEncoder:
    """Return a clip encoder that loads `fakes` one after the other."""
    waiting = iter(fakes)
    return ClipEncoder(lambda: cast(CodecEncoder, next(waiting)), CPU, **options)


def clip(number: int, frames: int = 3) -> Tensor:
    return torch.full((frames * FRAME,), float(number))


def encode(clips: ClipEncoder, samples: Tensor) -> np.ndarray:
    return clips.encode(samples, samples.numpy().tobytes())


def run_concurrently(count: int, work: Callable[[int], Any]) -> list[Any]:
    """Run `work(0)` to `work(count - 1)`, each in a thread. Return their results or exceptions."""
    results: list[Any] = [None] * count

    def run(i: int) -> None:
        try:
            results[i] = work(i)
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + TIMEOUT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert not any(thread.is_alive() for thread in threads)
    return results


# --- single flight --------------------------------------------------------------------------------------------------


class WatchedSingleFlight(SingleFlight[str, V]):
    """A `SingleFlight` with which a test can wait until a number of callers share the work."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups = threading.Semaphore(0)
        self._flights = _AnnouncingDict(self.lookups)


class _AnnouncingDict(dict[str, Any]):
    """Flights by key. Each look-up, which happens under the lock, releases a semaphore."""

    def __init__(self, seen: threading.Semaphore) -> None:
        super().__init__()
        self.seen = seen

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.release()
        return super().get(key, default)


def wait_for_callers(flights: WatchedSingleFlight[Any], callers: int) -> None:
    for _ in range(callers):
        assert flights.lookups.acquire(timeout=TIMEOUT)


@pytest.mark.parametrize("error", [None, OSError("the disk is gone"), SystemExit("interrupted")])
def test_concurrent_callers_share_one_result_or_error(error: BaseException | None) -> None:
    flights: WatchedSingleFlight[int] = WatchedSingleFlight()
    runs: list[int] = []

    def work() -> int:
        runs.append(1)
        wait_for_callers(flights, 8)
        if error is not None:
            raise error
        return 42

    results = run_concurrently(8, lambda _: flights.do("key", work))
    assert len(runs) == 1
    assert results == [42 if error is None else error] * 8


def test_results_and_errors_are_not_remembered() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    outcomes: Iterator[int | BaseException] = iter([ValueError("first"), 2, KeyboardInterrupt(), 4])

    def work() -> int:
        outcome = next(outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    with pytest.raises(ValueError, match="first"):
        flights.do("key", work)
    assert flights.do("key", work) == 2
    with pytest.raises(KeyboardInterrupt):
        flights.do("key", work)
    assert flights.do("key", work) == 4


def test_different_keys_do_not_wait_for_each_other() -> None:
    flights: SingleFlight[int, int] = SingleFlight()
    together = threading.Barrier(3, timeout=TIMEOUT)

    def work() -> int:
        together.wait()
        return 1

    assert run_concurrently(3, lambda i: flights.do(i, work)) == [1, 1, 1]


def test_failed_work_is_freed_immediately() -> None:
    """After running out of device memory, the memory must be freed without the garbage collector."""

    class Held:
        pass

    left: list[weakref.ref[Held]] = []

    def work() -> int:
        held = Held()
        left.append(weakref.ref(held))
        raise MemoryError

    gc.disable()
    try:
        with pytest.raises(MemoryError) as caught:
            SingleFlight[str, int]().do("key", work)
        assert left[0]() is not None  # in the traceback that `caught` holds
        del caught
        assert left[0]() is None
    finally:
        gc.enable()


# --- clips ---------------------------------------------------------------------------------------------------------


def test_concurrent_encodes_of_one_clip_run_once() -> None:
    flights: WatchedSingleFlight[Any] = WatchedSingleFlight()

    class Waiting(FakeEncoder):
        def encode_step(self, audio: Tensor, state: list[int]) -> Tensor:
            wait_for_callers(flights, 8)
            return super().encode_step(audio, state)

    fake = Waiting()
    clips = clip_encoder(fake, cache_bytes=0)  # results must not come from the cache
    clips._flights = flights
    results = run_concurrently(8, lambda _: encode(clips, clip(5)))
    assert fake.clips == 1
    for codes in results:
        assert codes.tolist() == [[5, 5, 5], [1, 1, 1]]


def test_different_clips_are_encoded_one_at_a_time() -> None:
    fake = FakeEncoder(linger=0.02)  # long enough for others to enter, if they could
    clips = clip_encoder(fake)
    results = run_concurrently(12, lambda i: encode(clips, clip(i % 6)))
    assert [codes[0, 0] for codes in results] == [i % 6 for i in range(12)]
    assert (fake.clips, fake.most_inside) == (6, 1)


def test_codes_are_read_only_uint16() -> None:
    codes = encode(clip_encoder(FakeEncoder()), clip(3))
    assert codes.dtype == np.uint16
    assert codes.shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        codes[0, 0] = 1


def test_clips_are_cached_by_content() -> None:
    fake = FakeEncoder()
    clips = clip_encoder(fake)
    first = clips.encode(clip(3), b"three")
    same = [clip(3).clone(), clip(3).double(), torch.stack((clip(3), clip(4)), dim=1)[:, 0]]
    assert all(clips.encode(samples, b"three") is first for samples in same)
    assert fake.clips == 1
    clips.encode(clip(3), b"three again")
    assert fake.clips == 2


def test_clip_on_a_device_is_not_copied_to_the_host() -> None:
    """Samples on the device `meta` cannot be read: hashing or moving them raises."""

    class MetaEncoder(FakeEncoder):
        def encode_step(self, audio: Tensor, state: list[int]) -> Tensor:
            assert audio.is_meta
            return super().encode_step(torch.zeros(audio.shape), state)

    meta = torch.device("meta")
    clips = ClipEncoder(lambda: cast(CodecEncoder, MetaEncoder()), meta)
    codes = clips.encode(clip(3, frames=25).to(meta), b"file")
    assert codes[1].tolist() == [1] * 10 + [2] * 10 + [3] * 5
    assert clips.encode(clip(3, frames=25).to(meta), b"file") is codes


def test_failed_load_raises_and_is_retried() -> None:
    attempts: list[int] = []
    fake = FakeEncoder()

    def load() -> CodecEncoder:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("no such file")
        return cast(CodecEncoder, fake)

    clips = ClipEncoder(load, CPU)
    with pytest.raises(OSError, match="no such file"):
        encode(clips, clip(1))
    assert encode(clips, clip(1)).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert len(attempts) == 2


def test_failure_between_pieces_leaves_no_state() -> None:
    class Failing(FakeEncoder):
        def encode_step(self, audio: Tensor, state: list[int]) -> Tensor:
            codes = super().encode_step(audio, state)
            if self.clips == 1 and len(state) == 2:
                raise RuntimeError("out of memory")
            return codes

    fake = Failing()
    clips = clip_encoder(fake)
    long = clip(2, frames=25)  # three pieces
    with pytest.raises(RuntimeError, match="out of memory"):
        encode(clips, long)
    assert encode(clips, long)[1].tolist() == [1] * 10 + [2] * 10 + [3] * 5
    assert encode(clips, clip(1))[0, 0] == 1


def test_code_cache_is_lru_and_bounded_in_bytes() -> None:
    fake = FakeEncoder()
    three_frames = 2 * 3 * 2
    clips = clip_encoder(fake, cache_bytes=2 * three_frames)
    for number, runs in [(1, 1), (2, 2), (1, 2), (3, 3), (1, 3), (2, 4)]:
        encode(clips, clip(number))
        assert fake.clips == runs
    for runs in (5, 6):
        assert encode(clips, clip(9, frames=7))[0].tolist() == [9] * 7
        assert fake.clips == runs


def test_release_during_encoding_finishes_the_run_and_reloads() -> None:
    first, second = FakeEncoder(gate=threading.Event()), FakeEncoder()
    clips = clip_encoder(first, second)
    results: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: results.append(encode(clips, clip(1, frames=25))))
    thread.start()
    assert first.entered.wait(TIMEOUT)
    clips.release()  # does not wait for the running encoding
    assert first.gate is not None
    first.gate.set()
    thread.join(TIMEOUT)
    assert results[0][1].tolist() == [1] * 10 + [2] * 10 + [3] * 5
    encode(clips, clip(1, frames=25))  # cached: needs no encoder
    encode(clips, clip(2))
    assert (first.clips, second.clips) == (1, 1)


def test_a_clip_that_is_forgotten_while_it_is_encoded_is_not_cached() -> None:
    fake = FakeEncoder(gate=threading.Event())
    clips = clip_encoder(fake)
    results: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: results.append(encode(clips, clip(1))))
    thread.start()
    assert fake.entered.wait(TIMEOUT)
    clips.forget(np.array([[1, 1, 1], [1, 1, 1]], np.uint16))
    assert fake.gate is not None
    fake.gate.set()
    thread.join(TIMEOUT)
    assert results[0].tolist() == [[1, 1, 1], [1, 1, 1]]
    for runs in (2, 2):
        encode(clips, clip(1))
        assert fake.clips == runs


def test_released_encoder_is_freed() -> None:
    made: list[weakref.ref[FakeEncoder]] = []

    def load() -> CodecEncoder:
        fake = FakeEncoder()
        made.append(weakref.ref(fake))
        return cast(CodecEncoder, fake)

    clips = ClipEncoder(load, CPU)
    encode(clips, clip(1))
    assert made[0]() is not None
    clips.release()
    assert made[0]() is None


@pytest.mark.parametrize("shape", [(0,), (1, 8), ()])
def test_clip_must_be_one_row_of_samples(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one row of samples"):
        clip_encoder(FakeEncoder()).encode(torch.zeros(shape), b"")


# --- warming up ----------------------------------------------------------------------------------------------------


def test_warm_up_loads_and_runs_the_encoder_once() -> None:
    fake = FakeEncoder()
    loads: list[int] = []
    clips = ClipEncoder(lambda: loads.append(1) or cast(CodecEncoder, fake), CPU)
    load, run = clips.warm_up_steps()
    load()
    assert (len(loads), fake.clips) == (1, 0)
    run()
    assert fake.clips == 1
    assert encode(clips, clip(1)).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert len(loads) == 1


@pytest.mark.parametrize("steps", [0, 1])
def test_released_encoder_is_not_warmed_up(steps: int) -> None:
    fake = FakeEncoder()
    loads: list[int] = []
    clips = ClipEncoder(lambda: loads.append(1) or cast(CodecEncoder, fake), CPU)
    work = clips.warm_up_steps()
    for step in work[:steps]:
        step()
    clips.release()
    for step in work[steps:]:
        step()
    assert (len(loads), fake.clips) == (steps, 0)


# --- the real codec ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoder() -> CodecEncoder:
    return load_codec_encoder(*codec_files(MINIATURE))


@pytest.mark.parametrize("seconds", [ENCODE_SECONDS, 0.2, 0.01])
def test_encoding_in_pieces_equals_whole_encoding(
    encoder: CodecEncoder, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(encoder_module, "ENCODE_SECONDS", seconds)
    clips = ClipEncoder(lambda: encoder, CPU)
    frame = encoder.config.frame_length
    samples = prepare_reference(CLIP, encoder.config.sample_rate).samples[: 15 * frame + 700]
    for length in (1, frame, len(samples) // 2, len(samples)):
        codes = encode(clips, samples[:length])
        assert np.array_equal(codes, encoder.encode(samples[None, None, :length])[0].numpy())


def test_long_clip_equals_whole_encoding(encoder: CodecEncoder) -> None:
    generator = torch.Generator().manual_seed(3)
    length = int(1.3 * ENCODE_SECONDS * encoder.config.sample_rate)
    samples = 0.3 * torch.randn(length, generator=generator)
    codes = encode(ClipEncoder(lambda: encoder, CPU), samples)
    assert np.array_equal(codes, encoder.encode(samples[None, None])[0].numpy())
