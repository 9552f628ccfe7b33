// What is marked on the lanes: checkpoints, cuts of each protocol, the recomputed high watermark, the fork.

// Where a label beside x goes: to its right, else to its left, else as far to the right as there is room.
function besides(x, text, width, weight) {
  const length = text.length * (weight || 6.9);
  if (x + 9 + length <= width) return { x: x + 9, anchor: 'start', from: x, to: x + 9 + length };
  if (x - 9 - length >= 0) return { x: x - 9, anchor: 'end', from: x - 9 - length, to: x };
  const start = Math.max(2, width - length - 2);
  return { x: start, anchor: 'start', from: start, to: start + length };
}

// Marks below one lane; returns the height that they take.
function laneMarks(layer, detail, row, y, scale, options) {
  const labels = [];
  const hw = row.high_watermark_checkpoint;
  if (typeof hw === 'number' && (hw > 0 || row.log_end_offset > 0)) {
    labels.push({ x: scale.at(hw), text: `HW ${hw}${hw > scale.high ? ' →' : ''}`, cls: 'hw', shape: (x) => draw('path', { class: 'hw', d: `M${x} ${y + 2}l-5 9h10z` }) });
  }
  const cuts = new Map();
  for (const item of detail.truncations.filter((one) => one.broker_id === row.broker_id)) {
    const notable = item.dropped_records > 0 || item.truncate_to !== item.common_prefix_end;
    if (typeof item.truncate_to === 'number' && notable) cuts.set(item.truncate_to, [...(cuts.get(item.truncate_to) || []), item.protocol]);
  }
  for (const [offset, names] of cuts) {
    const chosen = names.includes(options.protocol);
    const all = names.length === PROTOCOLS.length ? 'every protocol' : PROTOCOLS.filter(([key]) => names.includes(key)).map(([, name]) => name).join(', ');
    const cls = chosen ? 'cut chosen' : 'cut';
    labels.push({
      x: scale.at(Math.max(offset, row.log_start_offset || 0)),
      text: offset >= row.log_end_offset ? `cuts nothing · ${all}` : `cut ${offset} · ${all}`,
      cls,
      shape: (x) => draw('path', { class: cls, d: `M${x} ${y - LANE - 5}V${y + 9}M${x - 4} ${y + 9}h8` }),
    });
  }
  const rows = [];
  for (const label of labels.sort((one, other) => one.x - other.x)) {
    const spot = besides(label.x, label.text, options.width, label.cls === 'cut' ? 6.9 : 7.5);
    let level = rows.findIndex((reach) => reach.every(([start, end]) => spot.from > end + 8 || spot.to + 8 < start));
    if (level < 0) level = rows.push([]) - 1;
    rows[level].push([spot.from, spot.to]);
    layer.append(label.shape(label.x), draw('text', { class: `mark ${label.cls}`, x: spot.x, y: y + 12 + level * 14, 'text-anchor': spot.anchor }, label.text));
  }
  return Math.max(rows.length * 14, 12) + 4;
}

// The recomputed high watermark: a line, or a band where it is an interval.
function watermark(lines, labels, detail, scale, top, bottom) {
  for (const row of detail.high_watermarks.filter((one) => typeof one.hw_lower === 'number' && typeof one.hw_upper === 'number')) {
    const from = scale.at(row.hw_lower);
    const to = scale.at(row.hw_upper);
    const end = from > scale.left + (scale.right - scale.left) / 2;
    if (to - from > 1) lines.append(draw('rect', { class: 'band', x: from, y: top - 8, width: to - from, height: bottom - top + 8 }));
    for (const x of new Set([from, to])) lines.append(draw('line', { class: 'recomputed', x1: x, x2: x, y1: top - 8, y2: bottom }));
    labels.append(draw('text', { class: 'recomputed', x: end ? to : from, y: 14, 'text-anchor': end ? 'end' : 'start' }, `high watermark ${interval(row.hw_lower, row.hw_upper)}`));
    lines.append(draw('path', { class: 'recomputed-lead', d: `M${end ? to : from} 18V${top - 30}` }));
  }
}

// Where the histories part; returns the height that its label takes.
function fork(lines, labels, detail, scale, top, bottom, width) {
  if (!detail.divergences.length) return 0;
  const start = detail.divergences.reduce((least, row) => Math.min(least, Number(row.start_offset)), Infinity);
  const x = scale.at(start);
  const hidden = detail.divergences.some((row) => row.code === 'DIV-HIDDEN');
  const text = hidden ? `${start} · from here on they differ` : `${start} · all replicas agree up to here`;
  const spot = besides(x, text, width);
  lines.append(draw('line', { class: 'fork', x1: x, x2: x, y1: top - 8, y2: bottom + 8 }));
  labels.append(draw('text', { class: 'fork', x: spot.x, y: bottom + 14, 'text-anchor': spot.anchor }, text));
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
  const key = (cls, text) => el('span', { class: 'key' }, el('i', { class: cls, 'aria-hidden': 'true' }), text);
  return el('p', { class: 'legend' },
    key('k-epoch', 'leader epochs, a colour each'),
    key('k-recomputed', 'high watermark, recomputed'),
    detail.replicas.some((row) => known(row.high_watermark_checkpoint)) && key('k-hw', 'high watermark in the checkpoint file'),
    committed && key('k-lost', 'committed, not what the leader has'),
    differing && key('k-differs', 'not what the leader has'),
    hidden && key('k-hidden', 'differs and stays, unseen'),
    damages(detail).length > 0 && key('k-damage', 'damaged or contradictory'),
    dropped && key('k-dropped', `dropped by ${protocolName(protocol)}`));
}
