from __future__ import annotations

import importlib.util

import pytest
import torch

from ease.model import chunked_loss

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or importlib.util.find_spec("triton") is None,
    reason="the fused loss needs an NVIDIA GPU and Triton",
)


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize(
    ("tokens", "dim", "vocab"), [(1, 3, 5), (200, 17, 1001), (2048, 64, 28_912), (129, 128, 65)]
)
def test_fused_and_chunked_agree(
    tokens: int, dim: int, vocab: int, wanted: tuple[bool, bool]
) -> None:
    from ease.model import fused_loss

    torch.manual_seed(0)
    features = torch.randn(tokens, dim, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(vocab, dim, device="cuda", dtype=torch.bfloat16) * dim**-0.5
    targets = torch.randint(vocab, (tokens,), device="cuda")
    scale = torch.rand(tokens, device="cuda") / tokens
    assert fused_loss.fits(features)
    loss, *found = fused_loss.fused_loss(features, weight, targets, scale, wanted)
    # The chunks in float32 are the truth that both ways of bf16 approach.
    plain_loss, *plain = chunked_loss._chunked(
        features.float(), weight.float(), targets, scale, wanted
    )
    torch.testing.assert_close(loss, plain_loss, rtol=0.01, atol=1e-5)
    for gradient, other, want in zip(found, plain, wanted, strict=True):
        assert (gradient is not None) == (other is not None) == want
        if gradient is not None and other is not None:
            assert gradient.dtype == torch.float32
            limit = 0.01 * other.norm().item() + 1e-6
            assert (gradient - other).norm().item() < limit


def test_rows_of_very_negative_logits_stay_finite() -> None:
    from ease.model import fused_loss

    features = torch.ones(130, 64, device="cuda", dtype=torch.bfloat16)
    weight = torch.full((65, 64), -4.0, device="cuda", dtype=torch.bfloat16)  # logits of -256
    targets, scale = torch.zeros(130, device="cuda").long(), torch.ones(130, device="cuda")
    loss, *gradients = fused_loss.fused_loss(features, weight, targets, scale, (True, True))
    assert loss.item() == pytest.approx(130 * 4.174387, rel=1e-4)  # log(65) each
    assert all(torch.isfinite(gradient).all() for gradient in gradients if gradient is not None)


def test_wide_or_full_precision_features_take_the_chunks() -> None:
    narrow = torch.zeros(4, 64, device="cuda")
    assert chunked_loss._best_way(narrow) is chunked_loss._chunked
    assert chunked_loss._best_way(torch.zeros(4, 256).cuda().bfloat16()) is chunked_loss._chunked
    assert chunked_loss._best_way(narrow.bfloat16()) is not chunked_loss._chunked
