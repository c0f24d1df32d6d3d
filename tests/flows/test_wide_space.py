"""The wide space: trunks in the genome and in the operator table, kernels with branches, training with requests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.errors import CorpusError
from flows.data.pairs import Pair, PairSet
from flows.errors import FlowError
from flows.search.genome import Genome
from flows.search.nsga import SearchSettings, search
from flows.search.table import BlockCost, OperatorTable
from flows.steps.context import RetrainSettings
from flows.tasks.training import Budget, TrainingError
from flows.tasks.vsr.architecture import DEFAULT_SPACE, HAND_MADE, WIDE_SPACE, Architecture, Space, Stage
from flows.tasks.vsr.branches import branch, fold, parts_of, weight_of
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.perception import Perception
from flows.tasks.vsr.supernet import Supernet
from flows.tasks.vsr.train import TrainSettings, finetune, mixed_batch, train_supernet
from flows.tasks.vsr.weights import save_net

TINY = Space(trunks=(4, 8), depths=(0, 1), mids=(4, 8), kernels=(3, 5), stages=2)
SMALL = TrainSettings(batch=4, patch=16)
ALL = (0, 1, 2)


@pytest.fixture(scope="module")
def pairs() -> PairSet:
    y, x = np.mgrid[0:64, 0:64]
    waves = 127 + 60 * np.sin(x[..., None] / (2.0, 3.0, 5.0)) + 60 * np.cos(y[..., None] / 3.0)
    high = np.clip(np.stack([np.roll(waves, shift, 1) for shift in range(4)]), 0, 255).astype(np.uint8)
    return PairSet((Pair("waves", NORMAL, shrink(high, 2), high),))


def test_every_member_survives_genes_and_back() -> None:
    genome, random = Genome(WIDE_SPACE, Architecture(16, (Stage(1, 16),) * 3), ALL), np.random.default_rng(0)
    for _ in range(50):
        network = WIDE_SPACE.sample(random)
        known = Architecture(network.trunk, tuple(s if s.depth else Stage(0, 8, 3) for s in network.stages))
        assert genome.decode(np.array(genome.encode(known), np.int64)) == known


def test_the_trunk_is_a_gene_only_where_nothing_is_inherited() -> None:
    inherited = Architecture(24, (Stage(1, 16),) * 3)
    assert Genome(WIDE_SPACE, inherited, ALL).length == 10
    some = Genome(WIDE_SPACE, inherited, (1,))
    assert some.length == 3
    assert {some.decode(row.astype(np.int64)).trunk for row in some.rows()} == {24}
    assert not some.holds(Architecture(16, inherited.stages))


def test_the_default_space_has_no_other_genes_than_before() -> None:
    genome = Genome(DEFAULT_SPACE, HAND_MADE, ALL)
    assert genome.length == 9
    assert genome.size == DEFAULT_SPACE.size


def test_a_search_over_trunks_finds_the_one_that_pays() -> None:
    def quality(network: Architecture) -> float:
        return 30.0 + min(network.trunk, 32) / 16.0 + 0.1 * network.depth

    def latency(network: Architecture) -> float:
        return network.trunk / 32.0 + 0.01 * network.depth

    start = Architecture(8, (Stage(1, 8),) * 3)
    found = search(WIDE_SPACE, start, ALL, quality, latency, SearchSettings(population=8, generations=4, limit=1.1))
    assert found.chosen.architecture.trunk == 32


def test_the_table_keeps_the_trunks_apart() -> None:
    rows = tuple(
        BlockCost("npu", "72x88", trunk, 8, kernel, block, 10.0 * trunk, 5)
        for trunk, kernel, block in ((8, 3, 1.0), (8, 5, 2.0), (16, 3, 4.0), (16, 5, 8.0))
    )
    table = OperatorTable(rows, {})
    assert table.latency_us(Architecture(8, (Stage(2, 8, 5),)), "npu", "72x88") == 84.0
    assert table.latency_us(Architecture(16, (Stage(1, 8, 3), Stage(1, 8, 5))), "npu", "72x88") == 172.0


def test_branches_change_nothing_when_they_come_and_nothing_when_they_go() -> None:
    net = VsrNet(Architecture(8, (Stage(1, 8, 5), Stage(1, 4))))
    x = torch.rand(1, 3, 16, 16)
    before, names = net(x), set(net.state_dict())
    branch(net)
    assert torch.equal(net(x), before)
    with torch.no_grad():
        for conv in net.modules():
            if isinstance(conv, torch.nn.Conv2d):
                for part in parts_of(conv)[1:]:
                    part.add_(0.1 * torch.randn_like(part))
                assert torch.equal(weight_of(conv), conv.weight)
    trained = net(x)
    assert not torch.allclose(trained, before)
    fold(net)
    assert torch.equal(net(x), trained)
    assert set(net.state_dict()) == names


def test_a_five_by_five_kernel_has_two_branches() -> None:
    net = VsrNet(Architecture(8, (Stage(1, 8, 5),)))
    branch(net)
    assert [part.shape[-1] for part in parts_of(net.blocks[0].expand)] == [5, 1, 3]


def test_sorting_a_branched_supernet_changes_no_output() -> None:
    supernet = Supernet(TINY)
    branch(supernet)
    with torch.no_grad():
        for value in supernet.parameters():
            value.add_(0.05 * torch.randn_like(value))
    x = torch.rand(1, 3, 16, 16)
    before = supernet(x)
    supernet.sort_channels()
    assert torch.allclose(before, supernet(x), atol=1e-5)
    block = supernet.full.blocks[0]
    strength = block.expand.weight.abs().sum((1, 2, 3)) * block.project.weight.abs().sum((0, 2, 3))
    assert bool((strength.diff() <= 1e-5).all())


def test_a_stopped_supernet_goes_on_to_the_same_weights(pairs: PairSet, tmp_path: Path) -> None:
    settings = TrainSettings(batch=2, patch=16, branches=True)
    whole = train_supernet(pairs, Budget(steps=40), space=TINY, settings=settings)

    def stop(share: float, _text: str) -> None:
        if share >= 0.6:
            raise KeyboardInterrupt

    checkpoint = tmp_path / "s.pt"
    with pytest.raises(KeyboardInterrupt):
        train_supernet(
            pairs, Budget(steps=40), space=TINY, settings=settings, checkpoint=checkpoint, progress=stop
        )  # fmt: skip
    again = train_supernet(pairs, Budget(steps=40), space=TINY, settings=settings, checkpoint=checkpoint)
    assert save_net(again.extract(TINY.largest)) == save_net(whole.extract(TINY.largest))


def test_asking_for_nothing_gives_the_weights_as_ever(pairs: PairSet) -> None:
    first, second = (VsrNet(Architecture(4, (Stage(1, 4),))) for _ in range(2))
    second.load_state_dict(first.state_dict())
    budget = Budget(steps=10)
    finetune(first, pairs, pairs, budget, settings=SMALL)
    finetune(second, pairs, pairs, budget, settings=TrainSettings(batch=4, patch=16, perception=Perception()))
    assert save_net(first) == save_net(second)


def test_flicker_is_asked_of_neighbouring_frames(pairs: PairSet) -> None:
    settings = TrainSettings(batch=6, patch=16, perception=Perception(temporal=1.0))
    _, high, level = mixed_batch(pairs, pairs, settings, np.random.default_rng(0))
    assert high.shape == (6, 3, 32, 32)
    assert level.shape == (6,)
    first, later = high[0], high[1]
    rolled = min(float((torch.roll(first, step, dims) - later).abs()[..., 2:-2, 2:-2].max())
                 for step in (-1, 1) for dims in (1, 2))  # fmt: skip
    assert rolled == 0.0


def test_clips_longer_than_every_recording_are_refused(pairs: PairSet) -> None:
    with pytest.raises(CorpusError, match="no pair has 9 frames"):
        pairs.clips(1, 9, 16, np.random.default_rng(0))


@pytest.mark.parametrize("asked", [Perception(temporal=1.0), Perception(moments=0.1), Perception(adversarial=0.01)])
def test_every_request_trains_and_repeats(pairs: PairSet, asked: Perception) -> None:
    settings = TrainSettings(batch=4, patch=16, perception=asked)
    start = VsrNet(Architecture(4, (Stage(1, 4),)))
    runs = []
    for _ in range(2):
        net = VsrNet(start.architecture)
        net.load_state_dict(start.state_dict())
        runs.append(save_net(finetune(net, pairs, pairs, Budget(steps=12), settings=settings)))
    assert runs[0] == runs[1]


def test_the_critic_comes_late_and_survives_a_stop(pairs: PairSet, tmp_path: Path) -> None:
    settings = TrainSettings(batch=4, patch=16, perception=Perception(adversarial=0.05, adversarial_from=0.25))
    start = VsrNet(Architecture(4, (Stage(1, 4),)))

    def run(checkpoint: Path | None, until: float = 2.0) -> bytes:
        def stop(share: float, _text: str) -> None:
            if share >= until:
                raise KeyboardInterrupt

        net = VsrNet(start.architecture)
        net.load_state_dict(start.state_dict())
        finetune(net, pairs, pairs, Budget(steps=40), settings=settings, checkpoint=checkpoint, progress=stop)
        return save_net(net)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "c.pt", 0.6)
    assert run(tmp_path / "c.pt") == run(None)


def test_a_checkpoint_with_a_critic_is_not_that_of_a_run_without(pairs: PairSet, tmp_path: Path) -> None:
    net, path = VsrNet(Architecture(4, (Stage(1, 4),))), tmp_path / "c.pt"

    def stop(_share: float, _text: str) -> None:
        if path.exists():
            raise KeyboardInterrupt

    asked = TrainSettings(batch=4, patch=16, perception=Perception(adversarial=0.05))
    with pytest.raises(KeyboardInterrupt):
        finetune(net, pairs, pairs, Budget(steps=10), settings=asked, checkpoint=path, progress=stop)
    with pytest.raises(TrainingError, match="critic"):
        finetune(net, pairs, pairs, Budget(steps=10), settings=SMALL, checkpoint=path)


def test_weights_below_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Perception(temporal=-1.0)


def test_requests_are_read_from_words() -> None:
    assert Perception.parse("") == Perception()
    assert Perception.parse("temporal=0.2, moments=0.02") == Perception(temporal=0.2, moments=0.02)


@pytest.mark.parametrize(
    ("words", "message"),
    [("beauty=1", "nothing is called 'beauty'"), ("temporal", "write a number"), ("lpips=nan", "not")],
)
def test_words_that_cannot_be_read_are_named(words: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Perception.parse(words)
    with pytest.raises(FlowError, match=message):
        RetrainSettings.from_environment(asks=words)
