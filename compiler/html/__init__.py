"""One self-contained HTML page that shows what a bundle will do on its NPU. ``render_page`` is the only entry."""

from __future__ import annotations

from compiler.html.page import render_page

__all__ = ["render_page"]
