"""Numbers as people read them: binary sizes, milliseconds, shares."""

from __future__ import annotations


def size(count: float) -> str:
    """Bytes in B, KiB or MiB."""
    if count >= 2**20:
        return f"{count / 2**20:.2f} MiB"
    return f"{count / 2**10:.1f} KiB" if count >= 2**10 else f"{count:.0f} B"


def milliseconds(nanoseconds: float) -> str:
    """Milliseconds; microseconds below a tenth of one."""
    if nanoseconds == 0:
        return "0 ms"
    if 0 < nanoseconds < 1e5:
        return f"{nanoseconds / 1e3:.1f} µs"
    return f"{nanoseconds / 1e6:.2f} ms"


def tick(nanoseconds: float) -> str:
    """A round time under an axis."""
    return f"{nanoseconds / 1e6:.6g} ms"


def share(part: float) -> str:
    """Percent; a trace of something is not nothing."""
    if 0 < part < 0.001:
        return "<0.1 %"
    return f"{part * 100:.1f} %"


def count(number: float) -> str:
    """Large counts in thousands, millions, billions."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.2f} {letter}"
    return f"{number:.0f}"
