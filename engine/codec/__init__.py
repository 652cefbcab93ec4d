"""The neural audio codec: audio to codes and back, whole or as a stream. See `CodecEncoder` and `CodecDecoder`."""
