"""Write `report.json` and a self-contained `report.html`."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import jinja2
import numpy as np
from PIL import Image as PillowImage

from demo.charts import drift_chart, fleet_chart, quality_chart, time_chart
from demo.story import Image, Story
from edgeloop.figures import frame, machine

ALARM_SIGMA = 3.5


def write_report(folder: Path, story: Story) -> Path:
    """Write both files and return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    document = frame(story.figures) | {
        "pace": story.pace,
        "steps": [vars(step) for step in story.steps],
        "quality": [vars(row) for row in story.quality],
        "drift": [vars(point) for point in story.drift],
        "fleet": [vars(point) for point in story.fleet],
        "learning": story.learning,
        "notes": story.notes,
    }
    _write(folder / "report.json", json.dumps(document, indent=1, default=str))
    page = folder / "report.html"
    _write(page, _page(story))
    return page


def _page(story: Story) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("report.html").render(
        story=story,
        machine=machine(),
        passed=all(figure.ok for figure in story.figures),
        charts={
            "drift": drift_chart(story, ALARM_SIGMA),
            "fleet": fleet_chart(story),
            "quality": quality_chart(story),
            "time": time_chart(story),
        },
        pictures=[
            {
                "title": picture.title,
                "images": [{"label": label, "source": _data_url(image)} for label, image in picture.images],
            }
            for picture in story.pictures
        ],
    )


def _data_url(image: Image, zoom: int = 3) -> str:
    enlarged = np.repeat(np.repeat(image, zoom, axis=0), zoom, axis=1)
    buffer = io.BytesIO()
    PillowImage.fromarray(enlarged).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".part")
    temporary.write_text(text)
    temporary.replace(path)
