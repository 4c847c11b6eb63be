"""Causal grouped-query attention with rotary positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ease.model.config import ModelConfig


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class Rotary(nn.Module):
    """Tables of cosines and sines, one for the whole model, grown as longer sequences come."""

    def __init__(self, head_dim: int, theta: float) -> None:
        super().__init__()
        frequencies = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        # float64 so that the table does not depend on where it is made; never a saved weight.
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.register_buffer("cos", torch.empty(0, head_dim), persistent=False)
        self.register_buffer("sin", torch.empty(0, head_dim), persistent=False)
        self.frequencies: Tensor
        self.cos: Tensor
        self.sin: Tensor

    def forward(self, x: Tensor) -> Tensor:  # (batch, seq, heads, head_dim)
        """Turn each pair (x[i], x[i + head_dim / 2]) by its position's angle."""
        seq = x.shape[1]
        if self.cos.shape[0] < seq:
            self._grow(seq)
        cos, sin = self.cos[:seq, None].to(x.dtype), self.sin[:seq, None].to(x.dtype)
        swapped = x.roll(x.shape[-1] // 2, dims=-1)
        return torch.addcmul(x * cos, swapped, sin)

    def _grow(self, seq: int) -> None:
        positions = torch.arange(seq, dtype=torch.float64, device=self.frequencies.device)
        angles = torch.outer(positions, self.frequencies)  # (seq, head_dim / 2)
        self.cos = torch.cat((angles.cos(), angles.cos()), dim=-1).float()
        # The sign that a rotation gives the first half stands in the table.
        self.sin = torch.cat((-angles.sin(), angles.sin()), dim=-1).float()


class Attention(nn.Module):
    """Queries, keys and values are one projection: small models are bound by launches."""

    def __init__(self, config: ModelConfig, rotary: Rotary) -> None:
        super().__init__()
        self.heads, self.kv_heads = config.num_heads, config.num_kv_heads
        self.head_dim = config.head_dim
        width = (self.heads + 2 * self.kv_heads) * self.head_dim
        self.qkv_proj = nn.Linear(config.dim, width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(self.heads * self.head_dim, config.dim, bias=False)
        self.q_norm = RMSNorm(self.head_dim, config.norm_eps) if config.qk_norm else None
        self.k_norm = RMSNorm(self.head_dim, config.norm_eps) if config.qk_norm else None
        self.rotary = rotary

    def forward(self, h: Tensor) -> Tensor:  # (batch, seq, dim)
        batch, seq, _ = h.shape
        qkv = self.qkv_proj(h).view(batch, seq, -1, self.head_dim)
        qk, v = qkv.split((self.heads + self.kv_heads, self.kv_heads), dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = qk.split((self.heads, self.kv_heads), dim=2)
            qk = torch.cat((self.q_norm(q), self.k_norm(k)), dim=2)
        q, k = self.rotary(qk).split((self.heads, self.kv_heads), dim=2)
        mixed = F.scaled_dot_product_attention(
            q.transpose(1, 2),  # (batch, heads, seq, head_dim)
            k.transpose(1, 2),
            v.transpose(1, 2),
            is_causal=True,
            enable_gqa=self.heads != self.kv_heads,
        )
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out
