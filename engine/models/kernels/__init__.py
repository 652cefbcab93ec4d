"""Triton kernels of one frame. Import needs Triton; `engine.models.fused` uses them.

Each has a reference implementation in `engine.models`. It is tested against it in Triton's interpreter on a CPU, and
checked on the device when a model is loaded.
"""
