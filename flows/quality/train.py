"""Training of the quality net.

Four terms: name the condition from the segment vector and from the pooled embedding; predict the measured loss of the
super-resolution model from the pooled embedding (the score head, linear); keep vectors of one condition together
across contents and conditions apart (log ratio of the two spreads); and an adversary that tries to tell the clip from
the vector, whose gradient is reversed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.quality.net import EMBEDDING, FEATURES, QualityNet
from flows.quality.snippets import LABELS, Group, Snippet, labels_of
from flows.tasks.training import Budget, Loop, Progress, one_thread, parameters_of

VECTOR = 2 * FEATURES


@dataclass(frozen=True)
class QualitySettings:
    """Weights of the terms and the size of a step."""

    groups_per_step: int = 8
    rate: float = 3e-3
    spread: float = 0.3
    adversary: float = 0.1
    score: float = 0.05
    seed: int = 0


class QualityTrainee(nn.Module):
    """The net with its training heads; only `net` and `score` are kept."""

    def __init__(self, net: QualityNet, clips: int) -> None:
        super().__init__()
        self.net = net
        self.score = nn.Linear(EMBEDDING, 1)
        self.name_vector = nn.Linear(VECTOR, len(LABELS))
        self.name_embedding = nn.Linear(EMBEDDING, len(LABELS))
        self.guess_clip = nn.Sequential(nn.Linear(VECTOR, 32), nn.ReLU(), nn.Linear(32, clips))
        nn.init.constant_(self.score.bias, 2.0)

    def observe(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Frames [n, k, 3, h, w] of n snippets -> segment vectors [n, 32] and pooled embeddings [n, 256]."""
        n, k = frames.shape[:2]
        features, embedding = self.net(frames.flatten(0, 1))
        codes = soft_codes(features).reshape(n, k, *features.shape[1:]).transpose(1, 2).flatten(2)
        vector = torch.cat([codes.mean(2), (codes.var(2, unbiased=False) + 1e-5).sqrt()], 1)
        return vector, embedding.reshape(n, k, *embedding.shape[1:]).mean(dim=(1, 3, 4))


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength  # type: ignore[attr-defined]  # autograd's context takes any attribute
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradients[0], None  # type: ignore[attr-defined]  # see forward


def reverse_gradient(x: Tensor, strength: float) -> Tensor:
    """x itself; its gradient comes back times -strength."""
    return torch.as_tensor(_Reverse.apply(x, strength))  # type: ignore[no-untyped-call]  # torch leaves apply untyped


def soft_codes(features: Tensor) -> Tensor:
    """4-bit codes of features on the pixel grid as fractions of 15, with straight-through gradients."""
    bounded = features.clamp(0.0, 1.0)
    codes = torch.floor(bounded * 255.0 / 16.0).clamp(max=15.0) / 15.0
    return bounded + (codes - bounded).detach()


def train_quality(
    groups: tuple[Group, ...],
    budget: Budget,
    *,
    settings: QualitySettings | None = None,
    progress: Progress | None = None,
) -> QualityTrainee:
    """Train on groups of snippets; returns the trainee with averaged weights."""
    settings = settings or QualitySettings()
    torch.manual_seed(settings.seed)
    names = sorted({snippet.clip for group in groups for snippet in group.snippets})
    trainee = QualityTrainee(QualityNet(), len(names))
    loop = Loop(
        parameters_of(trainee),
        budget,
        rate=settings.rate,
        decay=0.998,
        progress=progress,
        random=np.random.default_rng(settings.seed),
    )
    labels = torch.from_numpy(np.stack([labels_of(group.degradation) for group in groups]))
    losses = torch.tensor([group.expected_loss for group in groups])

    def loss_of(step: int, share: float) -> Tensor:
        picked = loop.random.choice(len(groups), settings.groups_per_step, replace=False)
        snippets = [snippet for index in picked for snippet in groups[index].snippets]
        return _loss(trainee, snippets, labels, losses, names, settings, share)

    with one_thread():
        loop.run(loss_of)
    loop.use_average()
    return trainee


def observe_snippets(trainee: QualityTrainee, snippets: list[Snippet]) -> tuple[Tensor, Tensor]:
    """Vectors and embeddings in the order given; frames of one size are run together."""
    vectors, embeddings = torch.empty(len(snippets), VECTOR), torch.empty(len(snippets), EMBEDDING)
    by_size: dict[tuple[int, ...], list[int]] = {}
    for index, snippet in enumerate(snippets):
        by_size.setdefault(snippet.frames.shape, []).append(index)
    parts: list[tuple[list[int], Tensor, Tensor]] = []
    for places in by_size.values():
        stack = torch.from_numpy(np.stack([snippets[place].frames for place in places]))
        parts.append((places, *trainee.observe(stack.permute(0, 1, 4, 2, 3).float() / 255.0)))
    order = torch.tensor([place for places, _, _ in parts for place in places])
    back = torch.argsort(order)
    vectors = torch.cat([vector for _, vector, _ in parts])[back]
    embeddings = torch.cat([embedding for _, _, embedding in parts])[back]
    return vectors, embeddings


def spread_ratio(vectors: Tensor, groups: Tensor) -> Tensor:
    """Spread of vectors inside groups over the spread of group means; small is good."""
    means = torch.stack([vectors[groups == group].mean(0) for group in torch.unique(groups)])
    inside = torch.stack(
        [
            (vectors[groups == group] - mean).square().sum(1).mean()
            for group, mean in zip(torch.unique(groups), means, strict=True)
        ]
    ).mean()
    between = (means - means.mean(0)).square().sum(1).mean()
    return (inside + 1e-4) / (between + 1e-4)


def _loss(
    trainee: QualityTrainee,
    snippets: list[Snippet],
    labels: Tensor,
    losses: Tensor,
    names: list[str],
    settings: QualitySettings,
    share: float,
) -> Tensor:
    vectors, embeddings = observe_snippets(trainee, snippets)
    group = torch.tensor([snippet.group for snippet in snippets])
    wanted = labels[group]
    clip = torch.tensor([names.index(snippet.clip) for snippet in snippets])
    naming = F.smooth_l1_loss(trainee.name_vector(vectors), wanted)
    naming = naming + F.smooth_l1_loss(trainee.name_embedding(embeddings), wanted)
    score = F.smooth_l1_loss(trainee.score(embeddings)[:, 0], losses[group])
    ratio = torch.log(spread_ratio(vectors, group)) + 0.5 * torch.log(spread_ratio(embeddings, group))
    reversed_vectors = reverse_gradient(vectors, min(1.0, 2.0 * share))
    guess = F.cross_entropy(trainee.guess_clip(reversed_vectors), clip)
    return naming + settings.score * score + settings.spread * ratio + settings.adversary * guess
