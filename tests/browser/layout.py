"""Measurements on a page: labels of pictures that overlap each other or a line, and clipped text."""

from pathlib import Path

from replica_audit.auditing.known_findings import Earlier
from replica_audit.report.facts.verdict import build_verdict
from replica_audit.report.page.document import render_page
from replica_audit.results import Results

#: Returns what is wrong with the labels of every picture, as texts.
LABELS = """
const wrong = [];
const meet = (a, b, by = 1) => a.left < b.right - by && b.left < a.right - by && a.top < b.bottom - by && b.top < a.bottom - by;
for (const svg of document.querySelectorAll('svg.picture:not(.mini-lanes)')) {
  const frame = svg.getBoundingClientRect();
  if (!frame.width) continue;
  const boxes = (selector) => [...svg.querySelectorAll(selector)].map((node) => [node, node.getBoundingClientRect()]);
  const texts = boxes('text');
  const scale = frame.width / svg.viewBox.baseVal.width;
  const lines = [...svg.querySelectorAll('line:not(.cursor):not(.nothing)')].map((line) => {
    const [a, b] = ['x1', 'x2'].map((name) => frame.left + Number(line.getAttribute(name)) * scale);
    const [c, d] = ['y1', 'y2'].map((name) => frame.top + Number(line.getAttribute(name)) * scale);
    return [line, { left: Math.min(a, b) - 0.6, right: Math.max(a, b) + 0.6, top: Math.min(c, d) - 0.6, bottom: Math.max(c, d) + 0.6 }];
  });
  const paths = boxes('path.cut, path.hw, .break path');
  const rects = boxes('rect.run, rect.damage, rect.dropped');
  const grounds = boxes('rect.ep-back');
  texts.forEach(([node, box], place) => {
    const said = node.textContent;
    const out = { left: frame.left - 1, right: frame.right + 1, top: frame.top - 1, bottom: frame.bottom + 1 };
    if (box.left < out.left || box.right > out.right || box.top < out.top || box.bottom > out.bottom) wrong.push(`clipped: ${said}`);
    for (const [other, there] of texts.slice(place + 1)) if (meet(box, there, 1.5)) wrong.push(`overlap: ${said} / ${other.textContent}`);
    // What is between the tops of small letters and the baseline: a line below them is no strike.
    const [over, under] = [box.top + box.height * 0.2, box.bottom - box.height * 0.2];
    const core = { left: box.left + 0.5, right: box.right - 0.5, top: over, bottom: under };
    for (const [line, ink] of lines) if (meet(core, ink, 0)) wrong.push(`struck by ${line.getAttribute('class')}: ${said}`);
    for (const [path, there] of paths) {
      if (meet(core, there, 0.5)) wrong.push(`on ${path.getAttribute('class')}: ${said}`);
    }
    for (const [rect, there] of rects) {
      if (!meet(core, there, 0.5)) continue;
      const beside = there.left <= box.left && box.right <= there.right;
      const within = beside && there.top <= core.top && core.bottom <= there.bottom;
      const ground = grounds.some(([, back]) => back.left <= box.left && box.right <= back.right);
      if (rect.classList.contains('dropped') ? !within : !within || !ground) wrong.push(`on ${rect.getAttribute('class')}: ${said}`);
    }
  });
}
return [...new Set(wrong)];
"""

#: Returns elements that reach over the page's edge, or have more in them than they show, as texts.
CLIPPED = """
const wrong = [];
const edge = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > edge) wrong.push(`the page is ${document.documentElement.scrollWidth - edge} wider than the window`);
const aside = ['.hide', '.skip', 'svg', 'thead'].map((one) => `${one}, ${one} *`);
for (const node of document.body.querySelectorAll(`:not(${aside.join()}, details:not([open]) :not(summary, summary *))`)) {
  const box = node.getBoundingClientRect();
  if (!box.width) continue;
  const style = getComputedStyle(node);
  if (style.visibility === 'hidden' || style.position === 'absolute') continue;
  const said = () => `${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`;
  if (box.right > edge + 1 && !arguments[0].some((selector) => node.closest(selector))) wrong.push(`over the edge: ${said()}`);
  const more = style.overflowX !== 'visible' && node.scrollWidth > node.clientWidth + 1;
  if (more && !arguments[0].some((selector) => node.matches(selector))) wrong.push(`cut off: ${said()}`);
}
return [...new Set(wrong)];
"""

#: Returns the texts that take more than one line, of the elements that the selector names.
WRAPPED = """
const lines = (node) => new Set([...node.getClientRects()].map((box) => Math.round(box.top))).size;
const seen = [...document.querySelectorAll(arguments[0])].filter((node) => node.offsetParent);
return seen.filter((node) => lines(node) > 1).map((node) => node.textContent);
"""


def write(found: Results, path: Path, earlier: Earlier | None = None) -> Path:
    """The page of `found` at `path`, which is returned."""
    path.write_text(render_page(found, build_verdict(found, "high"), earlier), encoding="utf-8")
    return path


def settle(browser) -> None:
    """Wait until what observes sizes has drawn."""
    browser.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 60))")
