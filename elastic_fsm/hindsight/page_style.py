"""The style sheet of the page: one set of colours for light, one for dark, nothing from outside.

Pictures are drawn with the same names of colours, so that they turn dark with the text. Each
worker state has a colour; it is never the only sign, the row's name says the state too.
"""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """\
:root {
  color-scheme: light dark;
  --paper: #ffffff; --panel: #f6f7f9; --line: #d5dae1; --text: #1f2329; --quiet: #5b636e;
  --accent: #0b62c4; --code: #eef1f5;
  --INIT: #93a1b2; --HEALTHY: #3f9b54; --UNHEALTHY: #d98a1f; --STOPPED: #4a8fd6;
  --SUCCEEDED: #1f9c8e; --FAILED: #cf3f3f; --UNKNOWN: #8d5cc2; --none: #c9cfd7;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12161c; --panel: #1a2028; --line: #343d49; --text: #e3e7ed; --quiet: #9aa5b3;
    --accent: #6cb0ff; --code: #20262e;
    --INIT: #6d7b8c; --HEALTHY: #4fb368; --UNHEALTHY: #e39d3c; --STOPPED: #5ea3ea;
    --SUCCEEDED: #36b5a6; --FAILED: #ea6060; --UNKNOWN: #a97fdb; --none: #3b4552;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1120px; padding: 24px 20px 64px; background: var(--paper);
  color: var(--text); font: 15px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif;
}
h1 { font-size: 22px; margin: 8px 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 0; font-weight: 600; }
code, pre { font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
a { color: var(--accent); }
.quiet { color: var(--quiet); }
.badge {
  display: inline-block; padding: 1px 10px; border-radius: 10px; font-size: 13px;
  font-weight: 600; border: 2px solid; vertical-align: 2px;
}
.answer {
  background: var(--panel); border-left: 4px solid var(--accent); border-radius: 4px;
  padding: 10px 16px; margin: 16px 0;
}
.answer p { margin: 4px 0; }
.answer p.inner { margin-left: 20px; }
.numbers { display: flex; flex-wrap: wrap; gap: 10px 34px; margin: 14px 0; }
.numbers div { min-width: 70px; }
.numbers b { display: block; font-size: 19px; font-weight: 600; }
.wide { overflow-x: auto; }
.chart { display: block; width: 100%; min-width: 720px; height: auto; }
.chart text { fill: var(--text); font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
.chart .tick { fill: var(--quiet); font-size: 11px; }
.chart .grid { stroke: var(--line); stroke-width: 1; }
.chart .mark { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 2 3; }
.chart .dot { fill: var(--panel); stroke: var(--quiet); }
.chart .row { fill: var(--panel); }
.graph svg { display: block; width: 100%; height: auto; }
label:has(.zoom:checked) + .graph svg { width: auto; max-width: none; }
article {
  border: 1px solid var(--line); border-radius: 6px; padding: 12px 16px; margin: 10px 0;
}
article.failure, article.trouble { border-left: 4px solid var(--FAILED); }
article.told { border-left: 4px solid var(--STOPPED); }
article.membership { border-left: 4px solid var(--UNHEALTHY); }
article.gap { border-left: 4px dashed var(--quiet); }
article.agent { border-left: 4px solid var(--UNKNOWN); }
ol.steps { list-style: none; margin: 8px 0 0; padding: 0; }
ol.steps li { display: grid; grid-template-columns: 84px 1fr; gap: 0 12px; padding: 5px 0; }
ol.steps li + li { border-top: 1px solid var(--line); }
ol.steps .when { text-align: right; color: var(--quiet); font-variant-numeric: tabular-nums; }
ol.steps .why { color: var(--quiet); font-size: 13.5px; }
.outcome { margin: 8px 0 0; font-weight: 600; }
pre {
  background: var(--code); border-radius: 4px; padding: 8px 12px; margin: 6px 0;
  overflow-x: auto; white-space: pre;
}
table { border-collapse: collapse; width: 100%; }
th { text-align: left; font-weight: 600; color: var(--quiet); font-size: 13px; }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.bar { height: 10px; border-radius: 2px; min-width: 1px; }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 8px; }
.legend { font-size: 13px; margin: 2px 0; }
.legend .swatch { margin: 0 6px 0 12px; }
summary { cursor: pointer; color: var(--accent); }
@media print { body { max-width: none; } article { break-inside: avoid; } }
"""
