"""The live page in a real browser: drawn from true figures, by keyboard too, and honest when the gateway is gone."""

import json
import signal
import time
import urllib.error
import urllib.request
from typing import Any

from backend_cases import BENCH_PROGRAM, PORT, gateway_before, serve
from browser import Browser
from harness import CREDITS, Box, Gateway, Skip, expect, expect_equal, free_tcp_address
from lab.daemon import wait_until
from monitoring_cases import StrangeServer

SHOWN = {"rpcs", "bytes", "chunks", "credits", "heat", "percentiles", "stages", "busy"}  # charts that a load has to fill


def _get(gateway: Gateway, path: str, **fields: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://{gateway.metrics_address}{path}", headers=fields)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status, response.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")


def _open(box: Box, gateway: Gateway) -> Browser:
    if "not built in" in _get(gateway, "/")[1]:
        raise Skip("the programs were built without the page (npm)")
    browser = Browser(box)
    browser.open(f"http://{gateway.metrics_address}/")
    browser.wait_for("return Number(document.body.dataset.samples) > 1", 20, "first samples")
    return browser


def _expect_clean(browser: Browser, gateway: Gateway) -> None:
    """Nothing complained of, and nothing asked of anybody else."""
    expect_equal("console of the page", browser.console(), [])
    origin = f"http://{gateway.metrics_address}/"
    foreign = [url for url in browser.requests() if not url.startswith(origin) and not url.startswith("data:")]
    expect_equal("requests to others", foreign, [])
    expect(len(browser.requests()) > 10, "the log of requests is empty")


def _chart(browser: Browser, name: str) -> dict[str, str]:
    return dict(browser.script("return Object.assign({}, document.getElementById(arguments[0]).dataset)", "chart-" + name))


def _text(browser: Browser, selector: str) -> str:
    return str(browser.script("return document.querySelector(arguments[0]).textContent", selector))


def _problems(browser: Browser) -> list[str]:
    return list(browser.script("return [...document.querySelectorAll('#problems li')].map(item => item.textContent)"))


def shows_a_load(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    browser = _open(box, gateway)
    expect_equal("state", browser.script("return document.body.dataset.state"), "not-ready")
    expect_equal("what is wrong", _problems(browser), ["Not ready for clients: the link of net_memif0 is down."])
    said = _text(browser, "#no-connections")
    expect("No client is connected" in said and "10.9.0.1" in said and "20049" in said, f"without connections it says {said!r}")
    load = box.load(operation="source", size=100_001, connections=3, window=4, seconds=300)
    load.wait_connected()
    rows = "document.querySelectorAll('#connection-table tbody tr[data-peer=\"10.9.0.2\"]')"
    browser.wait_for(f"return {rows}.length === 3", 15, "the load's rows")
    browser.wait_for("return Number(document.getElementById('chart-heat').dataset.cells) > 8", 20, "cells of the heat map")
    for name in sorted(SHOWN):
        data = _chart(browser, name)
        expect(int(data["nonzero"]) > 0, f"the chart {name} shows nothing: {data}")
    _expect_true_figures(browser, gateway)
    # A closed loop may take all of a core that is fast enough for nothing else.
    expect_equal("what is wrong", [problem for problem in _problems(browser) if "is busy" not in problem], [])
    client = _rows(browser, "client-sums")
    expect_equal("the client, its connections summed", [row[:2] for row in client], [["10.9.0.2", "3"]])
    expect(_text(browser, "#tile-latency .sub").endswith(", built in"), "latency of a built-in program is not told apart")
    browser.wait_for("return document.querySelectorAll('#procedures tbody tr').length === 1", 10, "the procedure")
    expect("bench source" in _text(browser, "#procedures tbody"), "another procedure than source")
    expect("up" in _text(browser, "#backend-health tbody"), "the backend is not up")
    expect("accepted" in _text(browser, "#notices tbody"), "no log line of the connections")
    expect(browser.script("return document.getElementById('budgets').hidden"), "budgets are shown, and there are none")
    expect("built-in programs need none" in _text(browser, "#servers .empty"), "no word of there being no servers")
    _expect_clean(browser, gateway)
    load.stop()
    browser.wait_for("return document.body.dataset.state === 'not-ready'", 15, "the end of the load, and of its link")
    browser.close()
    gateway.terminate()


def _expect_true_figures(browser: Browser, gateway: Gateway) -> None:
    """What the page shows is what /metrics says."""
    expect_equal("credits granted", _text(browser, "#tile-credits .sub"), f"of {3 * CREDITS} granted")
    expect_equal("connections", _text(browser, "#tile-connections .figure"), "3")
    before = gateway.metrics().total("causeway_rpcrdma_chunk_bytes_total", list="write")
    history: dict[str, Any] = json.loads(_get(gateway, "/api/history")[1])
    after = gateway.metrics().total("causeway_rpcrdma_chunk_bytes_total", list="write")
    kept = sum(history["values"]["chunk_bytes.write"])
    # The last sample is up to a second old, and a second of the load is less than all of it.
    expect(before / 3 < kept <= after, f"{kept} bytes by Write chunk in the history, {before} to {after} in the metrics")
    calls = sum(history["values"]["calls.bench/source"])
    expect_equal("calls of the heat map", sum(sum(second[1::2]) for second in history["durations_builtin"]), calls)


POLICY = """backups = ["{live}", "{silent}"]
check_interval_ms = 300
check_timeout_ms = 60000
check_fall = 2
[[route]]
listener = "served"
program = {program}
backend = "served"
[[client]]
name = "cluster"
prefixes = ["10.9.0.0/28", "10.9.1.0/28", "10.9.2.0/28", "10.9.3.0/28"]
connections_max = 3
bytes_in_flight_max = 67108864
[[client]]
name = "strangers"
prefixes = ["0.0.0.0/0"]
allow = false
"""


def _rows(browser: Browser, table: str) -> list[list[str]]:
    """The texts of its cells, with ordinary blanks."""
    rows = browser.script(
        f"return [...document.querySelectorAll('#{table} tbody tr')].map(row => [...row.cells].map(" "cell => cell.textContent))"
    )
    return [[cell.replace("\u202f", " ") for cell in row] for row in rows]


def shows_servers_and_budgets(box: Box) -> None:
    """One server that refuses, one that serves, and one that a check waits for; a section of clients that has too many."""
    live_server, live = serve(box, "live")
    silent = StrangeServer(closes=False)
    gateway = gateway_before(box, free_tcp_address(), POLICY.format(live=live, silent=silent.address, program=BENCH_PROGRAM))
    browser = _open(box, gateway)
    states = lambda: [row[3:5] for row in _rows(browser, "servers")]  # noqa: E731
    browser.wait_until(lambda: states() == [["down", ""], ["up", "go here"], ["checking", ""]], 20, "the states of the servers")
    first = _rows(browser, "servers")[0]
    expect_equal("the first server", [first[0], first[2], first[10]], ["served", "primary", "Connection refused"])
    expect(first[7].endswith(" ago") and first[9].split(" of ")[0] == first[9].split(" of ")[1] != "0", f"its checks: {first}")
    expect(not browser.script("return document.getElementById('budgets').hidden"), "no budgets are shown")
    load = box.load("--port", PORT, "--reconnect", operation="source", size=100_000, connections=5, window=4, seconds=300)
    budgets = lambda: _rows(browser, "client-budgets")  # noqa: E731
    browser.wait_until(lambda: [row[2:4] for row in budgets()][:1] == [["full", "3 of 3"]], 30, "a full budget")
    browser.wait_until(lambda: int(budgets()[0][8]) > 2, 30, "refusals")
    tiles = lambda: [_text(browser, f"#tile-{name} .sub") for name in ("connections", "backends")]  # noqa: E731
    expect_equal("what the tiles warn of", tiles(), ["1 budget is full", f"{first[1]} is down"])
    problems = _problems(browser)
    for word in (
        "refused in this window: a [[client]] section is full",
        "section cluster is full",
        f"Server {first[1]} of backend",
    ):
        expect(any(word in problem for problem in problems), f"no word of {word!r} in {problems}")
    expect("refused" in problems[0], f"the worst is not said first: {problems}")
    cluster, strangers = budgets()
    expect_equal(
        "clients of the sections",
        [cluster[:2], strangers[:2]],
        [["cluster", "10.9.0.0/28, 10.9.1.0/28, 10.9.2.0/28 and 1 more"], ["strangers", "0.0.0.0/0"]],
    )
    expect_equal(
        "limits",
        [cluster[5].split(" of ")[1], cluster[6].split(" of ")[1], strangers[2:7]],
        ["192", "67.1 MB", ["not allowed", "0, no limit", "as listener", "0 of 0", "0 B, no limit"]],
    )
    browser.wait_until(
        lambda: _rows(browser, "servers")[1][5] == "3" and int(_rows(browser, "servers")[1][6]) > 0, 20, "calls at the server"
    )
    for name in ("client-connections", "client-credits", "client-refusals"):
        browser.wait_for(f"return Number(document.getElementById('chart-{name}').dataset.nonzero) > 0", 15, f"figures in {name}")
    refused = gateway.metrics().total("causeway_client_connections_refused_total", client="cluster", reason="limit")
    expect(2 < int(budgets()[0][8].replace(" ", "")) <= refused + 20, f"{budgets()[0]} and {refused} in the metrics")
    expect("program 536922878" in _text(browser, "#places tbody"), "no word of the route")
    _expect_clean(browser, gateway)
    live_server.kill()
    browser.wait_until(lambda: [row[0] for row in states()] == ["down", "down", "checking"], 20, "the death of the server")
    expect_equal("where new connections go", [row[1] for row in states()], ["", "", "go here"])
    browser.wait_until(lambda: tiles()[1] == "1 down", 10, "a backend that is down")
    browser.wait_until(lambda: any("backend served is down" in problem for problem in _problems(browser)), 10, "word of it")
    browser.size(390, 900)
    wider = (
        "return [...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"
    )
    browser.wait_until(lambda: browser.script(wider) == [], 5, "tables that are read without a keyhole")
    load.stop()
    browser.close()
    silent.close()
    gateway.terminate()


def themes(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    browser = _open(box, gateway)
    background = "return getComputedStyle(document.body).backgroundColor"
    browser.prefer_colors("light")
    light = browser.script(background)
    browser.prefer_colors("dark")
    dark = browser.script(background)
    expect(light != dark, f"light and dark are both {light}")
    browser.press("t")  # light, whatever the system prefers
    expect_equal("background of the light theme", browser.script(background), light)
    browser.press("t")
    browser.prefer_colors("light")
    expect_equal("background of the dark theme", browser.script(background), dark)
    browser.open(f"http://{gateway.metrics_address}/")
    expect_equal("background after coming back", browser.script(background), dark)
    for width in (1600, 800, 390):
        browser.size(width, 900)
        fits = "return document.documentElement.scrollWidth <= window.innerWidth"
        browser.wait_for(fits, 5, f"no scrolling sideways at {width} pixels")
    _expect_clean(browser, gateway)
    browser.close()
    gateway.terminate()


def keyboard(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(connections=1, window=2, seconds=300)
    load.wait_connected()
    browser = _open(box, gateway)
    browser.wait_for("return Number(document.getElementById('chart-rpcs').dataset.nonzero) > 2", 20, "the load")
    _walk(browser)
    browser.script("document.activeElement.blur()")  # wherever it has come to: in a field, ? would be text
    browser.press("?")
    expect(browser.script("return document.getElementById('help').open"), "? opens no help")
    browser.press("Escape")
    expect(not browser.script("return document.getElementById('help').open"), "Escape does not close the help")
    browser.press("1")
    expect_equal("window after 1", browser.script("return document.querySelector('[aria-checked=true]').dataset.window"), "60")
    _pause(browser)
    browser.script("document.getElementById('chart-rpcs').focus()")
    browser.press("End", "ArrowLeft")
    browser.wait_for("return document.getElementById('reading').textContent.includes('RPC/s')", 5, "a reading of the chart")
    expect(browser.script("return !document.querySelector('#chart-rpcs .tip').hidden"), "no tooltip at the reading")
    _sort(browser)
    _expect_clean(browser, gateway)
    load.stop()
    browser.close()
    gateway.terminate()


def _walk(browser: Browser) -> None:
    """Tab gets everywhere, in order of the page, and one sees where it is."""
    seen: list[str] = []
    for _ in range(60):
        browser.press("Tab")
        place, outline = browser.script(
            "const at = document.activeElement; const style = getComputedStyle(at);"
            "return [at.id || at.className || at.textContent || at.tagName,"
            " style.outlineStyle !== 'none' || at.matches('.skip')]"
        )
        expect(outline, f"one does not see that {place} has the focus")
        seen.append(place)
    wanted = ["skip", "pause", "theme", "help-button", "chart-rpcs", "chart-bytes", "chart-chunks"]
    found = [place for place in seen if place in wanted]
    expect_equal("order of the focus", found[: len(wanted)], wanted)


def _pause(browser: Browser) -> None:
    samples = "return document.getElementById('chart-rpcs').getAttribute('aria-label')"
    browser.press("p")
    expect_equal("paused", browser.script("return document.body.dataset.paused"), "true")
    held = browser.script(samples)
    browser.wait_for("return performance.now() - (window.heldAt ??= performance.now()) > 2500", 10, "some seconds")
    expect_equal("the chart while paused", browser.script(samples), held)
    browser.press("p")
    browser.wait_until(lambda: browser.script(samples) != held, 10, "going on")


def _sort(browser: Browser) -> None:
    """By a header's button; the direction turns the second time."""
    button = "#connection-table th:nth-child(12) button"
    order = "return document.querySelector('#connection-table th:nth-child(12)').getAttribute('aria-sort')"
    for wanted in ("descending", "ascending"):
        browser.script(f"document.querySelector({button!r}).focus()")
        browser.press("Enter")
        expect_equal("order by age", browser.script(order), wanted)
    browser.wait_until(lambda: any("sort=age&reversed" in url for url in browser.requests()), 5, "asking for the other order")


def gone_and_back(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    load = box.load(connections=1, window=2, seconds=300)
    load.wait_connected()
    browser = _open(box, gateway)
    browser.wait_for("return document.body.dataset.state === 'ready'", 15, "readiness")
    _expect_clean(browser, gateway)
    # A client that is silent holds up the end for as long as the gateway waits for it.
    load.signal(signal.SIGSTOP)
    gateway.signal(signal.SIGTERM)
    browser.wait_for("return document.body.dataset.state === 'draining'", 5, "draining")
    browser.wait_for("return document.body.dataset.state === 'lost'", 20, "loss of the gateway")
    expect("No answer from the gateway since" in _text(browser, "#banner"), "no word of it")
    load.signal(signal.SIGCONT)
    load.stop()
    samples = int(browser.script("return document.body.dataset.samples"))
    gateway.start_ready()
    browser.wait_for("return document.body.dataset.state === 'restarted'", 15, "the restart")
    expect("was started anew at" in _text(browser, "#banner"), "no word of the restart")
    browser.wait_for(f"return Number(document.body.dataset.samples) > {samples} + 2", 15, "samples of both runs")
    load = box.load(connections=2, window=2, seconds=300, name="again")
    load.wait_connected()
    browser.wait_for("return document.querySelectorAll('#connection-table tbody tr').length === 2", 15, "new connections")
    load.stop()
    gateway.kill()
    browser.wait_for("return document.body.dataset.state === 'lost'", 15, "loss of the killed gateway")
    browser.close()


SECTIONS = """[[client]]
name = "{first}"
prefixes = ["10.9.0.0/24"]
[[client]]
name = "{second}"
prefixes = ["0.0.0.0/0"]
"""


def _legend(browser: Browser, chart: str) -> list[str]:
    return list(
        browser.script(f"return [...document.querySelectorAll('#chart-{chart} .legend button')].map(b => b.childNodes[1].data)")
    )


def follows_other_sections(box: Box) -> None:
    """Sections and a backend have other names after a start; the page that is open shows them, and whose the past was."""
    gateway = box.gateway(extra=SECTIONS.format(first="cluster", second="strangers"))
    gateway.start_ready()
    load = box.load(connections=2, window=2, seconds=300)
    load.wait_connected()
    browser = _open(box, gateway)
    nonzero = "return Number(document.getElementById('chart-client-connections').dataset.nonzero) > 2"
    browser.wait_for(nonzero, 20, "connections of the section")
    expect_equal("sections", _legend(browser, "client-connections"), ["cluster", "strangers"])
    before = _legend(browser, "backends")
    _expect_clean(browser, gateway)
    browser.script("window.isTheSamePage = true")
    load.stop()
    gateway.terminate()
    config = box.directory / "gateway.toml"
    text = (
        config.read_text().replace('prefixes = ["10.9.0.0/24"]', 'prefixes = ["10.8.0.0/24"]').replace('"cluster"', '"newcomers"')
    )
    text = text.replace('"strangers"', '"cluster"').replace(f'name = "{before[0]}"', 'name = "fresh"')
    config.write_text(text.replace(f'backend = "{before[0]}"', 'backend = "fresh"'))
    gateway.start_ready()
    for chart in ("client-connections", "client-credits", "client-refusals"):
        browser.wait_until(
            lambda: _legend(browser, chart) == ["newcomers", "cluster"], 20, f"the new sections in {chart}"
        )  # noqa: B023
    browser.wait_until(lambda: _legend(browser, "backends") == ["fresh"], 10, "the new backend")
    expect_equal("the page was not loaded again", browser.script("return window.isTheSamePage"), True)
    browser.press("p")
    browser.script("document.getElementById('chart-client-connections').focus()")
    browser.press("End")
    readings = []
    for _ in range(60):
        browser.press("ArrowLeft")
        readings.append(_text(browser, "#chart-client-connections .tip").split("newcomers")[-1])
        if readings[-1].endswith("cluster2"):
            break
    expect(readings[-1].endswith("cluster2") and not readings[-1].startswith("2"), f"whose the connections were: {readings}")
    expect_equal("the old run had none of the new names", readings[-1], "0cluster2")
    browser.close()
    gateway.terminate()


def history_is_there_for_late_comers(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    report = box.load(connections=2, window=2, seconds=3).result()
    browser = _open(box, gateway)
    browser.wait_for("return Number(document.getElementById('chart-rpcs').dataset.nonzero) > 0", 15, "the load that was")
    said = _text(browser, "#procedures tbody tr")
    expect("bench echo" in said and report["calls"] > 0, f"procedures: {said}")
    browser.close()
    gateway.terminate()


def refuses_strangers(box: Box) -> None:
    gateway = box.gateway()
    gateway.start_ready()
    for path in ("/", "/metrics", "/api/snapshot", "/api/history", "/page/main.js"):
        status, said = _get(gateway, path, Host="rebound.example:9464")
        expect_equal(f"{path} by another name", (status, "http://localhost" in said), (421, True))
    expect_equal("status of a wrong query", _get(gateway, "/api/snapshot?limit=100000")[0], 400)
    expect_equal("a probe by another name", _get(gateway, "/healthz", Host="node7.example:9464")[0], 200)
    gateway.terminate()
    # Prometheus elsewhere: it asks by the name or address that it has been given.
    port = free_tcp_address().rpartition(":")[2]
    elsewhere = box.gateway("elsewhere", metrics=f"0.0.0.0:{port}")
    elsewhere.metrics_address = f"127.0.0.1:{port}"
    elsewhere.start_ready()
    for host in (f"node7.example:{port}", f"192.0.2.7:{port}"):
        expect_equal(f"metrics as {host}", _get(elsewhere, "/metrics", Host=host)[0], 200)
    elsewhere.terminate()


def switched_off(box: Box) -> None:
    gateway = box.gateway(extra="page = false")
    gateway.start_ready()
    status, said = _get(gateway, "/")
    expect(status == 200 and "page = true" in said and "/metrics" in said, f"/ says {said!r}")
    for path in ("/api/snapshot", "/api/history", "/page/main.js"):
        expect_equal(path, _get(gateway, path)[0], 404)
    # A reload turns it on, and off again; what it shows began when the gateway did, not when it was turned on.
    config = box.directory / "gateway.toml"
    off = config.read_text()
    time.sleep(2)
    config.write_text(off.replace("page = false", "page = true"))
    preview = box.ctl(gateway, "reload", "--dry-run")
    expect("at once\n  metrics.page: false -> true\n" in preview and "with a restart" not in preview, preview)
    box.ctl(gateway, "reload")
    expect_equal("/api/snapshot of the page that was turned on", _get(gateway, "/api/snapshot")[0], 200)

    def history() -> dict[str, Any]:
        return dict(json.loads(_get(gateway, "/api/history")[1]))

    wait_until(lambda: len(history()["time_ms"]) > 1, 20, "samples")
    one = history()
    expect(
        one["time_ms"][0] - int(one["boot"]) >= 2000, f"the first sample is of the time before: {one['boot']}, {one['time_ms']}"
    )
    config.write_text(off)
    box.ctl(gateway, "reload")
    expect_equal("/api/history when it is off again", _get(gateway, "/api/history")[0], 404)
    gateway.terminate()


CASES = [
    ("live page shows a load as it is, and asks nobody else", shows_a_load),
    ("live page shows servers of backends and budgets of clients", shows_servers_and_budgets),
    ("live page has two themes and fits narrow windows", themes),
    ("live page by keyboard", keyboard),
    ("live page says when the gateway drains, is gone, and is back", gone_and_back),
    ("live page follows sections and backends of other names", follows_other_sections),
    ("live page shows what was before it was opened", history_is_there_for_late_comers),
    ("live page is refused under names of others", refuses_strangers),
    ("live page switched off says so, and a reload switches it on", switched_off),
]
# A browser is a load by itself.
ALONE = [name for name, _ in CASES]
