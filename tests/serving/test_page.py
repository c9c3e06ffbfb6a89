"""The page in Debian's Chromium, headless: what a person does with mouse, keyboard and phone."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from serving_support import Running

INSTALL = "apt-get install chromium chromium-driver"
TOO_WIDE = """return [...document.querySelectorAll("body *")].filter(each => !each.closest(".scroll table")
    && each.getBoundingClientRect().right > arguments[0]).map(each => each.outerHTML.slice(0, 80))"""
TEXT = "The old dog runs. A cat sleeps in the garden."


def find_browser() -> tuple[str, str]:
    """Chromium and its driver; without them the tests are skipped, but never in CI."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        message = f"the page's tests need Chromium and chromedriver: {INSTALL}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return browser, driver


@pytest.fixture(scope="module")
def chromium() -> Iterator[webdriver.Chrome]:
    browser, driver = find_browser()
    options = ChromeOptions()
    options.binary_location = browser
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1000",
        "--disable-background-networking", "--disable-component-update", "--no-first-run",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "WARNING", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    yield made
    made.quit()


class Page:
    """The page as a test sees it."""

    def __init__(self, driver: webdriver.Chrome, server: Running) -> None:
        self.driver, self.server = driver, server

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def wait(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.driver, 120, poll_frequency=0.05).until(lambda _: condition())

    def choose(self, name: str, selector: str = "#model") -> None:
        Select(self.one(selector)).select_by_value(name)

    def type(self, text: str) -> None:
        self.one("#source").send_keys(text)

    def wait_for_result(self) -> None:
        """Until what is shown belongs to what was typed and chosen, so that no element of it is replaced any more."""
        self.wait(lambda: self.result() and not self.all("#output.busy"))

    def words(self) -> list[str]:
        return list(
            self.driver.execute_script("return [...document.querySelectorAll('#output .word')].map(w => w.textContent)")
        )

    def result(self) -> str:
        return str(self.one("#output").get_attribute("textContent"))

    def sentence(self, text: str, model: str = "fused") -> Any:
        return self.server.translate(text, model=model, format="text", details=True)["results"][0]


@pytest.fixture
def page(chromium: webdriver.Chrome, server: Running) -> Iterator[Page]:
    """A fresh page; whatever a test did, there was no error in the console and no request to anybody else."""
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.get(f"{server.url}/")
    chromium.execute_script("localStorage.clear()")
    chromium.get(f"{server.url}/")
    opened = Page(chromium, server)
    opened.wait(lambda: len(opened.all("#model option")) == 4)
    yield opened
    assert chromium.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    urls = [each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent"]
    assert urls
    assert [url for url in urls if not url.startswith((f"{server.url}/", "data:", "blob:"))] == []


def test_what_is_typed_is_translated(page: Page) -> None:
    page.type(TEXT)
    expected = page.sentence(TEXT)
    page.wait(lambda: page.result() == expected["text"])
    assert "texts" in page.one("#curl").get_attribute("textContent")
    page.one("#clear").click()
    page.wait(lambda: page.result() == "")


def test_pointing_at_a_word_marks_what_it_attends_to(page: Page) -> None:
    page.type(TEXT)
    result = page.sentence(TEXT)
    page.wait_for_result()
    assert page.result() == result["text"]
    first = result["sentences"][0]
    for number in (0, 1):
        word = first["words"][number]
        rows = first["attention"][slice(*word["tokens"])]
        weights = [sum(sum(row[slice(*each["tokens"])]) for row in rows) for each in first["source_words"]]
        wanted = first["source_words"][weights.index(max(weights))]["text"]
        ActionChains(page.driver).move_to_element(page.all("#output .word")[number]).perform()
        marked = page.wait(lambda: page.all("#backdrop mark.strongest"))
        assert [mark.get_attribute("textContent") for mark in marked] == [wanted]
        assert f"“{word['text']}”" in page.one("#layers-about").text
    assert page.all("#backdrop mark.surface")
    for panel in ("attention", "weights", "gates", "surface"):
        assert page.one(f"#panel-{panel}").is_displayed()
    assert "Source alone" in page.one("#panel-surface").text


@pytest.mark.slow
def test_candidates_and_confidence(page: Page) -> None:
    page.type("A dog runs.")
    number = page.one("#nbest")
    number.clear()
    number.send_keys("3", Keys.TAB)
    page.wait(lambda: len(page.all("#candidate-list li")) == 3)
    page.one("#tint").click()
    assert "tinted" in page.one("#output").get_attribute("class")


@pytest.mark.slow
def test_a_word_is_replaced_and_the_rest_follows(page: Page) -> None:
    page.type("The old dog runs.")
    page.wait_for_result()
    before = page.result()
    page.all("#output .word")[1].click()
    choices = page.wait(lambda: page.all("#menu button"))
    chosen = page.driver.execute_script("return arguments[0].firstChild.textContent", choices[0])
    choices[0].click()
    page.wait(lambda: page.result() != before and page.all("#output .word.forced"))
    assert page.result().split(chosen)[0] == before[: len(page.result().split(chosen)[0])]


@pytest.mark.slow
def test_two_models_side_by_side(page: Page) -> None:
    page.type(TEXT)
    page.one("#compare").click()
    page.choose("mixed", "#other")
    expected = page.sentence(TEXT, "mixed")["text"]
    page.wait_for_result()
    assert page.one("#other-output").get_attribute("textContent") == expected
    assert page.all("#output .word.differs")
    assert page.all("#other-output .word.differs")
    ActionChains(page.driver).move_to_element(page.all("#other-output .word")[0]).perform()
    page.wait(lambda: "mixed" in page.one("#layers-about").text)
    assert page.all("#backdrop mark.strongest")


@pytest.mark.slow
def test_a_model_is_compared_with_another_one(page: Page) -> None:
    names = [option.get_attribute("value") for option in page.all("#model option")]
    for name in names:
        page.choose(name, "#model")
        assert page.one("#other").get_attribute("value") in {*names} - {name}


@pytest.mark.slow
def test_a_change_right_after_typing_is_translated_once(page: Page) -> None:
    page.driver.execute_script(
        """const send = window.fetch; window.sent = 0;
        window.fetch = (...given) => { window.sent += 1; return send(...given); }"""
    )
    page.one("#source").send_keys("A dog runs.", Keys.CONTROL, Keys.ENTER)
    page.wait_for_result()
    time.sleep(0.5)  # twice the pause after which typed text is translated
    assert page.driver.execute_script("return window.sent") == 1


@pytest.mark.slow
def test_corrections_are_accepted_or_rejected(page: Page) -> None:
    page.choose("fix")
    source = "A dog run."
    page.type(source)
    page.wait_for_result()
    edits = page.all("#output .edit")
    corrected = page.sentence(source, "fix")["text"]
    output = page.one("#output")
    assert output.get_attribute("data-text") == corrected
    edits[0].find_element(By.CSS_SELECTOR, "button.accepted").click()
    assert "accepted" in edits[0].get_attribute("class")
    assert output.get_attribute("data-text") == corrected
    page.one("#reject-all").click()
    assert output.get_attribute("data-text") == source
    page.one("#accept-all").click()
    assert output.get_attribute("data-text") == corrected
    ActionChains(page.driver).move_to_element(page.all("#output .word")[0]).perform()
    assert page.wait(lambda: page.all("#backdrop mark.strongest"))
    assert "Copied" in page.one("#panel-pointer").text


@pytest.mark.slow
def test_languages_are_swapped(page: Page) -> None:
    page.type("A dog runs.")
    german = page.sentence("A dog runs.")["text"]
    page.wait(lambda: page.result() == german)
    page.one("#swap").click()
    assert page.one("#model").get_attribute("value") == "back"
    assert page.one("#source").get_attribute("value") == german


@pytest.mark.slow
def test_dark_and_light(page: Page) -> None:
    def colour() -> str:
        return str(page.driver.execute_script("return getComputedStyle(document.body).backgroundColor"))

    light = colour()
    page.one("#theme").click()
    assert page.driver.execute_script("return document.documentElement.dataset.theme") == "dark"
    assert colour() != light
    page.driver.refresh()
    assert colour() != light


@pytest.mark.parametrize("width", [320, 390])
@pytest.mark.slow
def test_a_phone_shows_everything_below_one_another(page: Page, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.type(TEXT)
    page.wait_for_result()
    number = page.one("#nbest")
    number.clear()
    number.send_keys("3", Keys.TAB)
    page.wait(lambda: len(page.all("#candidate-list li")) == 3)
    page.wait_for_result()
    assert_fits(page, width)
    source, output = page.one("#source").rect, page.one("#output").rect
    assert output["y"] >= source["y"] + source["height"]
    page.all("#output .word")[1].click()
    page.wait(lambda: page.all("#menu button"))
    assert_fits(page, width)
    page.choose("fix")
    page.wait(lambda: page.all("#output .edit"))
    assert_fits(page, width)
    page.driver.get(f"{page.server.url}/docs")
    page.wait(lambda: len(page.all(".operation")) > 8)
    assert_fits(page, width)


def assert_fits(page: Page, width: int) -> None:
    assert page.driver.execute_script(TOO_WIDE, width) == []
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_the_keyboard_is_enough(page: Page) -> None:
    page.type("The old dog runs.")
    page.wait_for_result()

    def focused(script: str = "id") -> str:
        return str(page.driver.execute_script(f"return document.activeElement.{script}"))

    keys = ActionChains(page.driver)
    for _ in range(4):
        if focused("className").startswith("word"):
            break
        keys.send_keys(Keys.TAB).perform()
    assert focused("textContent") == page.words()[0]
    keys.send_keys(Keys.ARROW_RIGHT).perform()
    assert focused("textContent") == page.words()[1]
    assert page.all("#backdrop mark.strongest")
    keys.send_keys(Keys.ENTER).perform()
    page.wait(lambda: focused("closest('#menu')") != "None")
    keys.send_keys(Keys.ESCAPE).perform()
    assert not page.one("#menu").is_displayed()
    assert focused("textContent") == page.words()[1]


@pytest.mark.slow
def test_everything_has_a_name(page: Page) -> None:
    """Chromium's own accessibility tree: no control without a name."""
    page.type(TEXT)
    page.wait_for_result()
    nodes = page.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    controls = [
        node
        for node in nodes
        if node.get("role", {}).get("value") in ("button", "textbox", "combobox", "checkbox", "spinbutton")
    ]
    assert len(controls) > 8
    assert [node for node in controls if not node.get("name", {}).get("value")] == []


@pytest.mark.slow
def test_a_file_is_translated(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nA dog runs.\n\n")
    page.one("#file").send_keys(str(tmp_path / "a.srt"))
    link = page.one("#download")
    page.wait(link.is_displayed)
    assert link.get_attribute("download") == "translated-a.srt"
    assert page.one("#progress").get_attribute("value") == "1"
    command = page.one("#curl").get_attribute("textContent")
    assert command.startswith('jq -Rs \'{"texts": [.], "model":"fused","format":"srt"}\' \'a.srt\' | curl -N ')


@pytest.mark.slow
def test_the_api_page(page: Page) -> None:
    page.driver.get(f"{page.server.url}/docs")
    page.wait(lambda: len(page.all(".operation")) > 8)
    assert "/v1/translate" in page.one("main").text
