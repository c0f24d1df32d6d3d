"""Vela's part: the file that it reads holds our integers, its tables are read right, its absence is said plainly."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.environment import Environment, PeerFailed
from benchmarks.peers.vela.results import read_results, write_results
from benchmarks.peers.vela.run import REQUIREMENTS
from benchmarks.peers.vela.tables import read_tables
from benchmarks.peers.vela.tflite import tflite_model
from benchmarks.reference_nets import NETS, NetShape, net_named, quantized_net

SUMMARY = (
    "network,inference_time,cycles_npu,cycles_dram_access,cycles_total,sram_memory_used,dram_total_bytes\n"
    "small,0.0015,1400,700,1500.0,12.5,3500000\n"
)
LAYERS = (
    "Original Operator,NNG Operator,Target,Op Cycles,NPU,MAC Count,Name\n"
    "SpaceToDepth,Passthrough,CPU,0,0,0,s2d\n"
    "Conv2D,Conv2D,NPU,900,800,5000,head\n"
    "Conv2D,Relu,NPU,0,0,0,head\n"
    "Add,Add,NPU,0,0,0,block0_add\n"
)


def test_the_tflite_file_is_the_same_each_time_and_holds_the_weights() -> None:
    net = quantized_net(NetShape("small", 16, 1, 2, 24, 32))
    data = tflite_model(net)
    assert data == tflite_model(net)
    assert data[4:8] == b"TFL3"
    for layer in (net.head, net.blocks[0].first):
        assert layer.weights.transpose(0, 2, 3, 1).tobytes() in data
        assert layer.bias.tobytes() in data


def test_the_tail_is_in_the_order_of_tflites_depth_to_space() -> None:
    net = quantized_net(NetShape("small", 16, 1, 2, 24, 32))
    order = [(dy * 4 + dx) * 3 + colour for colour in range(3) for dy in range(4) for dx in range(4)]
    moved = np.empty_like(net.tail.bias)
    moved[order] = net.tail.bias
    assert moved.tobytes() in tflite_model(net)
    assert net.tail.bias.tobytes() not in tflite_model(net)


def test_tables_become_figures(tmp_path: Path) -> None:
    (tmp_path / "small_summary_Any.csv").write_text(SUMMARY)
    (tmp_path / "small_per-layer.csv").write_text(LAYERS)
    result = read_tables("small", tmp_path)
    assert (result.milliseconds, result.npu_cycles, result.total_cycles) == (1.5, 1400, 1500)
    assert (result.dram_mb_per_frame, result.sram_kib) == (3.5, 12.5)
    assert result.cpu_operators == ("SpaceToDepth",)
    (head,) = result.convolutions
    assert (head.name, head.macs, head.npu_cycles, head.total_cycles) == ("head", 5000, 800, 900)


def test_the_committed_figures_are_of_this_version_and_these_nets() -> None:
    results = read_results()
    assert [f"{name}=={results.packages[name]}" for name in ("ethos-u-vela",)] == list(REQUIREMENTS)
    for net in NETS:
        found = results.net(net.name)
        assert sum(row.macs for row in found.convolutions) == net.macs
        assert [row.name for row in found.convolutions] == [conv.name for conv in net.convolutions]
        assert found.cpu_operators == ("SpaceToDepth", "DepthToSpace")
        assert math.isclose(found.milliseconds, found.total_cycles / 1e6)


def test_a_net_without_figures_says_how_to_make_them() -> None:
    with pytest.raises(KeyError, match=r"benchmarks\.peers\.vela\.run"):
        read_results().net("c1x1")


def test_results_survive_the_file(tmp_path: Path) -> None:
    results = read_results()
    write_results(results, tmp_path / "results.json")
    assert read_results(tmp_path / "results.json") == results


def test_a_peer_that_is_not_there_is_one_plain_error(tmp_path: Path) -> None:
    with pytest.raises(PeerFailed, match="vela"):
        Environment(tmp_path).run("vela", ["--version"])


def test_a_peer_that_fails_says_its_last_words(tmp_path: Path) -> None:
    scripts = Environment(tmp_path).scripts
    scripts.mkdir()
    tool = scripts / "vela"
    tool.write_text("#!/bin/sh\necho 'Error: no such network' >&2\nexit 3\n")
    tool.chmod(0o755)
    with pytest.raises(PeerFailed, match="vela left with 3: Error: no such network"):
        Environment(tmp_path).run("vela", [net_named("c32x8").name])
