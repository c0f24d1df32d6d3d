"""Constants written with fewer bits where that wins: interleaved rANS over bytes, one table for the section.

The layout is `docs/reference/program.md`, "Coded constants". J. Duda, "Asymmetric numeral systems", 2013, arXiv
1311.2540; F. Giesen, "Interleaved entropy coders", 2014, arXiv 1402.3392. Everything is whole numbers, so the same
constants give the same bytes. The decoder here is the compiler's own: it proves a coded program before it leaves, and
lets reports and the verifier read one. Invariant: what `expanded` gives back is what was coded, or an error is raised.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.errors import InternalError
from contracts.npu.errors import DamagedProgram
from contracts.npu.program import ALIGNMENT, Program

LANES = 128
BITS = 12
_TOTAL = 1 << BITS
_LOW = 1 << 16
_HEAD = 8 + 2 * 256 + 4 * LANES
WORTH = 0.97
"""By itself the compiler codes only constants that get smaller than this share, or decoding them is for nothing."""

_MOST = 256 << 20

Bytes = npt.NDArray[np.uint8]


def coded(constants: bytes) -> bytes | None:
    """The section CODED for these constants, or None where it does not take less room in a file."""
    if not constants or len(constants) % LANES:
        return None
    symbols = np.frombuffer(constants, np.uint8)
    frequencies = quantised_frequencies(np.bincount(symbols, minlength=256))
    states, words = _encode(symbols.reshape(-1, LANES), frequencies)
    head = np.array([len(symbols), len(words)], "<u4").tobytes()
    data = head + frequencies.astype("<u2").tobytes() + states.astype("<u4").tobytes() + words.astype("<u2").tobytes()
    if -(-len(data) // ALIGNMENT) >= -(-len(constants) // ALIGNMENT):
        return None
    if not np.array_equal(decoded(np.frombuffer(data, np.uint8)), symbols):
        raise InternalError("entropy coder", "decoding does not give back what was coded", "report this model")
    return data


def expanded(program: Program) -> Program:
    """The program with plain constants; one that has them is returned as it is. Raises DamagedProgram."""
    return program if program.coded is None else program.with_constants(decoded(program.coded))


def decoded(section: Bytes) -> Bytes:
    """Constants of a section CODED. Raises DamagedProgram."""
    if len(section) < _HEAD:
        raise _damaged(f"{len(section)} bytes, its head has {_HEAD}")
    length, count = (int(value) for value in section[:8].view("<u4"))
    frequencies = section[8:520].view("<u2").astype(np.int64)
    if length > _MOST or length % LANES or len(section) != _HEAD + 2 * count or int(frequencies.sum()) != _TOTAL:
        raise _damaged(f"{length} bytes from {count} words, frequencies that sum to {int(frequencies.sum())}")
    starts = np.cumsum(frequencies) - frequencies
    symbol_of = np.repeat(np.arange(256), frequencies)
    states = section[520:_HEAD].view("<u4").astype(np.int64)
    words, place = section[_HEAD:].view("<u2").astype(np.int64), 0
    out = np.empty((length // LANES, LANES), np.uint8)
    for row in out:
        slots = states & (_TOTAL - 1)
        found = symbol_of[slots]
        row[:] = found
        states = frequencies[found] * (states >> BITS) + slots - starts[found]
        short = np.flatnonzero(states < _LOW)
        if place + len(short) > count:
            raise _damaged(f"its {count} words end early")
        states[short] = (states[short] << 16) | words[place : place + len(short)]
        place += len(short)
    if place != count or (states != _LOW).any():
        raise _damaged("it does not end where its coder began")
    return out.reshape(-1)


def quantised_frequencies(counts: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """[256] frequencies that sum to 4096, at least 1 for every byte that occurs: largest remainders, then the largest
    frequencies give what the smallest needed.
    """
    exact = counts.astype(np.int64) * _TOTAL
    total = int(counts.sum())
    share = np.where(counts > 0, np.maximum(1, exact // total), 0)
    order = np.lexsort((np.arange(256), -(exact % total)))
    for symbol in order[: max(0, _TOTAL - int(share.sum()))]:
        share[symbol] += int(counts[symbol] > 0)
    while (extra := int(share.sum()) - _TOTAL) != 0:
        share[int(share.argmax())] -= 1 if extra > 0 else -1
    return share


def _encode(
    rows: npt.NDArray[np.uint8], frequencies: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Final states [lanes] and words in a decoder's order; rows are coded from the last to the first."""
    starts = np.cumsum(frequencies) - frequencies
    states = np.full(LANES, _LOW, np.int64)
    written: list[npt.NDArray[np.int64]] = []
    for row in rows[::-1]:
        frequency, start = frequencies[row], starts[row]
        full = np.flatnonzero(states >= (_LOW >> BITS << 16) * frequency)
        written.append(states[full] & 0xFFFF)
        states[full] >>= 16
        states = (states // frequency << BITS) + states % frequency + start
    words = np.concatenate(written[::-1]) if written else np.empty(0, np.int64)
    return states, words


def _damaged(what: str) -> DamagedProgram:
    return DamagedProgram(f"program section CODED: {what}; compile the model again")
