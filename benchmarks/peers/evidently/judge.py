"""Runs inside Evidently's environment: judges pairs of arrays with its embedding methods, defaults untouched.

`judge.py FOLDER METHOD,METHOD...` reads `*.npz` (reference, current: rows x 256) and prints JSON: for each file and
method whether it says drift, and seconds.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # installed in the peer's environment only
from evidently.legacy.metrics.data_drift import (  # type: ignore[import-not-found]  # the peer's own environment
    embedding_drift_methods as methods,
)

KNOWN = {
    "distance": methods.distance(),
    "distance_bootstrap": methods.distance(bootstrap=True),
    "model": methods.model(),
    "ratio": methods.ratio(),
    "mmd": methods.mmd(),
    "mmd_bootstrap": methods.mmd(bootstrap=True),
}


def main() -> None:
    """Judge every file; a table of columns named by number, as the methods expect."""
    warnings.simplefilter("ignore")
    folder, names = Path(sys.argv[1]), sys.argv[2].split(",")
    found = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            reference, current = arrays["reference"], arrays["current"]
        for name in names:
            tables = [
                pd.DataFrame(rows, columns=[str(i) for i in range(rows.shape[1])]) for rows in (current, reference)
            ]
            begun = time.perf_counter()
            drifted = bool(KNOWN[name](*tables)[1])
            found.append({"file": path.stem, "method": name, "drift": drifted, "seconds": time.perf_counter() - begun})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
