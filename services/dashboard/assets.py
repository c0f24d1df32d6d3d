"""Static files from our own origin: this package's style and scripts, and Plotly from its installed wheel.

Every address carries the content's hash, so browsers keep files for a year and never see an old one. Text is sent
compressed when the browser takes it; compression happens once a process.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata, resources

OWN = ("style.css", "plotly.css", "live.js", "charts.js", "icon.svg")
PLOTLY = "plotly.min.js"
TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PREFIX = "/static"


@dataclass(frozen=True)
class Asset:
    """A file with its compressed twin."""

    name: str
    media_type: str
    data: bytes
    packed: bytes

    @property
    def tag(self) -> str:
        """Short hash of the content."""
        return hashlib.sha256(self.data).hexdigest()[:12]


def url_of(name: str) -> str:
    """Address of a static file."""
    return f"{PREFIX}/{asset(name).tag}/{name}"


@lru_cache(maxsize=16)
def asset(name: str) -> Asset:
    """The file; raises KeyError for a name that is not on the list."""
    if name == PLOTLY:
        data = plotly_source()
    elif name in OWN:
        data = (resources.files("services.dashboard") / "static" / name).read_bytes()
    else:
        raise KeyError(name)
    return Asset(name, TYPES[name.rsplit(".", 1)[1]], data, gzip.compress(data, 6, mtime=0))


def plotly_source() -> bytes:
    """Plotly's script out of its wheel, found without importing the package."""
    for file in metadata.files("plotly") or ():
        if file.as_posix().endswith(f"plotly/package_data/{PLOTLY}"):
            return file.read_binary()
    raise FileNotFoundError(f"the installed plotly has no {PLOTLY}; install edgeloop[services] again")
