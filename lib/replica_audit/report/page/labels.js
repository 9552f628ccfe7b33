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
