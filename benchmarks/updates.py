"""`edgeloop bench updates`: can anything brick a device, what does a change of bundle cost, what travels, what gets in?

Crashes: a device's life (`updating/life.py`) with a failure at every operation of its disk, in six ways, on a model of
a disk that keeps what POSIX promises and nothing else (`tests/support/crash_disk.py`); with the kernel's exchange of
names, with renames, and with sealed bundles. Switches: real disk, real bundles, emulated NPU. Deltas: the loop's own
training. Attacks: generated, against a device with a real TUF repository. Sealing: what it costs a device. Watermark:
what it costs the picture. Takes eight to ten minutes of one core.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.updating import attacks, crashes, deltas, marking, sealing, switching
from benchmarks.updating.life import World
from edgeloop.figures import Figure, at_least, exactly
from tests.support.crash_disk import Failure

LEAST_CASES = 200
WAYS = (
    ("exchange", True, False, 0.0, 0.3),
    ("renames", False, False, 0.3, 0.3),
    ("sealed", True, True, 0.6, 0.3),
)
"""Name, kernel can exchange names, bundles are sealed, where the progress begins, share of it."""
SHOWN = 3


PARTS = (
    ("switch", switching.figures),
    ("delta", deltas.figures),
    ("sealing", sealing.figures),
    ("watermark", marking.figures),
)


def bench(tell: Callable[[float, str], None]) -> Sequence[Figure]:
    """All figures of updates."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="edgeloop-updates-") as name:
        folder = Path(name)
        for way, can_exchange, sealed, start, share in WAYS:
            made = folder / way
            (made / "made").mkdir(parents=True)

            def shown(done: float, start: float = start, share: float = share, way: str = way) -> None:
                tell(start + share * done, f"failures with {way}")

            seen = crashes.crash_everywhere(
                World(made / "made", sealed=sealed), made, tuple(Failure), can_exchange, shown
            )
            found += crash_figures(way, seen)
            if sealed:
                found.append(exactly("sealed.in_clear", len(seen.leaked), _named("devices", seen.leaked), 0))
        for part, make in PARTS:
            tell(0.9, part)
            (folder / part).mkdir()
            found += make(folder / part)
        (folder / "attack").mkdir()
        outcome = attacks.besiege(folder / "attack", lambda done: tell(0.92 + 0.08 * done, "attacks"))
    return [*found, *attack_figures(outcome)]


def crash_figures(way: str, seen: crashes.Found) -> list[Figure]:
    """What a failure at every operation led to."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in seen.kinds.most_common())
    return [
        at_least(f"{way}.operations", seen.operations, kinds, 100),
        Figure(f"{way}.runs", seen.runs, "lives with one failure each", "printed", True),
        exactly(f"{way}.without_bundle", len(seen.bricked), _named("devices", seen.bricked), 0),
        exactly(f"{way}.floor_lower", len(seen.lowered), _named("devices", seen.lowered), 0),
        exactly(f"{way}.cause_lost", len(seen.forgotten), _named("devices", seen.forgotten), 0),
        exactly(f"{way}.cause_untold", len(seen.untold), _named("devices", seen.untold), 0),
        exactly(f"{way}.crash_miscounted", len(seen.miscounted), _named("devices", seen.miscounted), 0),
        exactly(f"{way}.left_behind", len(seen.stuck), _named("devices", seen.stuck), 0),
    ]


def attack_figures(outcome: attacks.Outcome) -> list[Figure]:
    """What got in, by kind, and the causes that the platform heard."""
    return [
        at_least("attacks.cases", outcome.cases.total(), "generated", LEAST_CASES),
        exactly("attacks.accepted", len(outcome.accepted), _named("bundles", outcome.accepted), 0),
        exactly("attacks.bundle_left", outcome.left_base, "devices that an attack made leave their bundle", 0),
        exactly("attacks.good_accepted", outcome.last_good, "a good bundle, afterwards", True),
        *(
            Figure(f"attacks.{kind.replace(' ', '_')}", count, _causes(outcome.causes.get(kind, {})), "printed", True)
            for kind, count in outcome.cases.items()
        ),
    ]


def _causes(causes: dict[str, int]) -> str:
    return "refused: " + ", ".join(f"{cause} {count}" for cause, count in sorted(causes.items()))


def _named(what: str, names: Sequence[str]) -> str:
    return what if not names else f"{what}: {'; '.join(names[:SHOWN])}"
