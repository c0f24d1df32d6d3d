"""Rendering: one Jinja environment that escapes everything, and the headers that every page carries.

The Content-Security-Policy names no unsafe-* source: no inline script, no inline style, nothing from another host.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

import jinja2
from starlette.responses import HTMLResponse

from services.dashboard import bundle_report, charts, held_settings, languages
from services.dashboard.assets import url_of
from services.dashboard.limits import LIMITS
from services.dashboard.platform import Missing
from services.dashboard.sessions import Session
from services.dashboard.words import WORDS

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MARKS = {
    "good": "✓",
    "busy": "◐",
    "alert": "▲",
    "idle": "○",
    "unknown": "?",
}
STANDINGS = {word: look for look, words in WORDS.items() for word in words.split()}


def page(template: str, *, status: int = 200, **context: Any) -> HTMLResponse:  # Any: whatever the template shows
    """A page or a fragment."""
    text = environment().get_template(template).render(**context)
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def forbidden(session: Session, scope: str) -> HTMLResponse:
    """The page that says which right is lacking; the services would refuse as well."""
    return page(
        "message.html",
        status=403,
        session=session,
        title=languages.gettext("You may not do this"),
        lead=languages._(
            "You are signed in as %(who)s. This needs the right %(scope)s.", who=session.holder, scope=scope
        ),
        remedy=languages.gettext("Ask an administrator for a role that has it."),
        back="/",
    )


def missing_page(session: Session, title: str, missing: Missing, back: str = "/") -> HTMLResponse:
    """A whole page that could not be filled."""
    return page(
        "message.html",
        status=missing.status or 503,
        session=session,
        title=title,
        lead=languages._("The service %(reason)s", reason=missing.reason),
        remedy=languages.gettext("Go back and look again."),
        back=back,
    )


@lru_cache(maxsize=1)
def environment() -> jinja2.Environment:
    """The templates of this package. Undefined names are errors, everything is escaped."""
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.install_gettext_callables(languages.gettext, languages.ngettext, newstyle=True)  # type: ignore[attr-defined]
    made.filters.update(
        instant=charts.instant_text,
        iso=charts.instant_iso,
        day=charts.day_text,
        words=_words,
        standing=standing,
        milliseconds=bundle_report.milliseconds,
        place_of=bundle_report.place_of,
        shown=held_settings.shown,
        changes=held_settings.changes,
    )
    made.globals.update(
        static=url_of,
        marks=MARKS,
        refresh_s=LIMITS.refresh_s,
        chart_refresh_s=LIMITS.chart_refresh_s,
        alerts_shown=LIMITS.alerts,
        alarms_listed=LIMITS.list_rows,
        interval_bar=charts.interval_bar,
        newest_looks=charts.newest_looks,
        places=_places,
        language=languages.current,
        language_tag=languages.tag,
        languages=languages.LANGUAGES,
    )
    return made


def standing(word: object) -> str:
    """Class of a state's word: good, busy, alert, idle; unknown for what we do not know."""
    return STANDINGS.get(str(getattr(word, "value", word)), "unknown")


def _places() -> list[tuple[str, str, str]]:
    """Address, name and needed scope of every page in the bar."""
    _ = languages.gettext
    return [
        ("/", _("Now"), "releases:read"),
        ("/console/releases", _("Releases"), "releases:read"),
        ("/console/devices", _("Devices"), "releases:read"),
        ("/console/drift", _("Drift"), "drift:read"),
        ("/console/clusters", _("Hard examples"), "curation:read"),
        ("/console/bundles", _("Bundles"), "builds:read"),
        ("/console/models", _("Models"), "builds:read"),
        ("/console/flows", _("Flows"), "drift:read"),
        ("/console/settings", _("Settings"), "drift:read"),
        ("/console/audit", _("Audit"), "audit:read"),
        ("/console/accounts", _("Accounts"), "identity:read"),
    ]


def _words(value: object) -> str:
    """A word of the API as people read it, in the language of the request."""
    return languages.gettext(str(getattr(value, "value", value)).replace("_", " "))


def _source(name: str) -> str | None:
    file = resources.files("services.dashboard") / "templates" / name
    return file.read_text(encoding="utf-8") if file.is_file() else None
