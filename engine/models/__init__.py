"""The two transformers: a Slow AR over time and a Fast AR over codebooks, with cache, sampling and quantization."""
