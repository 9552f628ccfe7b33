// What is marked on the lanes: checkpoints, cuts of each protocol, the recomputed high watermark, the fork.

// Marks below one lane; returns the height that they take.
function laneMarks(layer, detail, row, y, scale, protocol) {
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
    const chosen = names.includes(protocol);
    const all = names.length === PROTOCOLS.length ? 'every protocol' : PROTOCOLS.filter(([key]) => names.includes(key)).map(([, name]) => name).join(', ');
    const at = scale.at(Math.max(offset, row.log_start_offset || 0));
    labels.push({
      x: at,
      text: `cut ${offset} · ${all}`,
      cls: chosen ? 'cut chosen' : 'cut',
      shape: (x) => draw('path', { class: chosen ? 'cut chosen' : 'cut', d: `M${x} ${y - LANE - 5}V${y + 9}M${x - 4} ${y + 9}h8` }),
    });
  }
  const rows = [];
  for (const label of labels.sort((one, other) => one.x - other.x)) {
    const width = label.text.length * 6 + 16;
    const before = label.x + width > scale.right + 56;
    const from = before ? label.x - width : label.x;
    let level = rows.findIndex((reach) => reach.every(([start, end]) => from > end || from + width < start));
    if (level < 0) level = rows.push([]) - 1;
    rows[level].push([from, from + width]);
    layer.append(label.shape(label.x));
    const x = before ? label.x - 9 : label.x + 9;
    layer.append(draw('text', { class: `mark ${label.cls}`, x, y: y + 12 + level * 14, 'text-anchor': before ? 'end' : 'start' }, label.text));
  }
  return Math.max(rows.length * 14, 12) + 4;
}

// The recomputed high watermark: a line, or a band where it is an interval.
function watermark(detail, scale, top, bottom) {
  return detail.high_watermarks.filter((row) => typeof row.hw_lower === 'number' && typeof row.hw_upper === 'number').flatMap((row) => {
    const from = scale.at(row.hw_lower);
    const to = scale.at(row.hw_upper);
    const text = `high watermark ${interval(row.hw_lower, row.hw_upper)}`;
    const end = from > scale.left + (scale.right - scale.left) / 2;
    const band = to - from > 1 ? [draw('rect', { class: 'band', x: from, y: top - 8, width: to - from, height: bottom - top + 8 })] : [];
    return [...band, ...[...new Set([from, to])].map((x) => draw('line', { class: 'recomputed', x1: x, x2: x, y1: top - 8, y2: bottom })),
      draw('text', { class: 'recomputed', x: end ? to : from, y: 14, 'text-anchor': end ? 'end' : 'start' }, text),
      draw('path', { class: 'recomputed-lead', d: `M${end ? to : from} 18V${top - 30}` })];
  });
}

// Where the histories part; returns the height that its label takes.
function fork(layer, detail, scale, top, bottom) {
  if (!detail.divergences.length) return 0;
  const start = Math.min(...detail.divergences.map((row) => Number(row.start_offset)));
  const x = scale.at(start);
  const end = x > (scale.left + scale.right) / 2;
  const hidden = detail.divergences.some((row) => row.code === 'DIV-HIDDEN');
  const text = hidden ? `${start} · from here on they differ` : `${start} · all replicas agree up to here`;
  layer.append(draw('line', { class: 'fork', x1: x, x2: x, y1: top - 8, y2: bottom + 8 }));
  layer.append(draw('text', { class: 'fork', x: end ? x - 6 : x + 6, y: bottom + 14, 'text-anchor': end ? 'end' : 'start' }, text));
  return 18;
}

// Only what occurs is explained.
function legend(detail, protocol) {
  const committed = detail.divergences.some((row) => row.committed);
  const differing = detail.divergences.some((row) => !row.committed);
  const hidden = detail.divergences.some((row) => {
    const cut = truncation(detail, row, protocol);
    return cut && row.start_offset < cut.truncate_to;
  });
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
