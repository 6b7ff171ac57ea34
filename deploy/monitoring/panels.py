"""Grafana's JSON model, as far as the dashboards need it: panels, their queries, and their places on a grid of 24 columns."""

from typing import Any, Optional, Sequence

Json = dict[str, Any]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Every query is narrowed by these, so that one dashboard serves one gateway or all of them.
SELECTED = 'job=~"$job", instance=~"$instance"'
COLUMNS = 24
HEIGHT = 8
STAT_HEIGHT = 4

# Grafana 10: the first version whose schema has all that is used here; older ones show the panels too.
SCHEMA_VERSION = 38


def target(expr: str, legend: str, ref: str = "A", **more: Any) -> Json:
    return {
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expr,
        "legendFormat": legend,
        "range": True,
        "refId": ref,
        **more,
    }


def targets(queries: Sequence[tuple[str, str]]) -> list[Json]:
    return [target(expr, legend, chr(ord("A") + index)) for index, (expr, legend) in enumerate(queries)]


def _panel(kind: str, title: str, description: str, width: int, height: int) -> Json:
    return {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "gridPos": {"w": width, "h": height, "x": 0, "y": 0},
    }


def _thresholds(steps: Sequence[tuple[Optional[float], str]]) -> Json:
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in steps]}


def timeseries(
    title: str,
    description: str,
    unit: str,
    *queries: tuple[str, str],
    width: int = 12,
    stacked: bool = False,
    maximum: Optional[float] = None,
    log: bool = False,
) -> Json:
    """Curves over time, with a legend that names last value and maximum of each."""
    panel = _panel("timeseries", title, description, width, HEIGHT)
    defaults: Json = {
        "unit": unit,
        "min": 0,
        "color": {"mode": "palette-classic"},
        "custom": {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 25 if stacked else 8,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
            "scaleDistribution": {"type": "log", "log": 10} if log else {"type": "linear"},
        },
    }
    if log:
        del defaults["min"]  # a logarithm has none
    if maximum is not None:
        defaults["max"] = maximum
    panel["fieldConfig"] = {"defaults": defaults, "overrides": []}
    panel["options"] = {
        "legend": {
            "displayMode": "table",
            "placement": "bottom",
            "showLegend": True,
            "calcs": ["lastNotNull", "max"],
            "sortBy": "Max",
            "sortDesc": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    panel["targets"] = targets(queries)
    return panel


def stat(
    title: str,
    description: str,
    unit: str,
    query: tuple[str, str],
    width: int = 4,
    steps: Sequence[tuple[Optional[float], str]] = ((None, "blue"),),
    words: Optional[dict[str, tuple[str, str]]] = None,
) -> Json:
    """One number per series, coloured by thresholds. `words` maps a value to (text, colour)."""
    panel = _panel("stat", title, description, width, STAT_HEIGHT)
    mappings = []
    if words:
        options = {
            value: {"text": text, "color": color, "index": index} for index, (value, (text, color)) in enumerate(words.items())
        }
        mappings.append({"type": "value", "options": options})
    panel["fieldConfig"] = {
        "defaults": {"unit": unit, "mappings": mappings, "thresholds": _thresholds(steps), "color": {"mode": "thresholds"}},
        "overrides": [],
    }
    panel["options"] = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "auto",
    }
    panel["targets"] = targets([query])
    return panel


def heatmap(title: str, description: str, unit: str, bucket: str, width: int = 12) -> Json:
    """How a histogram's values are spread, over time. `bucket`: the per-second rate of each bucket, by le."""
    panel = _panel("heatmap", title, description, width, HEIGHT)
    panel["fieldConfig"] = {"defaults": {"custom": {"scaleDistribution": {"type": "linear"}}}, "overrides": []}
    panel["options"] = {
        "calculate": False,
        "cellGap": 0,
        "color": {
            "mode": "scheme",
            "scheme": "Turbo",
            "steps": 64,
            "exponent": 0.5,
            "fill": "dark-orange",
            "scale": "exponential",
            "reverse": False,
        },
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto"},
        "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": True},
        "yAxis": {"axisPlacement": "left", "reverse": False, "unit": unit},
        "cellValues": {"unit": "reqps"},
    }
    panel["targets"] = [target(bucket, "{{le}}", format="heatmap")]
    return panel


def row(title: str) -> Json:
    return {"type": "row", "title": title, "collapsed": False, "gridPos": {"w": COLUMNS, "h": 1, "x": 0, "y": 0}, "panels": []}


def _place(panels: Sequence[Json]) -> list[Json]:
    """Left to right, then down; ids in reading order."""
    x = y = line_height = 0
    for number, panel in enumerate(panels, 1):
        place = panel["gridPos"]
        if x + place["w"] > COLUMNS:
            x, y, line_height = 0, y + line_height, 0
        place["x"], place["y"] = x, y
        x += place["w"]
        line_height = max(line_height, place["h"])
        panel["id"] = number
    return list(panels)


def _query_variable(name: str, label: str, query: str) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "hide": 0,
        "options": [],
        "regex": "",
        "skipUrlSync": False,
    }


def dashboard(
    uid: str, title: str, description: str, panels: Sequence[Json], variables: Sequence[tuple[str, str, str]] = ()
) -> Json:
    """`variables`: (name, label, query) besides data source, job and instance."""
    datasource = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "skipUrlSync": False,
    }
    listed = [
        datasource,
        _query_variable("job", "Job", "label_values(causeway_build_info, job)"),
        _query_variable("instance", "Gateway", 'label_values(causeway_build_info{job=~"$job"}, instance)'),
        *(_query_variable(*variable) for variable in variables),
    ]
    link = {
        "type": "dashboards",
        "tags": ["causeway"],
        "title": "Causeway",
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "icon": "external link",
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }
    alerts = {
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": "red",
        "name": "Alerts",
        "target": {
            "expr": f'ALERTS{{alertname=~"Causeway.*", alertstate="firing", {SELECTED}}}',
            "interval": "60s",
            "refId": "Alerts",
        },
        "titleFormat": "{{alertname}}",
        "textFormat": "{{instance}}",
    }
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["causeway"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "fiscalYearStartMonth": 0,
        "graphTooltip": 1,
        "links": [link],
        "liveNow": False,
        "annotations": {"list": [alerts]},
        "panels": _place(panels),
        "refresh": "30s",
        "style": "dark",
        "templating": {"list": listed},
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "timezone": "",
        "weekStart": "",
    }
