// Names of file formats, as shown in menus.

export const SOUND_FORMATS = { wav: "WAV", flac: "FLAC", mp3: "MP3", opus: "Opus" };
export const SCRIPT_FORMATS = { ...SOUND_FORMATS, m4b: "M4B", srt: "SRT", vtt: "VTT", md: "Markdown" };
