"""One layer: attention and a gated feed-forward, each with its residual and norm."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from ease.model.attention import Attention, RMSNorm, Rotary
from ease.model.config import ModelConfig, Norm


class FeedForward(nn.Module):
    """silu(switch) * value, both from one projection, then down again."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.up_proj = nn.Linear(config.dim, 2 * config.ffn_dim, bias=False)
        self.down_proj = nn.Linear(config.ffn_dim, config.dim, bias=False)

    def forward(self, h: Tensor) -> Tensor:
        switch, value = self.up_proj(h).chunk(2, dim=-1)  # (batch, seq, ffn) each
        out: Tensor = self.down_proj(F.silu(switch) * value)
        return out


class Block(nn.Module):
    """Pre-norm: `h + f(norm(h))`. Post-norm, the specification's own: `norm(h + f(h))`."""

    def __init__(self, config: ModelConfig, norm: Norm, rotary: Rotary) -> None:
        super().__init__()
        self.norm = norm
        self.attention = Attention(config, rotary)
        self.attention_norm = RMSNorm(config.dim, config.norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = RMSNorm(config.dim, config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, h: Tensor) -> Tensor:  # (batch, seq, dim)
        if self.norm == "post":
            h = self.attention_norm(h + self.dropout(self.attention(h)))
            h = self.feed_forward_norm(h + self.dropout(self.feed_forward(h)))
        else:
            h = h + self.dropout(self.attention(self.attention_norm(h)))
            h = h + self.dropout(self.feed_forward(self.feed_forward_norm(h)))
        return h
