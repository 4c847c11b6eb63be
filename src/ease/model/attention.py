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

    def forward(self, x: Tensor) -> Tensor:  # (batch, heads, seq, head_dim)
        seq = x.shape[-2]
        if self.cos.shape[0] < seq:
            self._grow(seq)
        cos, sin = self.cos[:seq].to(x.dtype), self.sin[:seq].to(x.dtype)  # (seq, head_dim)
        low, high = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-high, low), dim=-1) * sin

    def _grow(self, seq: int) -> None:
        positions = torch.arange(seq, dtype=torch.float64, device=self.frequencies.device)
        angles = torch.outer(positions, self.frequencies)  # (seq, head_dim / 2)
        angles = torch.cat((angles, angles), dim=-1)
        self.cos, self.sin = angles.cos().float(), angles.sin().float()


class Attention(nn.Module):
    def __init__(self, config: ModelConfig, rotary: Rotary) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.grouped = config.num_kv_heads != config.num_heads
        query_width = config.num_heads * config.head_dim
        kv_width = config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.dim, query_width, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.dim, kv_width, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.dim, kv_width, bias=config.qkv_bias)
        self.o_proj = nn.Linear(query_width, config.dim, bias=False)
        self.q_norm: nn.Module = nn.Identity()
        self.k_norm: nn.Module = nn.Identity()
        if config.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.norm_eps)
            self.k_norm = RMSNorm(config.head_dim, config.norm_eps)
        self.rotary = rotary

    def forward(self, h: Tensor) -> Tensor:  # (batch, seq, dim)
        q = self.rotary(self.q_norm(self._heads(self.q_proj(h))))  # (batch, heads, seq, head_dim)
        k = self.rotary(self.k_norm(self._heads(self.k_proj(h))))  # (batch, kv_heads, ...)
        v = self._heads(self.v_proj(h))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        out: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)
