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
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class Rotary(nn.Module):
    """Tables of cosines and sines, one for the whole model, grown as longer sequences come.

    They are no buffers: a model that is cast to bf16 keeps its positions. Old tables are kept,
    since a captured CUDA graph goes on reading the one it was captured with.
    """

    def __init__(self, head_dim: int, theta: float) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.theta = theta
        self.tables: list[tuple[Tensor, Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:  # (batch, seq, heads, head_dim)
        """Turn each pair (x[i], x[i + head_dim / 2]) by its position's angle."""
        seq = x.shape[1]
        cos, sin = self._table(seq, x.device)
        cos, sin = cos[:seq, None].to(x.dtype), sin[:seq, None].to(x.dtype)
        swapped = x.roll(self.head_dim // 2, dims=-1)
        return torch.addcmul(x * cos, swapped, sin)

    def _table(self, seq: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Cosines and sines in float32, each (at least seq, head_dim)."""
        for cos, sin in self.tables:
            if cos.shape[0] >= seq and cos.device == device:
                return cos, sin
        length = 1 << (seq - 1).bit_length()
        exponents = torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim
        angles = torch.outer(torch.arange(length, dtype=torch.float64), self.theta**-exponents)
        # The sign that a rotation gives the first half stands in the table.
        cos = torch.cat((angles.cos(), angles.cos()), dim=-1).float().to(device)
        sin = torch.cat((-angles.sin(), angles.sin()), dim=-1).float().to(device)
        self.tables.append((cos, sin))
        return cos, sin


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
