// How the HTML report looks: light or dark as the reader's system is, readable on a phone and on paper.
#pragma once

namespace cw::load {

inline constexpr const char* kReportStyle = R"(
:root { color-scheme: light dark; --ink: #1b2733; --dim: #56646f; --paper: #ffffff; --card: #f6f8fa; --rule: #dfe5ea;
  --c0: #1769aa; --c1: #2e8b57; --c2: #c77700; --c3: #c0392b; --c4: #7d4fb3; --c5: #0b8a8f; --c6: #a0522d; --c7: #6b7280;
  --bad: #b3261e; --good: #1e7a46; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --dim: #9aa8b5; --paper: #14191e; --card: #1c232a; --rule: #2c363f;
  --c0: #5aa9e6; --c1: #5fc48b; --c2: #f0ad4e; --c3: #ef6f61; --c4: #b08be0; --c5: #4cc9cf; --c6: #d9a066; --c7: #9ca3af;
  --bad: #ff8a80; --good: #6fd39b; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1020px;
  margin: 2em auto; padding: 0 16px; overflow-wrap: anywhere; }
h1 { font-size: 1.6em; line-height: 1.2; margin: 0 0 0.2em; } h2 { font-size: 1.15em; margin: 2em 0 0.1em; }
p { margin: 0.3em 0; } .dim { color: var(--dim); }
.bad, .good { border-left: 4px solid; padding-left: 0.7em; font-weight: 600; }
.bad { color: var(--bad); } .good { color: var(--good); }
svg { display: block; width: 100%; height: auto; } svg.narrow { display: none; }
.grid { stroke: var(--rule); } .label { fill: var(--dim); font-size: 12px; }
path { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); } .s3 { stroke: var(--c3); }
.s4 { stroke: var(--c4); } .s5 { stroke: var(--c5); } .s6 { stroke: var(--c6); } .s7 { stroke: var(--c7); }
.f0, .heat { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); }
.f4 { fill: var(--c4); } .f5 { fill: var(--c5); } .f6 { fill: var(--c6); } .f7 { fill: var(--c7); }
.legend { display: flex; flex-wrap: wrap; gap: 0 1.4em; margin: 0.5em 0 0.2em; font-size: 0.85em; color: var(--dim); }
.legend span { display: flex; align-items: center; gap: 0.4em; } svg.key { width: auto; height: 12px; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { text-align: right; padding: 0.25em 0.6em; border-bottom: 1px solid var(--rule); white-space: nowrap; }
td:first-child, th:first-child { text-align: left; padding-left: 0; }
.options { width: auto; } .options td { text-align: left; font-family: ui-monospace, monospace; white-space: normal; }
.options td:first-child { color: var(--dim); padding-right: 2em; white-space: nowrap; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(115px, 1fr)); gap: 10px; margin: 1em 0; }
.tile { background: var(--card); border: 1px solid var(--rule); border-radius: 6px; padding: 0.5em 0.7em; }
.tile b { display: block; font-size: 1.15em; white-space: nowrap; } .tile span { color: var(--dim); font-size: 0.85em; }
@media (max-width: 700px) { svg.wide { display: none; } svg.narrow { display: block; } body { margin: 1em auto; } }
@media print { body { max-width: none; } h2 { break-after: avoid; } svg, .tile { break-inside: avoid; } }
)";

}  // namespace cw::load
