"""The Qwen3-TTS family at 12 Hz: Base (cloning), CustomVoice (named speakers) and VoiceDesign (descriptions)."""
