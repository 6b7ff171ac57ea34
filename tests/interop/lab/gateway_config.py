"""The configuration file of a gateway under test, for ops, benches and the interop lab: one text with what they vary."""

TEXT = """\
[gateway]
instance = "{instance}"{gateway}
[dataplane]
{main_lcore}
poll_lcores = [{poll_lcores}]
{dataplane}
{ports}
[[listener]]
backend = "{backend_name}"
{listener}
[[backend]]
name = "{backend_name}"
{backend}
[admin]
socket = "{admin}"
[metrics]
listen = "{metrics}"
{metrics_extra}
{extra}
"""
BENCH_PROGRAM = 'type = "builtin"\nprograms = ["bench"]'


def gateway_config(
    *,
    instance: str,
    poll_lcores: object,
    admin: object,
    metrics: str,
    main_lcore: object = None,
    device: str = "",
    port: str = "",
    mtu: int = 4500,
    backend_name: str = "bench",
    backend: str = BENCH_PROGRAM,
    gateway: str = "",
    dataplane: str = "",
    listener: str = "",
    metrics_extra: str = "",
    extra: str = "",
) -> str:
    """`gateway`, `port`, `backend`, `dataplane`, `listener` and `metrics_extra` are lines of their sections; `extra` has sections of its own.
    Without a device there is no port and no DPDK, which alone takes `main_lcore`."""
    ports = f'[[port]]\ndevice = "{device}"\nmtu = {mtu}\n{port}' if device else ""
    main_lcore = "" if main_lcore is None else f"main_lcore = {main_lcore}"
    gateway = gateway and "\n" + gateway
    return TEXT.format(**{**locals(), "ports": ports})
