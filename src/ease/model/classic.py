"""The specification's models: thin faces of `StagedLM` with an exit after every layer."""

from __future__ import annotations

from torch import Tensor, nn

from ease.errors import ConfigError
from ease.model.block import Block
from ease.model.config import ModelConfig, StageShape
from ease.model.head import Head
from ease.model.staged_lm import StagedLM
from ease.settings import checked


class ClassicTransformer(nn.Module):
    """Post-norm blocks, no final norm, one untied head that every layer's exit shares."""

    def __init__(
        self,
        vocab_size: int,
        dim: int = 64,
        num_layers: int = 3,
        num_heads: int = 4,
        ffn_dim: int | None = None,
    ) -> None:
        super().__init__()
        if dim % num_heads:
            raise ConfigError(f"dim ({dim}) must be a multiple of num_heads ({num_heads})")
        if num_layers < 1:
            raise ConfigError(f"num_layers must be at least 1, not {num_layers}")
        self.lm = StagedLM(
            checked(
                ModelConfig,
                vocab_size=vocab_size,
                dim=dim,
                num_heads=num_heads,
                num_kv_heads=num_heads,
                head_dim=dim // num_heads,
                ffn_dim=4 * dim if ffn_dim is None else ffn_dim,
                stages=tuple(
                    StageShape(
                        layers=1,
                        norm="post",
                        final_norm=False,
                        head="own" if layer == 0 else "shared",
                    )
                    for layer in range(num_layers)
                ),
            )
        )

    @property
    def embedding(self) -> nn.Embedding:
        return self.lm.embedding

    @property
    def layers(self) -> list[Block]:
        return self.lm.layers

    @property
    def output_head(self) -> Head:
        head = self.lm.stages[-1].head
        assert isinstance(head, Head)
        return head

    @property
    def num_layers(self) -> int:
        return self.lm.num_layers

    def forward(self, x: Tensor) -> Tensor:
        """Token ids (batch, seq) -> the last layer's logits (batch, seq, vocab)."""
        return self.lm(x)[-1].logits()  # type: ignore[no-any-return]

    def forward_to_layer(self, x: Tensor, n: int) -> Tensor:
        """The hidden states after layer `n`, (batch, seq, dim)."""
        return self.lm(x, until=n)[-1].left  # type: ignore[no-any-return]

    def forward_all_layers(self, x: Tensor) -> list[Tensor]:
        """Logits (batch, seq, vocab), one for each layer."""
        return [output.logits() for output in self.lm(x)]


class StandardTransformer(ClassicTransformer):
    """The plain model: trained and read at its last layer.

    >>> import torch
    >>> from ease import StandardTransformer
    >>> model = StandardTransformer(vocab_size=1000, dim=64, num_layers=2)
    >>> tuple(model(torch.zeros(1, 8, dtype=torch.long)).shape)
    (1, 8, 1000)
    """


class DeepSupervisionTransformer(ClassicTransformer):
    """The same model, read at every layer.

    >>> import torch
    >>> from ease import DeepSupervisionTransformer
    >>> model = DeepSupervisionTransformer(vocab_size=1000, dim=64, num_layers=3)
    >>> len(model.forward_all_layers(torch.zeros(1, 8, dtype=torch.long)))
    3
    """


def staged(model: StagedLM | ClassicTransformer) -> StagedLM:
    """The staged model behind a face, or the model itself."""
    return model.lm if isinstance(model, ClassicTransformer) else model
