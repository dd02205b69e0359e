"""Chromium without a window, for what only a browser can make of a page."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from medvrag_core.errors import MedvragError
from medvrag_core.views.publishing.errors import BookError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Time of the page, not of the clock: figures are drawn before it is looked at. Chromium's own sandbox cannot start for
# root or in a container; the pages are those that the build has checked.
_FLAGS = ("--headless", "--no-sandbox", "--virtual-time-budget=30000", "--allow-file-access-from-files",
          "--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync",
          "--host-resolver-rules=MAP * ~NOTFOUND")  # fmt: skip


def find_browser() -> str:
    """Path of a Chromium; raises MedvragError where there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise MedvragError("no Chromium on PATH", way_out="install it (Debian: apt install chromium)")
    return browser


def run_browser(browser: str, page: Path, profile: Path, seconds: float, *flags: str) -> bytes:
    """Open a page, let it finish, and return what the browser wrote; raises BookError when it took too long or failed.

    Parameters
    ----------
    profile : folder of this browser alone
    seconds : most that it may take
    flags : what to do with the page, such as ``--dump-dom``
    """
    command = [browser, *_FLAGS, f"--user-data-dir={profile}", *flags, page.resolve().as_uri()]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise BookError(f"{page.name}: the browser took more than {seconds:g} s", way_out="try again") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise BookError(f"{page.name}: the browser failed ({' '.join(last)})")
    return done.stdout
