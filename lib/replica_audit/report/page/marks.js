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
  const key = (cls, text) => el('span', { class: 'key' }, el('i', { class: cls, 'aria-hidden': 'true' }), text);
  return el('p', { class: 'legend' },
    detail.replicas.some((row) => stretches(row).some(({ epoch }) => epoch !== null)) && key('k-epoch', 'leader epochs, a colour each'),
    mark && known(mark.hw_lower) && key(open ? 'k-open' : 'k-recomputed', open ? 'high watermark, recomputed: here or further on' : 'high watermark, recomputed'),
    detail.replicas.some(isMarked) && key('k-hw', 'high watermark in the checkpoint file'),
    committed && key('k-lost', `committed, not what the ${compared} has`),
    differing && key('k-differs', `not what the ${compared} has`),
    hidden && key('k-hidden', 'differs and stays, unseen'),
    damages(detail).length > 0 && key('k-damage', 'damaged or contradictory'),
    dropped && key('k-dropped', `dropped by ${protocolName(protocol)}`),
    detail.replicas.some((row) => !isCompared(row)) && key('k-aside', 'a copy that is not compared'));
}
