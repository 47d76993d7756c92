"""The style of the pages of reports.

Colours are those of Okabe and Ito, which people with any colour vision tell apart, and lighter ones on a dark page:
https://jfly.uni-koeln.de/color/. What a color means is also shown by a width, dashes, an outline or words.
"""

STYLE = """\
:root {
  color-scheme: light dark;
  --ink: #1b1f24; --paper: #fff; --soft: #d8dee4; --mute: #57606a; --tint: #f3f6f9;
  --best: #c04d00; --blue: #0072b2; --green: #007a5a; --purple: #96427a; --gold: #8f6500; --cyan: #1b7fa8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6edf3; --paper: #0d1117; --soft: #30363d; --mute: #9aa4ae; --tint: #161b22;
    --best: #ff9d4d; --blue: #56b4e9; --green: #2fc49a; --purple: #e29cc5; --gold: #e6b93c; --cyan: #8fd3f4;
  }
}
* { box-sizing: border-box; }
body {
  color: var(--ink); background: var(--paper); font: 15px/1.5 system-ui, sans-serif;
  max-width: 72rem; margin: 1.5rem auto; padding: 0 1rem; overflow-wrap: anywhere;
}
h1 { font-size: 1.5rem; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; }
.lead { color: var(--mute); }
.state { font-weight: 600; color: var(--ink); }
.state.succeeded { color: var(--green); }
.state.failed { color: var(--best); }
.note { color: var(--mute); font-size: .9em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .8rem 0; }
th, td { border-bottom: 1px solid var(--soft); padding: .25rem .6rem; text-align: right; overflow-wrap: normal; }
th { color: var(--mute); font-weight: 600; }
td { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.word, th.word { text-align: left; }
td.long { white-space: normal; min-width: 14rem; }
tr.best td { background: var(--tint); font-weight: 600; }
tr.best td:first-child, tr.failed td:first-child { color: var(--best); }
dl { display: grid; grid-template-columns: minmax(6rem, max-content) minmax(0, 1fr); gap: .15rem 1rem; }
dd { margin: 0; }
dt { color: var(--mute); }
pre { background: var(--tint); padding: .8rem; overflow-x: auto; font-size: .87em; overflow-wrap: normal; }
summary { cursor: pointer; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.5rem 2rem; }
figure { margin: .8rem 0 1.2rem; min-width: 0; }
figcaption { font-weight: 600; font-size: .93em; }
svg.area {
  display: block; overflow: visible; height: 16rem; font-size: 12px;
  width: calc(100% - var(--room) - 2rem); margin: 1.9rem 1.5rem 3.2rem calc(var(--room) + .5rem);
}
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg.lines { overflow: visible; width: 100%; height: 100%; }
.grid { stroke: var(--soft); stroke-width: 1; }
polyline {
  fill: none; stroke: var(--blue); stroke-width: 1.5; stroke-linejoin: round; vector-effect: non-scaling-stroke;
}
circle { fill: var(--blue); stroke: var(--paper); stroke-width: 1; }
svg.chain { display: block; margin: .8rem 0; }
svg .job rect { fill: var(--tint); stroke: var(--mute); stroke-width: 1.5; }
svg .job.succeeded rect { stroke: var(--green); }
svg .job.failed rect { stroke: var(--best); stroke-width: 3; }
svg .job.skipped rect, svg .job.not-started rect { stroke-dasharray: 4 3; }
svg .job text.mute { fill: var(--mute); }
svg path.edge { fill: none; stroke: var(--mute); stroke-width: 1.5; }
polyline.many { opacity: .35; stroke-width: 1; }
polyline.best { stroke: var(--best); stroke-width: 3; }
.best circle { fill: var(--best); stroke: var(--ink); stroke-width: 2; r: 7px; }
polyline.line1 { stroke: var(--green); stroke-dasharray: 7 3; }
polyline.line2 { stroke: var(--purple); stroke-dasharray: 2 3; }
polyline.line3 { stroke: var(--gold); stroke-dasharray: 9 3 2 3; }
polyline.line4 { stroke: var(--cyan); stroke-dasharray: 12 5; }
polyline.law { stroke: var(--best); stroke-width: 2; }
polyline.ideal { stroke: var(--mute); stroke-dasharray: 5 4; }
.bar { stroke-width: 1.5; stroke: var(--blue); fill: var(--blue); }
.bar.prepared { stroke: var(--mute); fill: var(--mute); }
.bar.waited { stroke: var(--mute); fill: var(--paper); stroke-dasharray: 3 2; }
.bar.ran { stroke: var(--ink); fill: var(--tint); }
.bar.failed { stroke: var(--ink); fill: var(--best); }
.bar.reclaimed { stroke: var(--purple); fill: var(--paper); stroke-width: 2.5; stroke-dasharray: 5 3; }
.bar.cancelled { stroke: var(--mute); fill: var(--soft); }
.legend {
  list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1rem;
  padding: 0; margin: .2rem 0; font-size: .87em;
}
.key { width: 24px; height: 12px; margin-right: .4rem; overflow: visible; }
@media (max-width: 44rem) {
  .wide-only { display: none; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: .4rem; }
}
"""
