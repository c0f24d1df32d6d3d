"""History on or off: slices, clips, genes, the operator table, and an INT8 export whose second frame remembers."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from compiler.driver import compile_program
from contracts.lab import LabClient
from flows.data.clips import shrink
from flows.data.degrade import NORMAL
from flows.data.pairs import Pair, PairSet
from flows.inference import Stream, cpu_session
from flows.quant.export import proven_vsr
from flows.quant.qat import QAT_SETTINGS, qat
from flows.search.adapt import adapt_supernet
from flows.search.genome import Genome
from flows.search.table import measure_table
from flows.search.widen import contains
from flows.tasks.training import Budget
from flows.tasks.vsr.architecture import HAND_MADE, RECURRENT_SPACE, Architecture, Space, Stage
from flows.tasks.vsr.history import FRAMES, Player, clips_of, unrolled
from flows.tasks.vsr.inherit import inherit
from flows.tasks.vsr.metrics import evaluate
from flows.tasks.vsr.net import VsrNet
from flows.tasks.vsr.supernet import Supernet, load_supernet, save_supernet
from flows.tasks.vsr.train import TrainSettings, finetune, mixed_batch, train_supernet
from flows.tasks.vsr.weights import load_net, save_net

TINY = Space(trunks=(4, 8), depths=(0, 1), mids=(4,), kernels=(3,), stages=2, histories=(0, 4))
ONE = Architecture(8, (Stage(1, 4), Stage(0, 4)), 4)
CLIPS = TrainSettings(batch=6, patch=16, frames=FRAMES)
LAB = (sys.executable, "-m", "edge_agent.lab")


@pytest.fixture(scope="module")
def noisy() -> PairSet:
    """A picture that stands still under fresh noise: what came before helps."""
    random = np.random.default_rng(0)
    still = random.integers(60, 190, (8, 8, 3)).repeat(8, axis=0).repeat(8, axis=1).astype(np.uint8)
    high = np.repeat(still[None], 8, axis=0)
    low = np.clip(shrink(high, 2) + random.normal(0, 20, (8, 32, 32, 3)), 0, 255).astype(np.uint8)
    return PairSet((Pair("still", NORMAL, low, high),))


def test_a_slice_with_history_is_its_network_frame_by_frame() -> None:
    supernet, x = Supernet(TINY), torch.rand(2 * FRAMES, 3, 16, 16)
    for trunk in (4, 8):
        architecture = Architecture(trunk, ONE.stages, 4)
        net = supernet.extract(architecture)
        with clips_of(net, FRAMES), clips_of(supernet, FRAMES):
            assert torch.equal(net(x), supernet(x, architecture))


def test_the_second_frame_depends_on_the_first_and_a_new_stream_does_not() -> None:
    net = VsrNet(ONE)
    first, second = torch.rand(2, 1, 3, 16, 16)
    play = Player(net)
    play(first)
    assert not torch.allclose(play(second), Player(net)(second))
    assert torch.equal(Player(net)(second), net(second))


def test_clips_of_a_batch_do_not_meet() -> None:
    net, x = VsrNet(ONE), torch.rand(2 * FRAMES, 3, 16, 16)
    both = unrolled(net.step, x, FRAMES)
    assert torch.allclose(both[FRAMES:], unrolled(net.step, x[FRAMES:], FRAMES), atol=1e-6)


def test_without_history_nothing_is_kept_and_json_is_as_ever() -> None:
    plain = Architecture(8, (Stage(1, 4),))
    assert "history" not in plain.to_json()
    assert VsrNet(plain).step(torch.rand(1, 3, 8, 8), None)[1] is None
    assert Architecture.from_json(ONE.to_json()) == ONE
    assert ONE.parameters() == sum(p.numel() for p in VsrNet(ONE).parameters())


def test_a_history_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="history -1"):
        Architecture(8, (Stage(1, 4),), -1)


def test_files_keep_the_history(tmp_path) -> None:  # type: ignore[no-untyped-def]  # pytest's path
    net = VsrNet(ONE)
    assert load_net(save_net(net)).architecture == ONE
    save_supernet(Supernet(TINY), tmp_path / "s.npz")
    assert load_supernet(tmp_path / "s.npz").space == TINY


def test_a_parent_that_gets_a_history_computes_the_same() -> None:
    parent = VsrNet(Architecture(8, ONE.stages))
    heir = inherit(parent, ONE)
    play, x = Player(heir), torch.rand(2, 1, 3, 16, 16)
    for image in x:
        assert torch.allclose(play(image), parent(image), atol=1e-6)
    again = inherit(heir, Architecture(8, (Stage(1, 4), Stage(1, 4)), 4))
    assert torch.equal(again.join.weight, heir.join.weight)


def test_history_is_a_gene_where_everything_is_searched() -> None:
    start, random = Architecture(16, (Stage(1, 16),) * 3), np.random.default_rng(0)
    genome = Genome(RECURRENT_SPACE, start, (0, 1, 2))
    assert genome.length == 11
    seen = set()
    for _ in range(30):
        network = RECURRENT_SPACE.sample(random)
        known = Architecture(
            network.trunk, tuple(s if s.depth else Stage(0, 8, 3) for s in network.stages), network.history
        )
        assert genome.decode(np.array(genome.encode(known), np.int64)) == known
        seen.add(known.history)
    assert seen == {0, 8}
    assert Genome(RECURRENT_SPACE, start, (1,)).length == 3
    assert not contains(Architecture(16, start.stages, 8), start)


def test_clips_are_trained_on_and_what_came_before_helps(noisy: PairSet) -> None:
    low, high, level = mixed_batch(noisy, None, CLIPS, np.random.default_rng(0))
    assert (low.shape[0], level.shape[0]) == (6, 6)
    assert torch.equal(high[0], high[1])
    torch.manual_seed(0)
    kept = finetune(VsrNet(ONE), noisy, noisy, Budget(steps=400), settings=CLIPS)
    assert kept.frames == 1
    remembered = evaluate(kept, noisy).psnr_rgb
    alone = evaluate(lambda frames: np.concatenate([_alone(kept, image) for image in frames]), noisy).psnr_rgb
    assert remembered > alone
    assert alone > 22.3  # enlarged noise has 22.14


def _alone(net: VsrNet, image: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        y = net(torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float() / 255)
    return (y.clamp(0, 1) * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def test_a_supernet_with_history_trains_and_adapts(noisy: PairSet) -> None:
    supernet = train_supernet(noisy, Budget(steps=12), space=TINY, settings=CLIPS)
    before = supernet.full.blocks[0].expand.weight.detach().clone()
    adapt_supernet(supernet, ONE, (0,), noisy, noisy, Budget(steps=3), TrainSettings(batch=6, patch=16))
    assert not torch.equal(before, supernet.full.blocks[0].expand.weight)
    assert supernet.frames == 1


def test_the_int8_export_remembers_as_the_network_does(noisy: PairSet) -> None:
    torch.manual_seed(0)
    net = finetune(VsrNet(ONE), noisy, noisy, Budget(steps=40), settings=CLIPS)
    net.frames = FRAMES
    settings = TrainSettings(batch=6, patch=16, rate=QAT_SETTINGS.rate, frames=FRAMES)
    made = qat(net, noisy, None, Budget(steps=4), settings=settings)
    model, found = proven_vsr(made.network, noisy.pairs[0].low[:4])
    assert found.ok
    stream = Stream(cpu_session(model))
    x = np.ascontiguousarray(noisy.pairs[0].low[:1].transpose(0, 3, 1, 2), np.float32) / np.float32(255)
    first, second = stream.next(x), stream.next(x)
    assert not np.array_equal(first, second)
    assert abs(evaluate(model, noisy).psnr_rgb - evaluate(net, noisy).psnr_rgb) < 1.0
    with LabClient([*LAB, "--device-class", "npu-4t"]) as lab:
        lab.load_program(compile_program(model, "npu-4t", [(32, 32)])[0], "whole")
        images = lab.run("whole", noisy.pairs[0].low[:3])
    assert images is not None


def test_the_operator_table_knows_what_history_costs() -> None:
    space = Space(trunks=(8,), depths=(0, 1), mids=(8,), kernels=(3,), stages=2, histories=(0, 8))
    table = measure_table(space, (8,), ("npu-4t",), ((48, 64),), LAB)
    plain, kept = Architecture(8, (Stage(1, 8), Stage(0, 8))), Architecture(8, (Stage(1, 8), Stage(0, 8)), 8)
    dearer = table.latency_us(kept, "npu-4t", "48x64") / table.latency_us(plain, "npu-4t", "48x64")
    assert 1.05 < dearer < 3.0
    assert table.ddr_bytes(kept, "npu-4t", "48x64") >= table.ddr_bytes(plain, "npu-4t", "48x64")
    assert HAND_MADE.history == 0
