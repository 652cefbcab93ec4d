"""Clients in a separate environment, installed by `make test`: voice agents and OpenAI's package for Node."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.audio.transcription import HeardSegment, TranscribedClip
from studio import recognition
from tests.api.conftest import TEXT, Server, decode_audio
from tests.paths import ROOT

CLIENTS = ROOT / ".venv" / "clients"
AGENTS = Path(__file__).parent / "agents"

pytestmark = pytest.mark.usefixtures("short_turns")

NODE = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "not-needed" });
const speech = await client.audio.speech.create({ model: "tts-1", voice: "alloy", input: process.env.TEXT });
const bytes = Buffer.from(await speech.arrayBuffer());
const models = await client.models.list();
let refused = "";
try { await client.audio.speech.create({ model: "tts-1", voice: "Nobody", input: "Hi." }); }
catch (error) { refused = `${error.status} ${error.code}`; }
console.log(JSON.stringify({ bytes: bytes.toString("base64"), models: models.data.length, refused }));
"""


def run_agent(server: Server, name: str) -> Any:
    """Speak a text with a voice agent's service and return its report."""
    python = CLIENTS / "bin" / "python"
    if not python.exists():
        pytest.skip("The voice agents' services are not installed (make .venv/.clients).")
    command = [str(python), str(AGENTS / f"{name}.py"), f"{server.url}/v1", TEXT]
    done = subprocess.run(command, cwd=AGENTS, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_pipecat_agent_speaks(server: Server) -> None:
    report = run_agent(server, "pipecat_agent")
    assert not report["errors"]
    assert report["seconds"] > 0.3
    assert report["loudness"] > 0.01


def test_livekit_agent_speaks_and_listens(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It requests audio from one model and server-sent events from the other."""
    segment = HeardSegment(f" {TEXT}", 0.0, 0.5, (), 0, (), 0.0, -0.3, 0.9, 0.1)
    monkeypatch.setattr(recognition, "can_transcribe", lambda: True)
    monkeypatch.setattr(recognition, "transcript_of", lambda *_, **__: TranscribedClip("en", 0.5, (segment,)))
    report = run_agent(server, "livekit_agent")
    assert [report.pop(model) for model in ("whisper-1", "gpt-4o-transcribe")] == [[TEXT, "en"]] * 2
    assert set(report) == {"tts-1", "gpt-4o-mini-tts"}
    assert all(each["seconds"] > 0.3 and each["loudness"] > 0.01 for each in report.values())


def test_openai_node_client_speaks(server: Server, tmp_path: Path) -> None:
    modules = CLIENTS / "node_modules"
    if not shutil.which("node") or not (modules / "openai").is_dir():
        pytest.skip("Node's openai is not installed (make .venv/.clients).")
    (tmp_path / "node_modules").symlink_to(modules.resolve())
    (tmp_path / "speak.mjs").write_text(NODE)
    environment = {**os.environ, "BASE_URL": f"{server.url}/v1", "TEXT": TEXT}
    done = subprocess.run(
        ["node", "speak.mjs"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    report = json.loads(done.stdout)
    samples, rate = decode_audio(base64.b64decode(report["bytes"]), "mp3")
    assert len(samples) / rate > 0.3
    assert (report["models"], report["refused"]) == (4, "404 voice_not_found")
