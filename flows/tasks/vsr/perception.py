"""What training may ask for beside fidelity: no flicker, natural texture, and late in the run pictures that pass.

Every part is off unless it has a weight, and then nothing of it costs anything.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flows.perceptual.flicker import temporal_loss
from flows.perceptual.lpips import Lpips
from flows.perceptual.naturalness import moment_loss

CLIP_FRAMES = 2


@dataclass(frozen=True)
class Perception:
    """Weights beside a fidelity loss of about 0.5.

    temporal      flicker where the truth stands still, relative to the recordings' level; 0.3 is a good start
    moments       moments of locally normalised luma against the truth's (as NIQE looks at pictures); 0.02
    lpips         distance as AlexNet sees it; needs `edgeloop weights fetch lpips`; 0.2
    adversarial   a small critic of patches; 0.005, joins after the share `adversarial_from` of the run
    """

    temporal: float = 0.0
    moments: float = 0.0
    lpips: float = 0.0
    adversarial: float = 0.0
    adversarial_from: float = 0.7
    critic_rate: float = 2e-4

    def __post_init__(self) -> None:
        weights = (self.temporal, self.moments, self.lpips, self.adversarial, self.critic_rate)
        if not all(0.0 <= weight <= 100.0 for weight in weights) or not 0.0 <= self.adversarial_from <= 1.0:
            raise ValueError(
                f"{self}: weights must not be negative nor above 100, and adversarial_from must lie in 0..1"
            )

    @staticmethod
    def parse(text: str) -> Perception:
        """Read "temporal=0.2,moments=0.02"; an empty text asks for nothing. Raises ValueError with the known names."""
        known = {one.name for one in fields(Perception)}
        asked: dict[str, float] = {}
        for item in filter(None, (part.strip() for part in text.split(","))):
            name, _, value = item.partition("=")
            if name not in known:
                raise ValueError(f"{item!r}: nothing is called {name!r}; known: {', '.join(sorted(known))}")
            try:
                asked[name] = float(value)
            except ValueError:
                raise ValueError(f"{item!r}: write a number behind {name}=, like {name}=0.2") from None
        return Perception(**asked)

    @property
    def frames(self) -> int:
        """Consecutive frames that a patch must have."""
        return CLIP_FRAMES if self.temporal else 1


ASKS_NOTHING = Perception()


class Critic:
    """Tells true patches from made ones; hinge loss (Lim and Ye 2017, arXiv 1705.02894), trained beside the network."""

    def __init__(self, rate: float, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.net = nn.Sequential(
                nn.Conv2d(3, 16, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
                nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
                nn.Conv2d(32, 1, 3, padding=1),
            )  # fmt: skip
        self.optimiser = torch.optim.Adam(self.net.parameters(), lr=rate, betas=(0.5, 0.9))

    def challenge(self, output: Tensor, truth: Tensor) -> Tensor:
        """One step of the critic on both batches [n, 3, h, w]; then minus its opinion of the output, a scalar."""
        self.net.requires_grad_(True)
        wrong = F.relu(1.0 - self.net(truth)).mean() + F.relu(1.0 + self.net(output.detach())).mean()
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(wrong)
        self.optimiser.step()
        self.net.requires_grad_(False)
        return torch.as_tensor(-self.net(output).mean())


class Perceiver:
    """The added loss of one run. `companions` are what a checkpoint must keep."""

    def __init__(
        self, wanted: Perception, seed: int, frames: int = CLIP_FRAMES, device: torch.device | None = None
    ) -> None:
        self.wanted, self.frames = wanted, frames
        self._critic = Critic(wanted.critic_rate, seed) if wanted.adversarial else None
        self._lpips = Lpips() if wanted.lpips else None
        judges: tuple[nn.Module | None, ...] = (self._lpips, self._critic.net if self._critic else None)
        for judge in judges:
            if judge is not None:
                judge.to(device)

    @property
    def companions(self) -> dict[str, nn.Module | torch.optim.Optimizer]:
        """Critic and its optimiser, when there is one."""
        return {} if self._critic is None else {"critic": self._critic.net, "critic_adam": self._critic.optimiser}

    def loss(self, output: Tensor, truth: Tensor, level: Tensor, share: float) -> Tensor:
        """Scalar beside fidelity; [clips * frames, 3, h, w] twice in 0..1, their levels, share of the budget spent."""
        wanted, output = self.wanted, output.float()
        total = output.new_zeros(())
        if wanted.temporal:
            clips = [batch.reshape(-1, self.frames, *batch.shape[1:]) for batch in (output, truth)]
            total = total + wanted.temporal * temporal_loss(clips[0], clips[1]) / level.mean()
        if wanted.moments:
            total = total + wanted.moments * moment_loss(output, truth)
        if self._lpips is not None:
            total = total + wanted.lpips * self._lpips(output.clamp(0, 1), truth).mean()
        if self._critic is not None and share >= wanted.adversarial_from:
            total = total + wanted.adversarial * self._critic.challenge(output, truth)
        return total
