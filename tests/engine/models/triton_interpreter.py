"""Triton's kernels in its interpreter, on machines without a GPU: where tensors are, and a faster interpreter."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

# Compiled kernels run on a GPU only.
DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"


@contextmanager
def quick_interpreter() -> Iterator[None]:
    """Let the interpreter patch Triton's language once a launch, instead of at every `tl.max` or `tl.sum` in a kernel.

    It undoes only what it does when the launch begins, and searching the language takes most of its time. Loops whose
    length is no constant work, too: Triton 3.6 hands NumPy's arrays of one element to `int`, which NumPy 2.4 refuses.

    Left out is what is computed and never used: whether sums and products overflow, which is asserted in debugging only
    and takes a quarter of the time, and the names of shapes' types.
    """
    if DEVICE == "cuda":
        yield
        return
    import triton.language as tl
    from triton.language import core
    from triton.runtime import interpreter

    patch, patched = interpreter._patch_lang, set[int]()  # modules of the functions called in this launch

    class Scope(interpreter._LangPatchScope):  # type: ignore[misc]
        def restore(self) -> None:
            patched.clear()
            super().restore()

    def patch_once(function: Any) -> object:
        module = id(function.__globals__)
        if module in patched:
            return None
        patched.add(module)
        scope = patch(function)
        tl.tensor.__index__ = lambda self: int(self.handle.data.item())
        return scope

    def unnamed(made: Any, types: Any, fields: Any = None) -> None:
        made.types, made.fields = types, fields or [""] * len(types)

    builder = interpreter.interpreter_builder
    assert not builder.options.debug
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(builder, "options", replace(builder.options, sanitize_overflow=False))
        patches.setattr(core.tuple_type, "__init__", unnamed)
        patches.setattr(interpreter, "_LangPatchScope", Scope)
        patches.setattr(interpreter, "_patch_lang", patch_once)
        yield
