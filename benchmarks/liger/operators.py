"""Which rows are expressed here, and why the others are not."""

from __future__ import annotations

from attention import fused_neighborhood_attention
from distillation import distill_cosine_loss, distill_jsd_loss
from layers import embedding, gated, megatron_swiglu, relu_squared
from linear_losses import fused_linear_cross_entropy, fused_linear_jsd
from losses import cross_entropy, jsd, kl_div, tvd
from modes import Setup
from norms import fused_add_rms_norm, layer_norm, megatron_rms_norm, rms_norm
from policy import fused_linear_grpo_loss
from preference import fused_linear_cpo_loss, fused_linear_orpo_loss, fused_linear_simpo_loss, kto_loss
from rotary import llama4_rope, rope

OPERATORS: dict[str, Setup] = {
    "cross_entropy": cross_entropy,
    "distill_cosine_loss": distill_cosine_loss,
    "fused_add_rms_norm": fused_add_rms_norm,
    "fused_linear_cross_entropy": fused_linear_cross_entropy,
    "fused_linear_grpo_loss_sequence": fused_linear_grpo_loss,
    "fused_linear_grpo_loss_token": fused_linear_grpo_loss,
    "fused_linear_jsd": fused_linear_jsd,
    "fused_neighborhood_attention": fused_neighborhood_attention,
    "geglu": gated,
    "jsd": jsd,
    "kl_div": kl_div,
    "layer_norm": layer_norm,
    "llama4_rope": llama4_rope,
    "megatron_rms_norm": megatron_rms_norm,
    "megatron_swiglu": megatron_swiglu,
    "relu_squared": relu_squared,
    "rms_norm": rms_norm,
    "rope": rope,
    "swiglu": gated,
    "tiled_geglu": gated,
    "tiled_swiglu": gated,
    "tvd": tvd,
}

COMPILED = "the other provider's compiled code had run in the process and kept tensors, which ones is not recorded"
HELD: dict[str, tuple[Setup, str]] = {
    "distill_jsd_loss": (distill_jsd_loss, COMPILED),
    "embedding": (embedding, "torch.compile had run in the process over larger tables and kept tensors"),
    "fused_linear_cpo_loss": (fused_linear_cpo_loss, COMPILED),
    "fused_linear_orpo_loss": (fused_linear_orpo_loss, COMPILED),
    "fused_linear_simpo_loss": (fused_linear_simpo_loss, COMPILED),
    "kto_loss": (kto_loss, f"{COMPILED}; and which texts are preferred was drawn without a seed"),
}
"""Operators whose process held more than they show: the setup, and what is known of the rest. One unknown number of
bytes, the same for all rows of a sweep, must then explain the sweep in every digit."""

NOT_EXPRESSED = {
    "fused_moe": "how many tokens each expert gets was drawn on the GPU from seed 42, and rests of cached blocks "
    "decide: two sweeps measured the same settings (8,192 tokens, 128 experts) 1.1 MiB apart",
}
