"""Bundles for the tests of reports and pages: small nets, every kind of schedule."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from compiler.driver import compile_bundle
from compiler.measures.views import FileView, ProfileView, view_file
from compiler.options import CompileOptions
from tests.support.models import quality_qdq, vsr_qdq

WAYS = {
    "striped": CompileOptions(stripe_rows=6),
    "whole": CompileOptions(depth_first=False),
    "unplanned": CompileOptions(fuse=False, plan=False, depth_first=False, double_buffer=False),
}


@cache
def bundle(way: str) -> Path:
    """A bundle of a small net and the quality net, two profiles, one target."""
    path = Path(mkdtemp(prefix="edgeloop-page-")) / f"{way}.elb"
    net = vsr_qdq(channels=64, mid=64, blocks=3)
    compile_bundle(
        net, quality_qdq(), None, ["npu-4t"], [(360, 640), (96, 128)], {}, path, "1.2.0", 3, options=WAYS[way]
    )
    return path


@cache
def view(way: str) -> FileView:
    """The bundle as the page sees it."""
    return view_file(bundle(way))


def profile(way: str, index: int = 0) -> ProfileView:
    """A profile of the model in it."""
    return view(way).programs[0].profiles[index]
