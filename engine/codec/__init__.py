"""The neural audio codec: audio to codes and back, whole or as a stream.

`CodecEncoder` and `CodecDecoder` are loaded with `load_codec_encoder` and `load_codec_decoder`.
"""
