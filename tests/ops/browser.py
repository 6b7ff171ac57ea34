"""Headless Chromium, driven over WebDriver: HTTP and JSON, so that no library is needed.

What the page logs and what it asks the network for come from Chromium's own logs: console() and requests().
"""

import base64
import json
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Callable

from harness import Box, LabError, Program, Skip, free_tcp_address

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # WebDriver's name for a reference to an element
KEYS = {
    "Tab": "\ue004",
    "Escape": "\ue00c",
    "End": "\ue010",
    "Home": "\ue011",
    "ArrowLeft": "\ue012",
    "ArrowRight": "\ue014",
    "Enter": "\ue007",
    "Shift": "\ue008",
}


class Driver(Program):
    """chromedriver, which leaves its browser behind unless the session is ended first."""

    session = ""

    def stop(self, timeout: float = 10) -> int:
        if self.session and self.alive():
            try:
                urllib.request.urlopen(urllib.request.Request(self.session, method="DELETE"), timeout=timeout).close()
            except OSError:
                pass  # closed already
        return super().stop(timeout)


class Browser:
    def __init__(self, box: Box, width: int = 1600, height: int = 1000) -> None:
        for program, package in (("chromium", "chromium"), ("chromedriver", "chromium-driver")):
            if shutil.which(program) is None:
                raise Skip(f"there is no {program} (package {package})")
        address = free_tcp_address()
        port = address.split(":")[1]
        self._driver = Driver(
            "chromedriver",
            ["chromedriver", f"--port={port}", "--allowed-ips=127.0.0.1"],
            box.directory / "chromedriver.log",
            box.env,
        )
        box.programs.append(self._driver)
        self._driver.start()
        self._driver.wait_for_line("started successfully", 30)
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--force-device-scale-factor=1",
            "--no-first-run",
            "--disable-background-networking",
            f"--window-size={width},{height}",
            f"--user-data-dir={box.directory}/chromium",
        ]
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        self._base = f"http://{address}/session"
        answer = self._send("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._base += "/" + answer["sessionId"]
        self._driver.session = self._base
        self._requests: list[str] = []
        self._console: list[str] = []

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            said = json.load(error)["value"]
            raise LabError(f"chromium: {said['error']}: {said['message'].splitlines()[0]}") from None

    def open(self, url: str) -> None:
        self._send("POST", "/url", {"url": url})

    def script(self, text: str, *arguments: Any) -> Any:
        """The value of a function body in the page."""
        return self._send("POST", "/execute/sync", {"script": text, "args": list(arguments)})

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self._send("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def press(self, *keys: str) -> None:
        """Each key down and up; names of KEYS, or characters."""
        actions = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click(self, selector: str) -> None:
        found = self._send("POST", "/element", {"using": "css selector", "value": selector})
        self._send("POST", f"/element/{found[ELEMENT]}/click")

    def wait_for(self, text: str, timeout: float, what: str) -> None:
        """Until a function body gives something true."""
        self.wait_until(lambda: bool(self.script(text)), timeout, what)

    def wait_until(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                state = self.script("return document.body.dataset.state + ': ' + document.getElementById('banner').textContent")
                raise LabError(f"the page, {what}: not within {timeout:g} s; it says {state!r}")
            time.sleep(0.2)

    def size(self, width: int, height: int) -> None:
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer_colors(self, scheme: str) -> None:
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path: Path) -> None:
        """The whole page, however long."""
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def console(self) -> list[str]:
        """All that the page has logged, warnings of the browser about it included."""
        self._console += [f"{line['level']}: {line['message']}" for line in self._send("POST", "/se/log", {"type": "browser"})]
        return self._console

    def requests(self) -> list[str]:
        """The addresses that pages have asked for; the browser's own first tab is none of ours."""
        for line in self._send("POST", "/se/log", {"type": "performance"}):
            message = json.loads(line["message"])["message"]
            if message["method"] == "Network.requestWillBeSent" and not message["params"]["documentURL"].startswith("chrome:"):
                self._requests.append(message["params"]["request"]["url"])
        return self._requests

    def close(self) -> None:
        self._send("DELETE", "")
