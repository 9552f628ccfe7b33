// What all pictures are drawn with: a scale, places for labels, lanes.

// From offsets to pixels. To scale where everything can be told apart; otherwise long stretches in which nothing
// changes are made short, and marked as such, so that seven records at the end of ten million can be seen.
const NEAR = 14;

// {at(offset) → x, offset(x), low, high, breaks: [x…], ticks: [offset…], focused}; keys: of each value that matters how much its label
// does; share(from, to): how much room a stretch between two of them gets where the axis is cut short.
function makeScale(keys, left, right, focus, share = (from, to) => Math.log2(1 + to - from)) {
  let points = [...keys.keys()].sort((one, other) => one - other);
  // A log with thousands of epochs: keep what matters most, newest first.
  const room = Math.max(6, Math.floor((right - left) / (2 * NEAR)));
  if (points.length > room) {
    const first = points[0];
    points = points.map((point, place) => [point, keys.get(point), place]).sort((one, other) => other[1] - one[1] || other[2] - one[2]);
    points = [...new Set([first, ...points.slice(0, room - 1).map(([point]) => point)])].sort((one, other) => one - other);
  }
  const low = points.length ? points[0] : 0;
  const high = points.length ? Math.max(points[points.length - 1], low + 1) : 1;
  if (points.length < 2) points = [low, high];
  const width = right - left;
  const lengths = points.slice(1).map((point, index) => point - points[index]);
  const crowded = lengths.some((length) => (length / (high - low)) * width < NEAR);
  const focused = focus === undefined ? crowded : focus;
  let widths = lengths.map((length) => (length / (high - low)) * width);
  if (focused) {
    const least = Math.min(30, (width * 0.7) / lengths.length);
    const weights = lengths.map((_, index) => share(points[index], points[index + 1]));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    widths = weights.map((weight) => least + ((width - least * lengths.length) * weight) / total);
  }
  const places = [left];
  for (const step of widths) places.push(places[places.length - 1] + step);
  const between = (value, from, to) => {
    if (value <= from[0]) return to[0];
    let index = 0;
    while (index < from.length - 2 && value > from[index + 1]) index += 1;
    const part = (value - from[index]) / (from[index + 1] - from[index]);
    return to[index] + Math.min(1, part) * (to[index + 1] - to[index]);
  };
  const densities = widths.map((step, index) => step / lengths[index]);
  const densest = Math.max(...densities);
  const breaks = focused
    ? widths.flatMap((step, index) => (densities[index] * 6 < densest && step > 26 ? [places[index] + step / 2] : []))
    : [];
  return {
    low,
    high,
    points,
    focused,
    crowded,
    breaks,
    left,
    right,
    at: (offset) => between(Number(offset), points, places),
    offset: (x) => Math.round(between(x, places, points)),
    ticks: focused ? keyTicks(points, keys) : roundTicks(low, high, width),
  };
}

// Key offsets, those first that matter more: whoever labels them leaves out what has no room.
function keyTicks(points, keys) {
  return [...points].sort((one, other) => (keys.get(other) || 0) - (keys.get(one) || 0) || one - other);
}

function roundTicks(low, high, width) {
  const wanted = Math.max(2, Math.floor(width / 90));
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) || power;
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return ticks;
}

// Labels of a picture: where each goes, so that none lies on another, and lines that make way for them.
const FAMILY = 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';

// Width of a text in pixels, as the page's style draws it.
const measure = (() => {
  const pen = document.createElement('canvas').getContext('2d');
  const known_ = new Map();
  return (text, size, weight) => {
    const key = `${weight || 400} ${size} ${text}`;
    if (!known_.has(key)) {
      pen.font = `${weight || 400} ${size}px ${FAMILY}`;
      known_.set(key, pen.measureText(text).width);
    }
    return known_.get(key);
  };
})();

// Sizes and weights of the classes of labels; page.css has the same.
const TYPE = { tick: [11], name: [13, 600], role: [11], ep: [12], end: [12], hw: [11.5], cut: [11.5], chosen: [11.5, 600], recomputed: [11.5, 600], fork: [11.5], led: [11.5] };
const widthOf = (text, cls) => measure(text, ...TYPE[cls]);

// The places of one picture that are taken. A box is {left, right, top, bottom, mark}; a label may touch its mark.
function makeBoard(width) {
  const boxes = [];
  const overlap = (one, other, gap) => one.left < other.right + gap && other.left < one.right + gap && one.top < other.bottom && other.top < one.bottom;
  // Where a text of a class is whose baseline begins, is centred or ends at (x, y).
  const boxOf = (text, cls, x, y, anchor) => {
    const [size] = TYPE[cls];
    const length = widthOf(text, cls) + 1;
    const left = anchor === 'end' ? x - length : anchor === 'middle' ? x - length / 2 : x;
    return { left, right: left + length, top: y - size, bottom: y + size * 0.3 };
  };
  const inside = (box) => box.left >= 0 && box.right <= width;
  const free = (box, gap) => boxes.every((other) => !overlap(box, other, other.mark ? 1 : gap === undefined ? 6 : gap));
  // The label as an element; its place is taken.
  const put = (text, cls, box, y, more) => {
    boxes.push(box);
    return draw('text', { class: more ? `${cls} ${more}` : cls, x: box.left, y }, text);
  };
  return {
    width,
    boxOf,
    inside,
    free,
    put,
    take: (box) => boxes.push(box),
    // The label at x, moved as little as keeps it inside the picture; null where it would lie on another.
    near(text, cls, x, y, gap) {
      const box = boxOf(text, cls, x, y, 'middle');
      const shift = Math.max(0, 1 - box.left) - Math.max(0, box.right - (width - 1));
      const moved = { ...box, left: box.left + shift, right: box.right + shift };
      return free(moved, gap) ? put(text, cls, moved, y) : null;
    },
    // Pieces of a vertical line that strike no label.
    rule(attributes, x, top, bottom) {
      const gaps = boxes.filter((box) => !box.mark && box.left - 2 < x && x < box.right + 2 && box.top - 1 < bottom && top < box.bottom + 1).sort((one, other) => one.top - other.top);
      const pieces = [];
      let from = top;
      for (const box of gaps) {
        if (box.top - 1 > from) pieces.push([from, box.top - 1]);
        from = Math.max(from, box.bottom + 1);
      }
      if (from < bottom) pieces.push([from, bottom]);
      return pieces.map(([y1, y2]) => draw('line', { ...attributes, x1: x, x2: x, y1, y2 }));
    },
  };
}

// Puts a label beside x into the first of several lines of text, `step` apart from y on, where it fits best: it lies on no
// other, crosses as few of the lines at `walls` as can be, and is as near as can be. Returns {node, level}.
function putBeside(board, text, cls, x, y, step, walls) {
  let best = null;
  for (let level = 0; level < 12; level += 1) {
    const line = y + level * step;
    const right = board.boxOf(text, cls, x + 8, line, 'start');
    const left = board.boxOf(text, cls, x - 8, line, 'end');
    const start = Math.max(1, Math.min(x + 8, board.width - (right.right - right.left) - 1));
    const spots = [[right, 0], [left, 0.2], [board.boxOf(text, cls, start, line, 'start'), 1.4]];
    for (const [box, cost] of spots) {
      if (!board.free(box) || (cost < 1 && !board.inside(box))) continue;
      const struck = walls.filter((wall) => wall > box.left - 2 && wall < box.right + 2 && Math.abs(wall - x) > 1).length;
      const score = level * 2.2 + struck * 1.5 + cost;
      if (!best || score < best.score) best = { box, line, level, score };
    }
    if (best && best.score <= (level + 1) * 2.2) break;
  }
  if (!best) {
    const line = y + 12 * step;
    best = { box: board.boxOf(text, cls, 1, line, 'start'), line, level: 12 };
  }
  return { node: board.put(text, cls, best.box, best.line), level: best.level };
}

// Lanes over a scale of times or offsets, one for each row: what was so from when to when, and what happened on it.
// lanes: [{name, spans: [{from, to, cls, title, text, ink}]}], where the first of a span's texts that fits is written, in the class ink;
// weights: of each value on the scale, how much its label matters; tick: the label of a value. `marksOf(lane, scale)` may give the
// marks [{x, y, size, shape, cls}] of a lane once the scale is there, with y from the lane's top; share as of makeScale. Returns {svg, scale, tops, height of a lane}.
function drawLanes(lanes, weights, { width, label, tick, height = 18, end, marksOf, share }) {
  const board = makeBoard(width);
  const left = Math.max(...lanes.map(({ name }) => widthOf(name, 'name')), width < 620 ? 40 : 90) + 20;
  const scale = makeScale(weights, left, width - 20, undefined, share);
  const top = 30;
  const bottom = top + lanes.length * (height + 6);
  const svg = draw('svg', { viewBox: `0 0 ${width} ${bottom + 2}`, width, height: bottom + 2, class: 'picture', role: 'img', 'aria-label': label });
  const ruled = [];
  for (const value of keyTicks(scale.points, weights).filter((one) => one !== end)) {
    const text = board.near(tick(value), 'tick', scale.at(value), top - 12, 8);
    if (!text) continue;
    svg.append(text);
    ruled.push(scale.at(value));
  }
  const tops = lanes.map((lane, place) => {
    const y = top + place * (height + 6);
    const middle = y + height / 2 + 4;
    svg.append(board.put(lane.name, 'name', board.boxOf(lane.name, 'name', left - 12, middle, 'end'), middle));
    for (const { from, to, cls, title, text = [], ink = 'led' } of lane.spans || []) {
      const x = scale.at(from);
      const length = scale.at(to) - x;
      svg.append(draw('rect', { class: `span ${cls}`, x, y, width: Math.max(1.5, length), height }, draw('title', null, title)));
      const said = text.find((one) => widthOf(one, ink) + 12 < length);
      if (said) svg.append(board.put(said, ink, board.boxOf(said, ink, x + 6, middle, 'start'), middle));
    }
    if (marksOf) svg.append(draw('line', { class: 'nothing', x1: left, x2: width - 20, y1: y + height + 3, y2: y + height + 3 }), ...marksOf(lane, scale).map((mark) => markAt(mark.shape, mark.x, y + mark.y, mark.size, mark.cls)));
    return y;
  });
  // Below everything, and drawn last: lines make way for labels.
  svg.prepend(...ruled.flatMap((x) => board.rule({ class: 'grid' }, x, top - 6, bottom - 4)));
  return { svg, scale, tops, height };
}

// A mark by its shape, so that it is told apart without colours too.
function markAt(shape, x, y, size, cls) {
  const r = size;
  const path = {
    up: `M${x - r} ${y + r * 0.8}h${2 * r}L${x} ${y - r}z`,
    down: `M${x - r} ${y - r * 0.8}h${2 * r}L${x} ${y + r}z`,
    cross: `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}`,
    diamond: `M${x} ${y - r - 1}L${x + r + 1} ${y}L${x} ${y + r + 1}L${x - r - 1} ${y}z`,
    square: `M${x - r} ${y - r}h${2 * r}v${2 * r}h-${2 * r}z`,
  }[shape];
  return draw('path', { class: `event ${cls}`, d: path });
}

// Makes a drawing readable with a pointer and with keys. at(x, y): what is there, in the drawing's own units; step(item, key): where a
// key leads; show(item): marks it; say(item): nodes that tell it; open(item). A click or Enter keeps what is told until the next one.
function explore(holder, readout, { svg, hint, at, step, show, say, open }) {
  let now = null;
  let kept = false;
  const tell = (item) => {
    now = item;
    show(item);
    readout.replaceChildren(...(item ? say(item) : [hint]));
  };
  const under = (event) => {
    const box = svg().getBoundingClientRect();
    const frame = svg().viewBox.baseVal;
    return at(((event.clientX - box.left) / box.width) * frame.width, ((event.clientY - box.top) / box.height) * frame.height);
  };
  holder.onpointermove = (event) => {
    const item = !kept && !event.buttons && under(event);
    if (item && item !== now) tell(item);
  };
  holder.onclick = (event) => {
    const item = under(event);
    kept = Boolean(item);
    tell(item);
  };
  holder.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Enter' && now) open(now);
    else {
      const next = step(now, event.key);
      if (next === undefined) return;
      kept = true;
      tell(next);
    }
    event.preventDefault();
    event.stopPropagation();
  };
  tell(null);
  return { clear: () => { kept = false; tell(null); }, keep: (item) => { kept = true; tell(item); } };
}

// Fills `holder` by draw(width), for the screen and for the paper, and again when its width has changed.
function drawnFor(holder, redraw) {
  let width = 0;
  const again = () => {
    if (!holder.isConnected) return;
    width = printing ? PAPER : Math.max(300, Math.floor(holder.clientWidth));
    redraw(width);
  };
  new ResizeObserver(() => {
    if (!printing && Math.abs(Math.floor(holder.clientWidth) - width) > 8 && holder.clientWidth) again();
  }).observe(holder);
  printed.add(again);
  return again;
}

// Width of a picture on A4 with the margins of page.css, in CSS pixels: before printing, pictures are drawn for the paper.
const PAPER = 700;
const printed = new Set();
let printing = false;
for (const [name, now] of [['beforeprint', true], ['afterprint', false]]) {
  addEventListener(name, () => {
    printing = now;
    for (const redraw of printed) redraw();
  });
}

const legendKey = (cls, text, mark) => el('span', { class: 'key' }, mark || el('i', { class: cls, 'aria-hidden': 'true' }), text);
