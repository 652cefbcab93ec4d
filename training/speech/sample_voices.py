"""The sample voices: the speaker, the sentences of the reference and the demo sentence of each.

Version 2 of the bundled model was trained without them. The setting `samples` (`training/settings.py`) trains a
finished model on these speakers too, with sentences that are not in their references.
"""

from dataclasses import dataclass, replace

from training.speech.speakers import FESTIVAL, FLITE, Engine, Speaker

FIRST_ID = 9000  # of the sample voices' speakers; the ids of `speakers()` count from 0


@dataclass(frozen=True)
class Design:
    """Design of a sample voice. `sentences` form its reference, `demo` is its demo sentence."""

    name: str
    description: str
    speaker: Speaker
    sentences: tuple[str, ...]
    demo: str


def _speaker(engine: Engine, voice: str, *, pitch: float, depth: float, tract: float, tempo: float) -> Speaker:
    """Return a speaker that is a warp of a teacher's voice; `hertz` follows from the teacher's median pitch."""
    hertz = round((FLITE | FESTIVAL)[voice] * pitch, 1)
    return Speaker(0, engine, voice, pitch, depth, tract, tempo, 0.0, 0, hertz, held_out=False)


DESIGNS = (
    Design(
        "Adam",
        "Quick and cheerful, a young man's voice",
        _speaker("flite", "rms", pitch=1.27, depth=1.15, tract=1.06, tempo=1.06),
        (
            "Hello, everybody, this is Adam.",
            "The train leaves at nine, and we are ready.",
            "Bring me the big map, please.",
        ),
        "Did you see the blue bicycle on the bridge? It is mine!",
    ),
    Design(
        "Ben",
        "Calm and low, a man's voice",
        _speaker("flite", "rms", pitch=0.81, depth=1.2, tract=0.96, tempo=0.96),
        ("Good evening, this is Ben speaking.", "The fire is warm, and the house is quiet.", "Tell me a story."),
        "The old man kept a long letter behind the kitchen door.",
    ),
    Design(
        "Clara",
        "Bright and high, a young woman's voice",
        _speaker("festival", "cmu_us_slt_arctic_hts", pitch=1.35, depth=1.1, tract=1.03, tempo=1.02),
        ("Hello, I am Clara.", "What a wonderful day!", "My sister and I danced on the beach last night."),
        "Happy birthday! There are five yellow flowers on the table for you.",
    ),
    Design(
        "Daniel",
        "Warm, with a Scottish touch, a man's voice",
        _speaker("flite", "awb", pitch=0.82, depth=1.1, tract=0.99, tempo=0.93),
        (
            "Welcome, my name is Daniel.",
            "I live near the river, in a house with a red door.",
            "We have plenty of time.",
        ),
        "The last train to London leaves at six, so please be ready.",
    ),
    Design(
        "Emma",
        "Soft and slow, a woman's low voice",
        _speaker("festival", "cmu_us_slt_arctic_hts", pitch=0.9, depth=1.2, tract=0.94, tempo=0.93),
        ("Nice to meet you, I am Emma.", "In the evening I sat beside the lake and read a book.", "It was very good."),
        "It is going to rain, but the garden is quiet and green.",
    ),
    Design(
        "Flora",
        "Clear and friendly, a woman's voice",
        _speaker("flite", "slt", pitch=1.1, depth=1.15, tract=0.98, tempo=0.98),
        (
            "Good morning, my name is Flora.",
            "The window is open, and the birds are singing.",
            "Would you like a cup of coffee?",
        ),
        "The morning was bright, and we walked along the river.",
    ),
)


def sample_speakers() -> list[Speaker]:
    """Return the speakers of the sample voices, in the order of `DESIGNS`, with their own ids."""
    return [replace(design.speaker, id=FIRST_ID + at) for at, design in enumerate(DESIGNS)]
