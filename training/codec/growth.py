"""Enlarge a trained codec: a wider encoder and deeper transformers, at first with the same codes and the same sound.

New channels and layers do not yet reach the old ones, because the weights in between are zero, as in Net2Net (Chen,
Goodfellow and Shlens, 2016), so training continues where it was.
"""

from dataclasses import replace

import torch
from torch import Tensor

from engine.codec.codec import Codec
from engine.codec.config import CodecConfig
from training.work import TrainingError

# Scale of the branches of new transformer layers.
_BRANCH_SCALE = 0.1


@torch.no_grad()
def grown(codec: Codec, config: CodecConfig) -> Codec:
    """Return a codec with the sizes of `config` that computes what `codec` does.

    Raises TrainingError when `config` differs in more than larger sizes of the encoder and more layers.
    """
    if not _grows(codec.config, config):
        raise TrainingError("Only the width of a codec's encoder and the number of its transformers' layers can grow.")
    larger = Codec(config)
    old, new = codec.state_dict(), larger.state_dict()
    for name, weight in new.items():
        if name in old:
            _put(old[name], weight, name)
        elif name.endswith(("wo.weight", "w2.weight")):
            weight.zero_()
        elif name.endswith("gamma"):
            weight.fill_(_BRANCH_SCALE)
    larger.load_state_dict(new)
    return larger


def _grows(old: CodecConfig, new: CodecConfig) -> bool:
    layers, more = old.quantizer.transformer.n_layer, new.quantizer.transformer.n_layer
    quantizer = replace(new.quantizer, transformer=replace(new.quantizer.transformer, n_layer=layers))
    same = replace(new, encoder_dim=old.encoder_dim, quantizer=quantizer) == old
    return same and new.encoder_dim >= old.encoder_dim and more >= layers


def _put(old: Tensor, new: Tensor, name: str) -> None:
    """Copy old weights into the first rows and columns; weights from new inputs to old outputs are zero."""
    if name.endswith("alpha"):
        new.fill_(1.0)
    elif new.dim() == 1:
        new.zero_()
    else:
        new[: len(old)] = 0
    new[tuple(slice(size) for size in old.shape)] = old
