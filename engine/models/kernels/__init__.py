"""Triton kernels of one frame. Import needs Triton; `engine.models.fused` uses them.

Each has a plain twin in `engine.models`. It is tested against its twin in Triton's interpreter on a CPU, and checked on
the device when a model is loaded.
"""
