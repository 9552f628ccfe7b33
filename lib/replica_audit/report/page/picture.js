// The picture of a partition: one lane for each replica over offsets.
const LANE = 26;

// Where the files of a replica begin: above its log start where older segments are in remote storage only.
const begins = (row) => row.local_start_offset ?? row.log_start_offset ?? 0;

// Epochs of one replica as [{epoch, start, end}…], cut to what the log holds.
function stretches(row) {
  const start = begins(row);
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

// What a replica is here, where that is not plain; `detail.js` and the lanes say it in the same words.
const ROLES = { reference: 'reference, not the leader', foreign: 'another topic id', duplicate: 'duplicate copy', set_aside: 'set aside', earlier: 'as collected before', future: 'on its way to another disk', stray: 'stray', delete: 'about to be deleted', deleted_segments: 'deleted segments' };

// True for the reference and the replicas that are compared with it; its runs and cuts are its own then, not those of another copy of the broker.
const isCompared = (row) => ['leader', 'reference', 'compared'].includes(row.role);

// What the others are compared with.
const comparedTo = (detail) => (detail.replicas.some((row) => row.is_leader) ? 'leader' : 'reference');

// Leader first, then those in sync, then the others, then copies that are not compared.
function lanesOf(detail) {
  const rank = (row) => (!isCompared(row) ? 3 : row.is_leader || row.role === 'reference' ? 0 : row.in_isr ? 1 : 2);
  return [...detail.replicas].sort((one, other) => rank(one) - rank(other) || one.broker_id - other.broker_id);
}

function roleOf(row) {
  if (!isCompared(row)) return ROLES[row.role];
  const parts = [row.is_leader ? 'leader' : ROLES[row.role]];
  parts.push(row.in_isr === null ? 'in sync?' : row.in_isr ? 'in sync' : 'not in sync');
  return parts.filter(Boolean).join(' · ');
}

const covers = (row, offset) => offset >= begins(row) && offset < row.log_end_offset;

const heldBy = (row) => (row.log_end_offset > begins(row) ? `${begins(row)} to ${row.log_end_offset - 1}` : 'empty');

// Segments that remote storage has, or is about to have or to lose, oldest first.
const remoteOf = (detail) => detail.remote_segments.filter((one) => one.lineage !== 'other_topic');

// [{epoch, start, end, served}…] of a segment: a replica that leads serves the parts that have its own epochs, from its log start to its log end.
function remoteParts(row, segment) {
  const own = row.checkpoint_epochs && row.checkpoint_epochs.length ? row.checkpoint_epochs : row.epochs || [];
  const found = [];
  segment.epochs.forEach(([epoch, from], index) => {
    const last = index + 1 < segment.epochs.length ? segment.epochs[index + 1][1] : segment.end_offset;
    const edges = [from, ...own.map(([, start]) => start), row.log_start_offset, row.log_end_offset, last].filter((edge) => typeof edge === 'number' && edge >= from && edge <= last);
    const sorted = [...new Set(edges)].sort((one, other) => one - other);
    for (let at = 0; at + 1 < sorted.length; at += 1) {
      const [start, end] = [sorted[at], sorted[at + 1]];
      const here = own.filter(([, begin]) => begin <= start).pop();
      const served = segment.state !== 'copy_started' && here !== undefined && here[0] === epoch && start >= (row.log_start_offset || 0) && end <= row.log_end_offset;
      const before = found[found.length - 1];
      if (before && before.epoch === epoch && before.served === served) before.end = end;
      else found.push({ epoch, start, end, served });
    }
  });
  return found;
}

// What remote storage has, above the lane of a replica: coloured as far as the replica would serve it, and above that what
// it would not. Returns the height that it takes.
const TIER = 9;

const hasUnserved = (detail, row) => remoteOf(detail).some((one) => remoteParts(row, one).some(({ served }) => !served));

function tierBar({ scale, layers, epochs }, detail, row, top) {
  const parts = [];
  if (!remoteOf(detail).length || !isCompared(row)) return 0;
  const low = hasUnserved(detail, row) ? top + TIER + 3 : top;
  for (const segment of remoteOf(detail)) {
    for (const { epoch, start, end, served } of remoteParts(row, segment)) {
      const x = scale.at(start);
      const colour = epochs.includes(epoch) ? `e${epochs.indexOf(epoch) % 8}` : 'e-none';
      const state = { copy_started: ', being copied', delete_started: ', being deleted' }[segment.state] || '';
      parts.push(draw('rect', { class: served ? `epoch ${colour}` : `tier ${segment.state === 'copy_finished' ? 'left' : 'passing'}`, x, y: served ? low : top, width: Math.max(1.5, scale.at(end) - x - 1), height: TIER, rx: 2 },
        draw('title', null, `remote storage, epoch ${epoch}: ${offsets(start, end)}${state}; ${served ? `of the history of broker ${row.broker_id}` : `broker ${row.broker_id} as leader would not serve it`}`)));
    }
  }
  layers.bars.append(draw('g', { class: 'remote' }, parts));
  return low - top + TIER + 5;
}

// options: {width, name, protocol, focus}. Returns {svg, scale, lanes, epochs}.
function drawPicture(detail, options) {
  const narrow = options.width < 620;
  const lanes = lanesOf(detail);
  const names = lanes.map((row) => [`broker ${row.broker_id}`, roleOf(row), heldBy(row)]);
  const side = Math.max(0, ...names.map(([name, ...notes]) => Math.max(widthOf(name, 'name'), ...notes.map((note) => widthOf(note, 'role')))));
  const left = narrow ? 8 : Math.max(110, side + 26);
  const ends = Math.max(24, ...lanes.map((row) => Math.max(widthOf(shown(row.log_end_offset), 'end'), narrow ? 0 : widthOf(`HW ${row.high_watermark_checkpoint} →`, 'hw'))));
  const board = makeBoard(options.width);
  const scale = makeScale(keyOffsets(detail), left, options.width - ends - 14, options.focus);
  const stored = remoteOf(detail);
  const named = [...lanes, ...stored].flatMap((row) => (row.epochs || []).map(([epoch]) => epoch));
  const epochs = [...new Set(named)].sort((one, other) => one - other);
  const layers = Object.fromEntries(['back', 'bars', 'lines', 'over'].map((name) => [name, draw('g', { class: name })]));
  // Lines over the whole height are drawn last: they make way for every label.
  const rules = [];
  const frame = { board, scale, layers, rules, options, epochs, top: 48, walls: [], bands: [] };
  watermark(frame, detail);
  const forkAt = firstDifference(detail);
  if (forkAt !== null) frame.walls.push(scale.at(forkAt));
  for (const tick of scale.ticks) {
    const label = board.near(String(tick), 'tick', scale.at(tick), frame.top - 14, 7);
    if (!label) continue;
    layers.back.append(label);
    rules.push([layers.back, { class: 'grid' }, scale.at(tick), frame.top - 8, null]);
  }
  let y = frame.top;
  const placed = lanes.map((row, index) => {
    const lane = { row, y: y + tierBar(frame, detail, row, y) + (narrow ? 20 : 0) };
    layers.over.append(laneName(board, names[index], lane.y, left, narrow));
    laneBar(frame, detail, row, lane.y);
    const below = laneMarks(frame, detail, row, lane.y + LANE);
    y = lane.y + LANE + Math.max(below, narrow ? 0 : 14) + 10;
    return lane;
  });
  const bottom = y - 6;
  const foot = fork(frame, forkAt, detail, bottom);
  for (const x of scale.breaks) for (const lane of placed) if (covers(lane.row, scale.offset(x))) layers.over.append(breakMark(x, lane.y));
  for (const [cls, from, to] of frame.bands) layers.lines.append(draw('rect', { class: cls, x: from, y: frame.top - 8, width: to - from, height: bottom - frame.top + 8 }));
  for (const [layer, attributes, x, from, to] of rules) layer.append(...board.rule(attributes, x, from, to === null ? bottom : to));
  const height = bottom + foot + 8;
  const number = drawPicture.drawn = (drawPicture.drawn || 0) + 1;
  const svg = draw('svg', { viewBox: `0 0 ${options.width} ${height}`, width: options.width, height, role: 'img', 'aria-labelledby': `t${number} d${number}`, class: 'picture' },
    draw('title', { id: `t${number}` }, `${options.name}: replicas over offsets`),
    draw('desc', { id: `d${number}` }, describe(detail, lanes)),
    Object.values(layers));
  return { svg, scale, lanes: placed, epochs };
}

function laneName(board, [name, role, held], y, left, narrow) {
  const lines = narrow
    ? [[name, 'name', 1, y - 6, 'start'], [[`${role} · ${held}`, role].find((text) => widthOf(name + text, 'name') < board.width - 12) || '', 'role', widthOf(name, 'name') + 9, y - 6, 'start']]
    : [[name, 'name', left - 12, y + 11, 'end'], [role, 'role', left - 12, y + 25, 'end'], [held, 'role', left - 12, y + 38, 'end']];
  return draw('g', { class: 'side' }, lines.map(([text, cls, x, baseline, anchor]) => board.put(text, cls, board.boxOf(text, cls, x, baseline, anchor), baseline)));
}

// The bar of a replica: its epochs, then what differs, is damaged, and will be dropped; labels last, on nothing.
function laneBar({ board, scale, layers, options, epochs, walls }, detail, row, y) {
  const colour = (epoch) => (epoch === null ? 'e-none' : `e${epochs.indexOf(epoch) % 8}`);
  const parts = [];
  const bars = stretches(row).map(({ epoch, start, end }) => ({ epoch, start, end, x: scale.at(start), width: Math.max(1.5, scale.at(end) - scale.at(start)) }));
  for (const { epoch, start, end, x, width } of bars) {
    parts.push(draw('rect', { class: `epoch ${colour(epoch)}`, x, y, width: Math.max(1, width - 1), height: LANE, rx: 2 },
      draw('title', null, `broker ${row.broker_id}, ${epoch === null ? 'no epoch' : `epoch ${epoch}`}: ${offsets(start, end)}`)));
  }
  if (!parts.length) parts.push(draw('line', { class: 'nothing', x1: scale.left, x2: scale.right, y1: y + LANE / 2, y2: y + LANE / 2 }));
  const own = isCompared(row);
  const cut = own ? truncation(detail, row, options.protocol) : undefined;
  const covered = [];
  const cover = (from, to, least, node) => {
    const x = scale.at(from);
    const width = Math.max(least, known(to) ? scale.at(to) - x : least);
    covered.push([x, x + width]);
    parts.push(fill(node, { x, width }, []));
  };
  for (const run of detail.divergences.filter((item) => own && item.broker_id === row.broker_id)) {
    const hidden = cut && typeof cut.truncate_to === 'number' && run.start_offset < cut.truncate_to;
    cover(run.start_offset, run.end_offset, 3, draw('rect', { class: `run ${hidden ? 'hidden' : run.committed ? 'lost' : 'differs'}`, y, height: LANE },
      draw('title', null, `broker ${row.broker_id}, ${offsets(run.start_offset, run.end_offset)}: ${run.code}, ${count(run.record_count, 'record')}${run.committed ? ', committed' : ''}`)));
  }
  for (const bad of damages(detail).filter((item) => own && item.broker_id === row.broker_id)) {
    cover(bad.start_offset, bad.end_offset, 4, draw('rect', { class: 'damage', y: y + 2, height: LANE - 4 }, draw('title', null, `${bad.code}: ${bad.message}`)));
  }
  if (cut && cut.truncate_to < row.log_end_offset) {
    const x = scale.at(Math.max(cut.truncate_to, row.log_start_offset || 0));
    parts.push(draw('rect', { class: 'dropped', x, y: y - 3, width: Math.max(3, scale.at(row.log_end_offset) - x), height: LANE + 6 }));
  }
  const edges = [...walls, ...covered.flat(), ...scale.breaks, ...cutsOf(detail, row).map(([offset]) => scale.at(offset))];
  for (const { epoch, x, width } of bars) {
    const spot = epochLabel(board, epoch, x, width, y + 17, edges);
    if (!spot) continue;
    // On hatching a text cannot be read: it gets ground of the epoch's own colour.
    if (covered.some(([from, to]) => from < spot.box.right && spot.box.left < to)) {
      parts.push(draw('rect', { class: `ep-back ${colour(epoch)}`, x: spot.box.left - 3, y: y + 5, width: spot.box.right - spot.box.left + 6, height: LANE - 10, rx: 3 }));
    }
    parts.push(board.put(spot.text, 'ep', spot.box, y + 17));
  }
  const end = shown(row.log_end_offset);
  parts.push(board.put(end, 'end', board.boxOf(end, 'end', scale.at(row.log_end_offset || 0) + 7, y + 17, 'start'), y + 17));
  layers.bars.append(draw('g', { class: own ? null : 'aside' }, parts));
}

// Where the name of an epoch fits into its bar without an edge through it; null where it does not.
function epochLabel(board, epoch, x, width, y, edges) {
  for (const text of epoch === null ? ['no epoch'] : [`epoch ${epoch}`, String(epoch)]) {
    for (const from of [x, ...edges.filter((edge) => edge > x && edge < x + width).sort((one, other) => one - other)]) {
      const box = board.boxOf(text, 'ep', from + 7, y, 'start');
      const clear = edges.every((edge) => edge <= box.left - 4 || edge >= box.right + 4);
      if (clear && box.right + 4 < x + width) return { text, box };
    }
  }
  return null;
}

function truncation(detail, row, protocol) {
  return detail.truncations.find((item) => item.broker_id === row.broker_id && item.protocol === protocol && typeof item.truncate_to === 'number');
}

function breakMark(x, y) {
  return draw('g', { class: 'break' }, draw('path', { class: 'gap', d: `M${x - 4} ${y + LANE + 2}l4 -${LANE + 4}h5l-4 ${LANE + 4}z` }),
    draw('path', { d: `M${x - 4} ${y + LANE + 2}l4 -${LANE + 4}m5 0l-4 ${LANE + 4}` }));
}

// Hatching of all pictures, once in the page.
function patterns() {
  const hatch = (id, cls, angle, width) => draw('pattern', { id, width: 7, height: 7, patternUnits: 'userSpaceOnUse', patternTransform: `rotate(${angle})` },
    draw('line', { class: cls, x1: 0, y1: 0, x2: 0, y2: 7, 'stroke-width': width }));
  const fade = draw('linearGradient', { id: 'h-open' }, draw('stop', { class: 'open-from', offset: 0 }), draw('stop', { class: 'open-to', offset: 1 }));
  return draw('svg', { class: 'hide', 'aria-hidden': 'true' }, draw('defs', null, fade, hatch('h-lost', 'hatch-bad', 45, 4.4), hatch('h-differs', 'hatch-warn', 45, 3), hatch('h-damage', 'hatch-dark', -45, 2.4)));
}

// The picture in words, for those who do not see it.
function describe(detail, lanes) {
  const parts = lanes.map((row) => `Broker ${row.broker_id} (${roleOf(row)}) holds ${begins(row)} to ${shown(row.log_end_offset)}.`);
  const stored = remoteOf(detail);
  if (stored.length) parts.push(`Remote storage has ${count(stored.length, 'segment')}, by __remote_log_metadata.`);
  for (const one of stored.filter((segment) => segment.lineage === 'left').slice(0, 20)) parts.push(`Its segment ${offsets(one.start_offset, one.end_offset)} is of another history from ${one.parted_at} on.`);
  for (const run of detail.divergences.slice(0, 20)) parts.push(`Broker ${run.broker_id} differs at ${offsets(run.start_offset, run.end_offset)}${run.committed ? ', committed' : ''}.`);
  for (const row of detail.high_watermarks) parts.push(`High watermark ${interval(row.hw_lower, row.hw_upper)}.`);
  return parts.join(' ');
}

// Offsets at which something begins, ends or is marked, each with how much its label matters (greater goes first).
function keyOffsets(detail) {
  const keys = new Map();
  const add = (value, weight) => {
    if (typeof value === 'number' && Number.isFinite(value)) keys.set(value, Math.max(weight, keys.get(value) || 0));
  };
  for (const row of detail.divergences) {
    add(row.start_offset, 6);
    add(row.end_offset, 5);
  }
  for (const row of detail.replicas) {
    add(row.log_start_offset, 3);
    add(begins(row), 3);
    add(row.log_end_offset, 5);
    if (row.high_watermark_checkpoint !== 0) add(row.high_watermark_checkpoint, 4);
    for (const [, start] of row.epochs || []) add(Math.max(start, begins(row)), 2);
  }
  for (const one of remoteOf(detail)) {
    add(one.start_offset, 1);
    add(one.end_offset, 1);
  }
  for (const row of detail.high_watermarks) {
    add(row.hw_lower, 5);
    add(row.hw_upper, 5);
  }
  for (const row of detail.truncations) if (row.dropped_records || row.truncate_to !== row.common_prefix_end) add(row.truncate_to, 4);
  for (const row of damages(detail)) {
    add(row.start_offset, 4);
    add(row.end_offset, 4);
  }
  return keys;
}

// Findings that say where one replica's own files are bad or missing; what differs from the leader is drawn as such.
function damages(detail) {
  const differs = (row) => detail.divergences.some((run) => run.broker_id === row.broker_id && row.start_offset >= run.start_offset && row.start_offset < run.end_offset);
  return detail.findings.filter((row) => /^(LOG|DIV-CORRUPT|EPO|CAP-MISSING-SEGMENT)/.test(row.code) && row.severity !== 'info' && row.status !== 'resolved'
    && known(row.broker_id) && typeof row.start_offset === 'number' && typeof row.end_offset === 'number' && !(row.code.startsWith('EPO') && differs(row)));
}

// What is marked on the lanes: checkpoints, cuts of each protocol, the recomputed high watermark, the first difference.
const ROW = 14;

// Where the protocols cut one replica: [[offset, names]…]; those that cut nothing and leave nothing different are left out.
function cutsOf(detail, row) {
  const cuts = new Map();
  for (const item of detail.truncations.filter((one) => isCompared(row) && one.broker_id === row.broker_id)) {
    const notable = item.dropped_records > 0 || item.truncate_to !== item.common_prefix_end;
    if (typeof item.truncate_to === 'number' && notable) cuts.set(item.truncate_to, [...(cuts.get(item.truncate_to) || []), item.protocol]);
  }
  return [...cuts];
}

// Whether a replica's checkpointed high watermark is drawn: 0 of an empty log says nothing.
const isMarked = (row) => typeof row.high_watermark_checkpoint === 'number' && (row.high_watermark_checkpoint > 0 || row.log_end_offset > 0);

// Marks below one lane whose bar ends at y; returns the height that they take.
function laneMarks({ board, scale, layers, rules, options, walls }, detail, row, y) {
  const marks = [];
  if (isMarked(row)) {
    const hw = row.high_watermark_checkpoint;
    marks.push({ x: scale.at(hw), cls: 'hw', text: `HW ${hw}${hw > scale.high ? ' →' : ''}` });
  }
  for (const [offset, names] of cutsOf(detail, row)) {
    const all = names.length === PROTOCOLS.length ? 'every protocol' : PROTOCOLS.filter(([key]) => names.includes(key)).map(([, name]) => name).join(', ');
    const what = offset >= row.log_end_offset ? 'cuts nothing' : `cut ${offset}`;
    const chosen = names.includes(options.protocol);
    const text = `${what} · ${all}`;
    const fits = widthOf(text, 'chosen') < board.width - 4;
    marks.push({ x: scale.at(Math.max(offset, row.log_start_offset || 0)), cls: 'cut', chosen, text: fits ? text : what });
  }
  // What is drawn at a mark is there before any label, so that no label lies on it.
  for (const { x, cls } of marks) board.take(cls === 'hw' ? { left: x - 5, right: x + 5, top: y + 4, bottom: y + 14, mark: true } : { left: x - 4, right: x + 4, top: y, bottom: y + 13, mark: true });
  const stems = marks.filter(({ cls }) => cls === 'cut').map(({ x }) => x);
  let lowest = 0;
  for (const { x, cls, text, chosen } of marks.sort((one, other) => one.x - other.x)) {
    const { node, level } = putBeside(board, text, chosen ? 'chosen' : cls, x, y + 15.5, ROW, [...walls, ...stems]);
    if (cls === 'hw') layers.over.append(draw('path', { class: 'hw', d: `M${x} ${y + 4.5}l-5 9h10z` }));
    const kind = chosen ? `${cls} chosen` : cls;
    if (cls === 'cut') layers.over.append(draw('path', { class: kind, d: `M${x} ${y - LANE - 5}V${y + 12}M${x - 4} ${y + 12}h8` }));
    // A label on a lower line is led to its mark.
    if (level) rules.push([layers.over, { class: `stem ${kind}` }, x, y + 14, y + 10 + level * ROW]);
    if (chosen) node.classList.add('cut');
    node.classList.add('mark');
    layers.over.append(node);
    lowest = Math.max(lowest, level + 1);
  }
  return lowest ? lowest * ROW + 7 : 0;
}

// The recomputed high watermark: a line, a band where it is an interval, a band that fades where nothing bounds it above.
function watermark({ board, scale, layers, rules, bands, walls }, detail) {
  for (const row of detail.high_watermarks.filter((one) => typeof one.hw_lower === 'number' && typeof (one.hw_upper ?? 0) === 'number')) {
    const open = !known(row.hw_upper);
    const from = scale.at(row.hw_lower);
    // What nothing bounds goes on in the margin beyond the last offset.
    const to = open ? scale.right + 40 : scale.at(row.hw_upper);
    if (to - from > 1) bands.push([open ? 'band open' : 'band', from, to]);
    for (const x of new Set(open ? [from] : [from, to])) {
      rules.push([layers.lines, { class: 'recomputed' }, x, 18, null]);
      walls.push(x);
    }
    const where = interval(row.hw_lower, row.hw_upper);
    const text = [`high watermark ${where}`, `HW ${where}`].find((one) => widthOf(one, 'recomputed') < board.width - 4) || `HW ${row.hw_lower}`;
    const label = board.near(text, 'recomputed', open ? from : (from + to) / 2, 13, 0);
    if (label) layers.over.append(label);
  }
}

// The least offset at which a replica differs from the reference; null where none does.
function firstDifference(detail) {
  const starts = detail.divergences.map((row) => Number(row.start_offset));
  return starts.length ? starts.reduce((least, start) => Math.min(least, start)) : null;
}

// Where the histories part; returns the height that its label takes.
function fork({ board, scale, layers, rules, top }, start, detail, bottom) {
  if (start === null) return 0;
  const x = scale.at(start);
  rules.push([layers.lines, { class: 'fork' }, x, top - 8, bottom + 8]);
  layers.over.append(putBeside(board, `first difference at ${start}`, 'fork', x, bottom + 14, ROW, []).node);
  return 18;
}

// Only what occurs is explained.
function legend(detail, protocol) {
  const stays = (run) => {
    const cut = truncation(detail, run, protocol);
    return cut && run.start_offset < cut.truncate_to;
  };
  const hidden = detail.divergences.some(stays);
  const committed = detail.divergences.some((run) => run.committed && !stays(run));
  const differing = detail.divergences.some((run) => !run.committed && !stays(run));
  const dropped = detail.truncations.some((row) => row.protocol === protocol && row.dropped_records);
  const [mark] = detail.high_watermarks;
  const open = mark && known(mark.hw_lower) && !known(mark.hw_upper);
  const compared = comparedTo(detail);
  const stored = remoteOf(detail);
  const unserved = detail.replicas.some((row) => isCompared(row) && hasUnserved(detail, row));
  return el('p', { class: 'legend' },
    detail.replicas.some((row) => stretches(row).some(({ epoch }) => epoch !== null)) && legendKey('k-epoch', 'leader epochs, a colour each'),
    mark && known(mark.hw_lower) && legendKey(open ? 'k-open' : 'k-recomputed', open ? 'high watermark, recomputed: here or further on' : 'high watermark, recomputed'),
    detail.replicas.some(isMarked) && legendKey('k-hw', 'high watermark in the checkpoint file'),
    committed && legendKey('k-lost', `committed, not what the ${compared} has`),
    differing && legendKey('k-differs', `not what the ${compared} has`),
    hidden && legendKey('k-hidden', 'differs and stays, unseen'),
    damages(detail).length > 0 && legendKey('k-damage', 'damaged, missing or contradictory'),
    stored.length > 0 && legendKey('k-tier', 'in remote storage, by __remote_log_metadata'),
    unserved && legendKey('k-tier-left', 'in remote storage, and the broker as leader would not serve it'),
    dropped && legendKey('k-dropped', `dropped by ${protocolName(protocol)}`),
    detail.replicas.some((row) => !isCompared(row)) && legendKey('k-aside', 'a copy that is not compared'));
}
