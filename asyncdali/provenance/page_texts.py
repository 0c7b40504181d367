"""The style and the script of the page about a step. The page loads nothing, so both are part of it."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --line: #8885; --mark: #f58518; --back: #fff; }
@media (prefers-color-scheme: dark) { :root { --back: #121212; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1400px; margin: 0 auto; padding: 0 1rem 3rem; background: var(--back); }
h1 { font-size: 1.3rem; margin: .8rem 0 .4rem; } h2 { font-size: 1.1rem; margin: .8rem 0 .3rem; }
h3, h4 { font-size: .95rem; margin: 1.1rem 0 .3rem; } h4 { font-size: .85rem; } p { margin: .3rem 0; }
code, pre { font-size: .85rem; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { padding: .5rem .8rem; border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
img { max-width: 100%; height: auto; border-radius: 4px; vertical-align: top; } img.exact { image-rendering: pixelated; }
nav { position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; padding: .4rem 0;
  background: var(--back); border-bottom: 1px solid var(--line); }
nav form { display: contents; } button, input { font: inherit; padding: .25rem .6rem; border: 1px solid var(--line); border-radius: 6px;
  background: none; color: inherit; min-height: 2.1rem; } input { width: 6.5rem; } #message { color: var(--mark); font-size: .85rem; }
figure:empty { display: none; } #where { min-width: 8.5rem; text-align: center; }
#grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(96px, 1fr)); gap: .3rem; max-height: 15.5rem; overflow-y: auto;
  margin: .5rem 0; }
#grid a { color: inherit; text-decoration: none; border: 2px solid transparent; border-radius: 6px; padding: 2px; font-size: .72rem;
  overflow: hidden; overflow-wrap: anywhere; line-height: 1.25; }
#grid a.chosen { border-color: var(--mark); } #grid img { width: 100%; height: auto; } #grid .sound { pointer-events: none; }
.steps { display: grid; gap: 1.5rem; } .steps.both { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: .8rem; }
.steps:not(.both) article:not(.chosen) { display: none; }
article { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0 1.2rem; align-content: start; min-width: 0; }
article > h2 { grid-column: 1 / -1; border-bottom: 1px solid var(--line); } article:only-child > h2 { display: none; }
section.sample { display: none; min-width: 0; overflow-wrap: anywhere; } section.sample.chosen { display: block; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-top: 1px solid var(--line); }
tr { scroll-margin-top: 4rem; } tr.chosen th { box-shadow: -4px 0 var(--mark); }
th { font-weight: 600; width: 30%; overflow-wrap: anywhere; } .facts { font-size: .8rem; opacity: .85; overflow-wrap: anywhere; }
.kind { opacity: .75; font-weight: 400; font-size: .8rem; } .warning { border-left: 4px solid var(--mark); padding: .1rem .8rem; }
.outputs { display: flex; flex-wrap: wrap; gap: 1rem; } .outputs figure { margin: 0; max-width: 100%; min-width: 0; }
figcaption { font-size: .8rem; } dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem .8rem; margin: 0; }
dt { font-weight: 600; font-size: .85rem; } dd { margin: 0; font-size: .85rem; overflow-wrap: anywhere; }
.histogram, .wave { display: block; color: #4c78a8; max-width: 100%; } .histogram { width: 128px; height: 30px; }
.sound { display: block; width: 320px; max-width: 100%; } .wave { width: 100%; height: 48px; }
.spectrogram { display: block; width: 100%; height: 72px; } audio { display: block; height: 36px; width: 100%; margin-top: .2rem; }
.error { border-left: 4px solid #e45756; padding: .5rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.graph svg { max-width: 100%; height: auto; background: #fff; border-radius: 6px; display: block; color: #000; }
.graph g[data-operator] { cursor: pointer; } .graph g.chosen rect { stroke: #f58518; stroke-width: 3; } details { margin: .6rem 0; }
@media (min-width: 900px) {
  .steps:not(.both) article { grid-template-columns: minmax(220px, 31%) minmax(0, 1fr); }
  .steps:not(.both) .graph { grid-column: 1; grid-row: 2 / span 300; position: sticky; top: 3.4rem; align-self: start; max-height: 88vh;
    overflow: auto; }
  .steps:not(.both) article:only-child .graph { grid-row: 1 / span 300; } .steps:not(.both) section.sample { grid-column: 2; }
}
.steps.both .graph { display: none; } .steps.both td, .steps.both th { display: block; width: auto; border: 0; padding: .1rem 0; }
.steps.both tr { display: block; border-top: 1px solid var(--line); }
@media (max-width: 640px) {
  body { padding: 0 .6rem 2rem; } td, th { display: block; width: auto; border: 0; padding: .1rem 0; }
  tr { display: block; border-top: 1px solid var(--line); padding: .3rem 0; } .keys { display: none; }
  #grid { grid-template-columns: repeat(auto-fill, minmax(68px, 1fr)); max-height: 11rem; }
  button { padding: .25rem .4rem; font-size: .85rem; }
  .steps.both dl { display: block; } .graph { order: 2; } #where { min-width: 0; font-size: .85rem; } nav { gap: .25rem; }
}
"""

SCRIPT = """
const about = JSON.parse(document.getElementById('step').textContent);
const steps = document.querySelector('.steps'), articles = [...document.querySelectorAll('article')];
const links = [...document.querySelectorAll('#grid a')], where = document.getElementById('where');
const message = document.getElementById('message');
const samples = [...new Set([...document.querySelectorAll('section.sample')].map(s => +s.dataset.sample))].sort((a, b) => a - b);
let at = about.chosen, shown = 0;
const fragment = /^#sample(\\d+)$/.exec(location.hash);
if (fragment && samples.includes(+fragment[1])) at = +fragment[1];
function say(text) { message.textContent = text; }
function choose(sample) {
  if (sample === undefined) return;
  at = sample;
  document.querySelectorAll('section.sample').forEach(s => s.classList.toggle('chosen', +s.dataset.sample === at));
  links.forEach(a => a.classList.toggle('chosen', +a.dataset.sample === at));
  const picture = document.querySelector('#grid a.chosen > :first-child:not(br)');
  const small = document.querySelector('article:first-child section.sample.chosen .outputs.small');
  if (picture && small && !small.querySelector('img')) small.prepend(picture.cloneNode(true));
  if (where) where.textContent = 'sample ' + at + ' of ' + about.samples;
  align();
}
function move(by) {
  say('');
  const k = samples.indexOf(at);
  choose(samples[(k + by + samples.length) % samples.length]);
}
function visit(changes) {
  const given = {step: about.step, sample: at, ...(about.compared === null ? {} : {compare: about.compared}), ...changes};
  location.search = '?' + new URLSearchParams(Object.entries(given).filter(pair => pair[1] !== null && pair[1] !== ''));
}
function go(by) {
  if (about.served) {
    if (about.step + by < 0) return say('Steps are counted from 0.');
    return visit({step: about.step + by, ...(about.compared === null ? {} : {compare: Math.max(0, about.compared + by)})});
  }
  if (articles.length > 1) return show((shown + 1) % articles.length, false);
  say('This page has step ' + about.step + ' only. Make another page with --step ' + Math.max(0, about.step + by) +
    ', or let --serve make steps on demand.');
}
function show(which, both) {
  say('');
  shown = which;
  articles.forEach((a, k) => a.classList.toggle('chosen', k === shown));
  steps.classList.toggle('both', both);
  align();
}
function compare() {
  if (articles.length > 1) return show(shown, !steps.classList.contains('both'));
  if (about.served) return visit({compare: about.step + 1});
  say('This page has step ' + about.step + ' only. Make a page with --compare ' + (about.step + 1) + ' to see two steps side by side.');
}
function align() {  // rows of the same operator begin at the same height
  const chosen = articles.map(a => [...a.querySelectorAll('section.sample.chosen :is(.origin, .outputs, .draws, tr)')]);
  chosen.flat().forEach(row => { row.style.minHeight = ''; row.style.height = ''; });
  if (chosen.length < 2 || !steps.classList.contains('both')) return;
  chosen[0].forEach((row, k) => {
    const other = chosen[1][k];
    if (!other) return;
    const height = Math.max(row.offsetHeight, other.offsetHeight) + 'px';
    row.style.minHeight = other.style.minHeight = height;
    row.style.height = other.style.height = height;
  });
}
function point(name, scroll) {
  document.querySelectorAll('[data-operator]').forEach(item => item.classList.toggle('chosen', item.dataset.operator === name));
  const row = [...document.querySelectorAll('article.chosen section.chosen tr')].find(item => item.dataset.operator === name);
  if (row && scroll) row.scrollIntoView({behavior: 'smooth', block: 'nearest'});
}
function whole(sample) {
  if (about.served) visit({sample: sample});
  else say('The page would become too large. Make a page with --sample ' + sample + '.');
}
links.forEach(a => a.addEventListener('click', e => {
  e.preventDefault();
  say('');
  if (samples.includes(+a.dataset.sample)) choose(+a.dataset.sample);
  else whole(+a.dataset.sample);
}));
document.querySelectorAll('button[data-whole]').forEach(b => b.addEventListener('click', () => whole(+b.dataset.whole)));
document.querySelectorAll('.graph g[data-operator]').forEach(g => g.addEventListener('click', () => point(g.dataset.operator, true)));
document.querySelectorAll('tr[data-operator]').forEach(row => row.addEventListener('mouseenter', () => point(row.dataset.operator)));
const actions = {'sample-': () => move(-1), 'sample+': () => move(1), 'step-': () => go(-1), 'step+': () => go(1), compare: compare};
document.querySelectorAll('button[data-act]').forEach(b => b.addEventListener('click', () => actions[b.dataset.act]()));
const keys = {ArrowRight: 'sample+', j: 'sample+', ArrowLeft: 'sample-', k: 'sample-', n: 'step+', p: 'step-', c: 'compare'};
document.addEventListener('keydown', e => {
  if (['INPUT', 'AUDIO'].includes(e.target.tagName) || e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
  e.preventDefault();
  actions[keys[e.key]]();
});
addEventListener('resize', align);
addEventListener('load', align);
choose(at);
"""
