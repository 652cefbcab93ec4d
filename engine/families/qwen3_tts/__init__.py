"""The Qwen3-TTS family: Base (cloning), CustomVoice (named speakers) and VoiceDesign (descriptions), all at 12 Hz."""
