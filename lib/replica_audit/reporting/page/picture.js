// The picture of a partition: one lane for each replica over offsets.
const LANE = 26;

// Epochs of one replica as [{epoch, start, end}…], cut to what the log holds.
function stretches(row) {
  const start = row.log_start_offset || 0;
  const end = row.log_end_offset;
  if (typeof end !== 'number' || end <= start) return [];
  const epochs = (row.epochs || []).filter(([, from]) => from < end);
  const found = [];
  if (!epochs.length || epochs[0][1] > start) found.push({ epoch: null, start, end: epochs.length ? epochs[0][1] : end });
  epochs.forEach(([epoch, from], index) => {
    const to = index + 1 < epochs.length ? epochs[index + 1][1] : end;
    if (to > start) found.push({ epoch, start: Math.max(from, start), end: Math.min(to, end) });
  });
  return found;
}

// Leader first, then those in sync, then the others.
function lanesOf(detail) {
  const rank = (row) => (row.is_leader ? 0 : row.in_isr ? 1 : 2);
  return [...detail.replicas].sort((one, other) => rank(one) - rank(other) || one.broker_id - other.broker_id);
}

function roleOf(row, reference) {
  const parts = [row.is_leader ? 'leader' : row.broker_id === reference ? 'reference' : null];
  parts.push(row.in_isr === null ? 'in sync?' : row.in_isr ? 'in sync' : 'not in sync');
  return parts.filter(Boolean).join(' · ');
}

// options: {width, name, protocol, focus, reference}. Returns {svg, scale, lanes, cuts}.
function drawPicture(detail, options) {
  const narrow = options.width < 620;
  const lanes = lanesOf(detail);
  const longest = Math.max(0, ...lanes.flatMap((row) => [roleOf(row, options.reference), heldBy(row)]).map((text) => text.length));
  const left = narrow ? 8 : Math.max(124, longest * 6 + 24);
  const ends = Math.max(2, ...lanes.map((row) => String(row.log_end_offset).length));
  const scale = makeScale(keyOffsets(detail), left, options.width - Math.max(56, ends * 7.4 + 18), options.focus);
  const epochs = [...new Set(lanes.flatMap((row) => (row.epochs || []).map(([epoch]) => epoch)))].sort((one, other) => one - other);
  const top = 48;
  const back = draw('g', { class: 'back' });
  const front = draw('g');
  const lines = draw('g');
  const over = draw('g');
  let y = top;
  const placed = lanes.map((row) => {
    const lane = { row, y: y + (narrow ? 18 : 0) };
    over.append(laneName(row, lane.y, left, narrow, options.reference));
    front.append(...laneBar(detail, row, lane.y, scale, epochs, options.protocol));
    y = lane.y + LANE + laneMarks(over, detail, row, lane.y + LANE, scale, options) + 12;
    return lane;
  });
  const bottom = y - 6;
  for (const tick of scale.ticks) {
    const x = scale.at(tick);
    back.append(draw('line', { class: 'grid', x1: x, x2: x, y1: top - 8, y2: bottom }));
    back.append(draw('text', { class: 'tick', x, y: top - 14, 'text-anchor': tick === scale.low && left < 30 ? 'start' : 'middle' }, tick));
  }
  back.append(draw('text', { class: 'tick', x: narrow ? left : left - 12, y: narrow ? 14 : top - 14, 'text-anchor': narrow ? 'start' : 'end' }, narrow ? '' : 'offset'));
  watermark(lines, over, detail, scale, top, bottom);
  const foot = fork(lines, over, detail, scale, top, bottom, options.width);
  for (const x of scale.breaks) for (const lane of placed) if (covers(lane.row, scale.offset(x))) over.append(breakMark(x, lane.y));
  const height = bottom + foot + 8;
  const number = drawPicture.drawn = (drawPicture.drawn || 0) + 1;
  const svg = draw('svg', { viewBox: `0 0 ${options.width} ${height}`, width: options.width, height, role: 'img', 'aria-labelledby': `t${number} d${number}`, class: 'picture' },
    draw('title', { id: `t${number}` }, `${options.name}: replicas over offsets`),
    draw('desc', { id: `d${number}` }, describe(detail, lanes)),
    patterns(), back, front, lines, over);
  return { svg, scale, lanes: placed, epochs };
}

const covers = (row, offset) => offset >= (row.log_start_offset || 0) && offset < row.log_end_offset;

const heldBy = (row) => (row.log_end_offset > (row.log_start_offset || 0) ? `${shown(row.log_start_offset)} to ${row.log_end_offset - 1}` : 'empty');

function laneName(row, y, left, narrow, reference) {
  const held = heldBy(row);
  if (narrow) {
    return draw('text', { x: left, y: y - 5 }, draw('tspan', { class: 'name' }, `broker ${row.broker_id}`),
      draw('tspan', { class: 'role', dx: 6 }, `${roleOf(row, reference)} · ${held}`));
  }
  return draw('g', { class: 'side' },
    draw('text', { class: 'name', x: left - 12, y: y + 11 }, `broker ${row.broker_id}`),
    draw('text', { class: 'role', x: left - 12, y: y + 24 }, roleOf(row, reference)),
    draw('text', { class: 'role', x: left - 12, y: y + 37 }, held));
}

// The bar of a replica: its epochs, then what differs, is damaged, and will be dropped.
function laneBar(detail, row, y, scale, epochs, protocol) {
  const parts = [];
  const labels = [];
  for (const { epoch, start, end } of stretches(row)) {
    const x = scale.at(start);
    const width = Math.max(1.5, scale.at(end) - x);
    const colour = epoch === null ? 'e-none' : `e${epochs.indexOf(epoch) % 8}`;
    parts.push(draw('rect', { class: `epoch ${colour}`, x, y, width: Math.max(1, width - 1), height: LANE, rx: 2 },
      draw('title', null, `broker ${row.broker_id}, ${epoch === null ? 'no epoch' : `epoch ${epoch}`}: ${offsets(start, end)}`)));
    const label = epoch === null ? 'no epoch' : width > 66 ? `epoch ${epoch}` : String(epoch);
    if (width > label.length * 7 + 8) labels.push(draw('text', { class: 'ep', x: x + 7, y: y + 17 }, label));
  }
  if (!parts.length) parts.push(draw('line', { class: 'nothing', x1: scale.left, x2: scale.right, y1: y + LANE / 2, y2: y + LANE / 2 }));
  const cut = truncation(detail, row, protocol);
  for (const run of detail.divergences.filter((item) => item.broker_id === row.broker_id)) {
    const hidden = cut && typeof cut.truncate_to === 'number' && run.start_offset < cut.truncate_to;
    const kind = hidden ? 'hidden' : run.committed ? 'lost' : 'differs';
    const x = scale.at(run.start_offset);
    parts.push(draw('rect', { class: `run ${kind}`, x, y, width: Math.max(3, scale.at(run.end_offset) - x), height: LANE },
      draw('title', null, `broker ${row.broker_id}, ${offsets(run.start_offset, run.end_offset)}: ${run.code}, ${count(run.record_count, 'record')}${run.committed ? ', committed' : ''}`)));
  }
  for (const bad of damages(detail).filter((item) => item.broker_id === row.broker_id)) {
    const x = scale.at(bad.start_offset);
    const width = known(bad.end_offset) ? Math.max(4, scale.at(bad.end_offset) - x) : 4;
    parts.push(draw('rect', { class: 'damage', x, y: y + 2, width, height: LANE - 4 }, draw('title', null, `${bad.code}: ${bad.message}`)));
  }
  if (cut && cut.truncate_to < row.log_end_offset) {
    const x = scale.at(Math.max(cut.truncate_to, row.log_start_offset || 0));
    parts.push(draw('rect', { class: 'dropped', x, y: y - 3, width: Math.max(3, scale.at(row.log_end_offset) - x), height: LANE + 6 }));
  }
  const text = row.log_end_offset > 0 || !parts.length ? shown(row.log_end_offset) : '0';
  parts.push(...labels, draw('text', { class: 'end', x: scale.at(row.log_end_offset || 0) + 7, y: y + 17 }, text));
  return parts;
}

function truncation(detail, row, protocol) {
  return detail.truncations.find((item) => item.broker_id === row.broker_id && item.protocol === protocol && typeof item.truncate_to === 'number');
}

function breakMark(x, y) {
  return draw('g', { class: 'break' }, draw('path', { class: 'gap', d: `M${x - 4} ${y + LANE + 2}l4 -${LANE + 4}h5l-4 ${LANE + 4}z` }),
    draw('path', { d: `M${x - 4} ${y + LANE + 2}l4 -${LANE + 4}m5 0l-4 ${LANE + 4}` }));
}

function patterns() {
  const hatch = (id, cls, angle, width) => draw('pattern', { id, width: 7, height: 7, patternUnits: 'userSpaceOnUse', patternTransform: `rotate(${angle})` },
    draw('line', { class: cls, x1: 0, y1: 0, x2: 0, y2: 7, 'stroke-width': width }));
  return draw('defs', null, hatch('h-lost', 'hatch-bad', 45, 4.4), hatch('h-differs', 'hatch-warn', 45, 3), hatch('h-damage', 'hatch-dark', -45, 2.4));
}

// The picture in words, for those who do not see it.
function describe(detail, lanes) {
  const parts = lanes.map((row) => `Broker ${row.broker_id} (${row.is_leader ? 'leader' : 'follower'}) holds ${shown(row.log_start_offset)} to ${shown(row.log_end_offset)}.`);
  for (const run of detail.divergences.slice(0, 20)) parts.push(`Broker ${run.broker_id} differs at ${offsets(run.start_offset, run.end_offset)}${run.committed ? ', committed' : ''}.`);
  for (const row of detail.high_watermarks) parts.push(`High watermark ${interval(row.hw_lower, row.hw_upper)}.`);
  return parts.join(' ');
}
