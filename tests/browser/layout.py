"""What is measured on a page: labels of pictures that lie on each other or on a line, and what is cut off."""

#: Returns what is wrong with the labels of every picture, as texts.
LABELS = """
const wrong = [];
const meet = (a, b, by = 1) => a.left < b.right - by && b.left < a.right - by && a.top < b.bottom - by && b.top < a.bottom - by;
for (const svg of document.querySelectorAll('svg.picture:not(.mini-lanes)')) {
  const frame = svg.getBoundingClientRect();
  if (!frame.width) continue;
  const boxes = (selector) => [...svg.querySelectorAll(selector)].map((node) => [node, node.getBoundingClientRect()]);
  const texts = boxes('text');
  texts.forEach(([node, box], place) => {
    const said = node.textContent;
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) wrong.push(`clipped: ${said}`);
    for (const [other, there] of texts.slice(place + 1)) if (meet(box, there, 1.5)) wrong.push(`overlap: ${said} / ${other.textContent}`);
    // Text stands on ground, not on its descenders' box: a line below the baseline's box is no strike.
    const core = { left: box.left + 0.5, right: box.right - 0.5, top: box.top + box.height * 0.2, bottom: box.bottom - box.height * 0.2 };
    for (const [line] of boxes('line:not(.cursor)')) {
      if (line.classList.contains('nothing')) continue;
      const [a, b] = [line.getAttribute('x1'), line.getAttribute('x2')].map((x) => frame.left + Number(x) * frame.width / svg.viewBox.baseVal.width);
      const [c, d] = [line.getAttribute('y1'), line.getAttribute('y2')].map((y) => frame.top + Number(y) * frame.width / svg.viewBox.baseVal.width);
      if (meet(core, { left: Math.min(a, b) - 0.6, right: Math.max(a, b) + 0.6, top: Math.min(c, d) - 0.6, bottom: Math.max(c, d) + 0.6 }, 0)
          && !(node.closest('svg') !== svg)) wrong.push(`struck by ${line.getAttribute('class')}: ${said}`);
    }
    for (const [path, there] of boxes('path.cut, path.hw, .break path')) if (meet(core, there, 0.5)) wrong.push(`on ${path.getAttribute('class')}: ${said}`);
    for (const [rect, there] of boxes('rect.run, rect.damage, rect.dropped')) {
      if (!meet(core, there, 0.5)) continue;
      const within = there.left <= box.left && box.right <= there.right && there.top <= core.top && core.bottom <= there.bottom;
      const ground = boxes('rect.ep-back').some(([, back]) => back.left <= box.left && box.right <= back.right);
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
for (const node of document.body.querySelectorAll('*')) {
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  if (!box.width || style.visibility === 'hidden' || node.closest('.hide, .skip, svg, thead') || style.position === 'absolute') continue;
  const fold = node.closest('details:not([open])');
  if (fold && !node.closest('summary')) continue;
  if (box.right > edge + 1 && !arguments[0].some((selector) => node.closest(selector))) wrong.push(`over the edge: ${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`);
  if (style.overflowX !== 'visible' && node.scrollWidth > node.clientWidth + 1 && !arguments[0].some((selector) => node.matches(selector))) wrong.push(`cut off: ${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`);
}
return [...new Set(wrong)];
"""

#: Returns the texts that take more than one line, of the elements that the selector names.
WRAPPED = """
return [...document.querySelectorAll(arguments[0])].filter((node) => node.offsetParent && new Set([...node.getClientRects()].map((box) => Math.round(box.top))).size > 1).map((node) => node.textContent);
"""
