"""The planner bench: what it counts as solved, and what it says when the problems are missing or broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.planner import minimalloc_figures
from benchmarks.planning import Instance, minimalloc, read_csv, solve
from tests.compiler.packings import guillotine


def written(folder: Path, instance: Instance) -> Path:
    file = folder / "benchmarks" / "challenging" / f"{instance.name}.{instance.capacity}.csv"
    file.parent.mkdir(parents=True)
    rows = [f"{b.name},{b.first},{b.last + 1},{b.size}" for b in instance.buffers]
    file.write_text("\n".join(["id,lower,upper,size", *rows]) + "\n")
    return file


def test_a_problem_is_read_with_its_capacity_and_the_upper_step_left_out(tmp_path: Path) -> None:
    instance = Instance("A", tuple(guillotine(1, count=12, steps=6, capacity=100)), 100)
    written(tmp_path, instance)
    assert minimalloc(tmp_path) == [instance]


def test_missing_problems_end_with_a_line_that_says_where_they_belong(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="EDGELOOP_MINIMALLOC"):
        minimalloc(tmp_path)


def test_a_broken_problem_is_named(tmp_path: Path) -> None:
    file = tmp_path / "B.100.csv"
    file.write_text("id,lower\n1,2\n")
    with pytest.raises(SystemExit, match=r"B\.100\.csv"):
        read_csv(file)


def test_only_what_fits_and_passes_the_check_counts_as_solved() -> None:
    buffers = tuple(guillotine(1, count=30, steps=12, capacity=100))
    possible, impossible = Instance("yes", buffers, 100), Instance("no", buffers, 99)
    solved = [solve(possible, 20.0, 1), solve(impossible, 20.0, 1)]
    figures = {figure.id: figure for figure in minimalloc_figures([possible, impossible], solved)}
    assert [one.fits for one in solved] == [True, False]
    assert (figures["planner.minimalloc.solved"].value, figures["planner.minimalloc.solved"].ok) == (1, False)
    assert str(figures["planner.minimalloc.no.outcome"].value).startswith("not solved")
