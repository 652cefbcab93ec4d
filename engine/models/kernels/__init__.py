"""Kernels of one frame in Triton, and the run through a stack that is made of them. Import needs Triton.

Each has a plain twin in `engine.models`, against which it is tested in Triton's interpreter on a CPU, and checked on
the device when a model is loaded.
"""
