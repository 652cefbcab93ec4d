"""The player's buffer, as the audio thread runs it."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from web.components import read

RATE = 1_000
# A ramp is easy to follow: each sample says where in the take it is.
HELPERS = """
const ramp = (start, count) => Int16Array.from({length: count}, (_, i) => start + i);
const read = (take, count, step = 1) => {
  const out = new Float32Array(count);
  take.read(out, step);
  return out;
};
const whole = (out) => Array.from(out, (value) => Math.round(value * 32768));
const largestStep = (out) => Math.max(...out.slice(1).map((value, i) => Math.abs(value - out[i])));
"""


@pytest.fixture(scope="module")
def blank(chromium: Browser) -> Page:
    page = chromium.new_page()
    page.add_script_tag(content=read("take.js") + HELPERS)
    return page


@pytest.fixture
def run(blank: Page) -> Any:
    """Runs statements with a new take at 1,000 Hz, and gives what they return."""
    return lambda statements: blank.evaluate(f"() => {{ const take = new Take({RATE}); {statements} }}")


def test_it_starts_with_the_first_chunk_and_gives_its_samples(run: Any) -> None:
    heard = run("take.write(0, ramp(1000, 100), 0); return whole(read(take, 100));")
    assert heard[10:] == list(range(1010, 1100)), "after a fade of 5 ms, the samples themselves"
    assert sorted(heard[:10]) == heard[:10]


def test_a_first_chunk_that_is_too_short_waits_for_the_next(run: Any) -> None:
    state = run("take.write(0, ramp(0, 20), 0); read(take, 10); return [take.played, take.waiting, take.underruns];")
    assert state == [0, True, 0]


def test_unheard_samples_are_replaced_when_a_segment_is_spoken_anew(run: Any) -> None:
    heard = run("""
        take.write(0, ramp(1000, 100), 0); take.write(100, ramp(2000, 100), 0); read(take, 100);
        take.write(100, ramp(5000, 50), 0); take.finish();
        return [whole(read(take, 50)), take.length];""")
    assert heard == [list(range(5000, 5050)), 150]


def test_a_segment_heard_halfway_is_heard_again_from_its_start(run: Any) -> None:
    position, heard, played = run("""
        take.write(0, ramp(1000, 200), 0); read(take, 150);
        take.write(100, ramp(5000, 100), 0);
        const position = take.position;
        return [position, whole(read(take, 80)), take.played];""")
    assert position == 100
    assert heard[60:] == list(range(5060, 5080))
    assert played == 230


def test_running_dry_is_counted_and_waits_for_more_than_a_little(run: Any) -> None:
    first, second, third = run("""
        const state = () => [take.underruns, take.waiting];
        take.write(0, ramp(1000, 100), 0); read(take, 150);
        const first = state();
        take.write(100, ramp(1100, 100), 0.1); read(take, 10);
        const second = state();
        take.write(200, ramp(1200, 400), 0.2); read(take, 10);
        return [first, second, state()];""")
    assert first == [1, True]
    assert second == [1, True], "a tenth of a second would only run dry again"
    assert third == [1, False]


def test_the_end_of_a_take_is_no_underrun_and_play_begins_again(run: Any) -> None:
    ended, again = run("""
        take.write(0, ramp(1000, 100), 0); take.finish(); read(take, 200);
        const ended = [take.underruns, take.ended, take.wanted];
        take.play(); read(take, 10);
        return [ended, take.position];""")
    assert ended == [0, True, False]
    assert again == 10


def test_no_edge_clicks(run: Any) -> None:
    steps = run("""
        const loud = (count) => new Int16Array(count).fill(30000);
        take.write(0, loud(500), 0);
        const parts = [read(take, 300)];
        take.pause(); parts.push(read(take, 100));
        take.play(); parts.push(read(take, 100));
        take.seek(50); parts.push(read(take, 400));
        parts.push(read(take, 300));
        const all = parts.flatMap((part) => Array.from(part));
        return [largestStep(all), Math.max(...all.map(Math.abs))];""")
    assert steps[0] < 0.25, "at 1,000 Hz a fade of 5 ms is five steps"
    assert steps[1] < 1.0


@pytest.mark.parametrize("pace", [0.5, 0.8])
def test_a_known_slow_engine_is_given_a_head_start_and_never_runs_dry(blank: Page, pace: float) -> None:
    underruns, waited, ended = blank.evaluate(
        """(pace) => {
            const total = 6000, take = new Take(1000, { expected: 6, pace });
            let made = 0, waited = 0;
            for (let time = 0; time < 30000 && !take.ended; time += 10) {
                const ready = Math.min(total, Math.floor(time * pace));
                if (ready - made >= 100 || ready === total) {
                    if (ready > made) take.write(made, ramp(0, ready - made), time / 1000);
                    made = ready;
                    if (made === total) take.finish();
                }
                read(take, 10);
                if (!take.played) waited = time;
            }
            return [take.underruns, waited, take.ended];
        }""",
        pace,
    )
    assert ended
    assert underruns == 0
    assert waited < 6000 / pace, "it does not wait for the whole take"


def test_a_fast_engine_is_not_waited_for(run: Any) -> None:
    assert run("const fast = new Take(1000, {expected: 60, pace: 3}); return fast.lead();") == pytest.approx(40)


def test_another_output_rate_keeps_pitch_and_length(run: Any) -> None:
    count, crossings = run("""
        const tone = Int16Array.from({length: 1000}, (_, i) => 20000 * Math.sin(2 * Math.PI * 50 * i / 1000));
        take.write(0, tone, 0); take.finish();
        const out = read(take, 3000, 1000 / 2500);
        let crossings = 0;
        for (let i = 1; i < out.length; i++) crossings += out[i - 1] < 0 && out[i] >= 0;
        return [take.position, crossings];""")
    assert count == pytest.approx(1000, abs=1)
    assert crossings == pytest.approx(50, abs=1)


def test_a_lost_chunk_leaves_silence_and_is_counted(run: Any) -> None:
    lost, length, between = run("""
        take.write(0, ramp(1000, 100), 0); take.write(150, ramp(1150, 50), 0);
        return [take.lost, take.length, Array.from(take.samples.slice(100, 150))];""")
    assert (lost, length) == (50, 200)
    assert set(between) == {0}
