"""The coder of docs/reference/program.md ("Coded constants") one byte at a time: what the golden vector is made with.

python -m tests.support.scalar_coder    # writes contracts/npu/vectors/coded.json again
"""

from __future__ import annotations

import json
from pathlib import Path

LANES = 128
VECTOR = Path(__file__).resolve().parents[2] / "contracts" / "npu" / "vectors" / "coded.json"


def encode(data: bytes, frequencies: list[int]) -> bytes:
    """The section for given frequencies."""
    below = [sum(frequencies[:value]) for value in range(256)]
    state, words = [65536] * LANES, []
    for place in reversed(range(len(data))):
        lane, value = place % LANES, data[place]
        if state[lane] >= (1 << 20) * frequencies[value]:
            words.append(state[lane] % 65536)
            state[lane] //= 65536
        state[lane] = state[lane] // frequencies[value] * 4096 + below[value] + state[lane] % frequencies[value]
    parts = [len(data).to_bytes(4, "little"), len(words).to_bytes(4, "little")]
    parts += [share.to_bytes(2, "little") for share in frequencies]
    parts += [one.to_bytes(4, "little") for one in state]
    return b"".join([*parts, *(word.to_bytes(2, "little") for word in reversed(words))])


def sample() -> tuple[bytes, list[int]]:
    """1,024 bytes around zero and frequencies that are not quite theirs."""
    data = bytes((37 * n * n + 11 * n) % 7 * ((-1) ** n) % 256 for n in range(1024))
    frequencies = [0] * 256
    for value in range(13):
        frequencies[(value - 6) % 256] = 100 + 30 * value
    frequencies[0] += 4096 - sum(frequencies)
    return data, frequencies


def main() -> None:
    """Write the vector."""
    data, frequencies = sample()
    VECTOR.write_text(
        json.dumps({"constants": data.hex(), "section": encode(data, frequencies).hex()}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
