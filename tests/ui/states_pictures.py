"""Pictures of every state, light and dark, 300, 420 and 700 px wide:

python -m tests.ui.states_pictures FOLDER [STATE ...]
"""

# ruff: noqa: T201

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Error, Page

from tests.ui.conftest import launched
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.screenshots import RESIZE, theme
from tests.ui.states import NO_KEY, STATES, Reach, empty, scene

WIDTHS = (300, 420, 700)
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def pictures(page: Page, folder: Path, name: str) -> None:
    """One for each width and theme, of the whole page."""
    for shade, jupyter_theme in THEMES.items():
        theme(page, jupyter_theme)
        for width in WIDTHS:
            page.evaluate(RESIZE, width)
            page.screenshot(path=folder / f"{name}-{shade}-{width}.png", animations="disabled")


def picture(
    browser: Browser, lab: Lab, replies: Replies, folder: Path, name: str, reach: Reach
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    shown = scene(page, lab, replies, name)
    try:
        reach(shown)
        pictures(page, folder, name)
    finally:
        shown.end()
        theme(page, THEMES["light"])
        context.close()


def main(folder: Path, names: list[str]) -> int:
    """How many states could not be reached."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {"no-key": empty, **STATES}
    failed = 0
    with launched() as browser:
        for config in (None, NO_KEY):
            mine = [name for name in names or wanted if (name == "no-key") == (config is NO_KEY)]
            if not mine:
                continue
            replies = Replies()
            with (
                tempfile.TemporaryDirectory() as place,
                running_lab(Path(place) / "lab", replies, config=config) as lab,
            ):
                for name in mine:
                    try:
                        picture(browser, lab, replies, folder, name, wanted[name])
                        print(f"{name}: 6 pictures", flush=True)
                    except (AssertionError, Error) as error:
                        failed += 1
                        print(f"{name}: not reached: {str(error).splitlines()[:2]}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
