"""One headless Chromium for the tests of this directory; they are skipped where there is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.browser.layout import write
from tests.support.captures import audit_whole
from tests.support.samples import SAMPLES

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Browser:
    """A page opened from a file, what the browser said about it, and what it asked for."""

    def __init__(self, driver) -> None:
        self.driver = driver
        self.requests: list[str] = []
        self.messages: list[str] = []
        self._opened = 0

    def open(self, path: Path, fragment: str = "", **look) -> None:
        """Open the file and wait until its script is done; see `look` for the other arguments."""
        self.look(**look)
        self._listen()
        self.requests.clear()
        self.messages.clear()
        # With a query of its own it is loaded anew, even if only the fragment differs.
        self._opened += 1
        self.driver.get(f"{path.as_uri()}?{self._opened}{fragment}")
        self.wait("document.documentElement.dataset.ready === 'yes'")

    def look(
        self, width: int = 1240, height: int = 900, dark: bool = False, media: str = "", scripts: bool = True
    ) -> None:
        """Size of the window, colour scheme, medium, and whether scripts run."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})

    def run(self, script: str, *arguments):
        """The value of a script's `return`."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str, seconds: float = 30) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(
            lambda driver: driver.execute_script(f"return {condition}"), condition
        )

    def find(self, selector: str):
        return self.driver.find_elements("css selector", selector)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def press(self, *keys: str) -> None:
        """Keys to whatever has the focus."""
        self.driver.switch_to.active_element.send_keys(*keys)

    def quiet(self) -> None:
        """Fails when the console has an error or a warning, or when anything but the page itself was asked for."""
        self._listen()
        assert self.messages == []
        others = [url for url in self.requests if not url.startswith(("file:", "data:", "about:", "blob:"))]
        assert others == [] and sum(url.startswith("file:") for url in self.requests) == 1

    def _listen(self) -> None:
        self.messages += [entry["message"] for entry in self.driver.get_log("browser")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])


@pytest.fixture(scope="session")
def browser(tmp_path_factory) -> Iterator[Browser]:
    program = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    driver_program = shutil.which("chromedriver")
    if program is None or driver_program is None:
        pytest.skip("no Chromium with chromedriver on the path (Debian: apt-get install chromium chromium-driver)")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    profile = tmp_path_factory.mktemp("profile")
    # Root in a container has no sandbox, and /dev/shm may be small there.
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        # It would start one process more than there are pages.
        "--disable-features=SpareRendererForSitePerProcess",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    options.add_experimental_option("perfLoggingPrefs", {"enablePage": False})
    driver = webdriver.Chrome(options=options, service=Service(driver_program))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def unclean(tmp_path_factory) -> Path:
    """The page of the sample that lost committed records."""
    return write(audit_whole(SAMPLES / "diverged-unclean"), tmp_path_factory.mktemp("page") / "unclean.html")


def pytest_collection_modifyitems(items):
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.chromium)
