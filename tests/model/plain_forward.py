"""The decoder of docs/specification.md again, in float64 numpy and written from its formulas."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ease import ModelConfig

Array = npt.NDArray[np.float64]
Weights = dict[str, Array]


def plain_logits(weights: Weights, config: ModelConfig, ids: npt.NDArray[np.int64]) -> list[Array]:
    """The logits (seq, vocab) of every exit for one sequence of token ids (seq,)."""
    h = weights["embedding.weight"][ids]  # (seq, dim)
    head = weights["embedding.weight"]
    logits = []
    for number, shape in enumerate(config.stages):
        stage = f"stages.{number}."
        for block in range(shape.layers):
            h = _block(h, weights, f"{stage}blocks.{block}.", config, shape.norm)
        features = h
        if shape.final_norm:
            features = _norm(h, weights[f"{stage}norm.weight"], config.norm_eps)
        if shape.head == "own":
            head = weights[f"{stage}head.weight"]
        elif shape.head == "tied":
            head = weights["embedding.weight"]
        logits.append(features @ head.T)
    return logits


def _block(h: Array, weights: Weights, name: str, config: ModelConfig, norm: str) -> Array:
    gains = [weights[f"{name}{part}_norm.weight"] for part in ("attention", "feed_forward")]
    if norm == "post":
        h = _norm(h + _attention(h, weights, name, config), gains[0], config.norm_eps)
        return _norm(h + _feed_forward(h, weights, name), gains[1], config.norm_eps)
    h = h + _attention(_norm(h, gains[0], config.norm_eps), weights, name, config)
    return h + _feed_forward(_norm(h, gains[1], config.norm_eps), weights, name)


def _norm(x: Array, gain: Array, eps: float) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * gain


def _feed_forward(x: Array, weights: Weights, name: str) -> Array:
    both = x @ weights[f"{name}feed_forward.up_proj.weight"].T
    switch, value = np.split(both, 2, axis=-1)
    return (
        switch / (1 + np.exp(-switch)) * value @ weights[f"{name}feed_forward.down_proj.weight"].T
    )


def _attention(x: Array, weights: Weights, name: str, config: ModelConfig) -> Array:
    """Token by token and head by head, over the tokens up to it."""
    size, name = config.head_dim, f"{name}attention."
    qkv = x @ weights[f"{name}qkv_proj.weight"].T
    if config.qkv_bias:
        qkv = qkv + weights[f"{name}qkv_proj.bias"]
    heads = np.split(qkv, qkv.shape[-1] // size, axis=-1)  # each (seq, head_dim)
    queries = heads[: config.num_heads]
    keys = heads[config.num_heads : config.num_heads + config.num_kv_heads]
    values = heads[config.num_heads + config.num_kv_heads :]
    if config.qk_norm:
        queries = [_norm(q, weights[f"{name}q_norm.weight"], config.norm_eps) for q in queries]
        keys = [_norm(k, weights[f"{name}k_norm.weight"], config.norm_eps) for k in keys]
    group = config.num_heads // config.num_kv_heads
    mixed = np.zeros((len(x), config.num_heads * size))
    for head, query in enumerate(_turned(q, config.rope_theta) for q in queries):
        key, value = _turned(keys[head // group], config.rope_theta), values[head // group]
        for t in range(len(x)):
            scores = key[: t + 1] @ query[t] / np.sqrt(size)
            shares = np.exp(scores - scores.max())
            mixed[t, head * size : (head + 1) * size] = shares / shares.sum() @ value[: t + 1]
    return mixed @ weights[f"{name}o_proj.weight"].T


def _turned(x: Array, theta: float) -> Array:
    """Rotary positions: the pair (x[i], x[i + half]) as a complex number, times e^(i angle)."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None] * theta ** (-np.arange(half) / half)
    turned = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1)
