// Who led and who was in sync over time, where a metadata log told it: a lane for each broker.
function drawLeadership(rows, width) {
  const states = rows.filter((row) => typeof row.time_ms === 'number' && row.source === 'metadata_log')
    .sort((one, other) => (one.entry || 0) - (other.entry || 0) || one.time_ms - other.time_ms);
  if (states.length < 2) return null;
  const brokers = [...new Set(states.flatMap((row) => [...(row.replicas || []), ...(row.isr || []), row.leader_id]).filter((id) => known(id) && id >= 0))].sort((one, other) => one - other);
  const first = states[0].time_ms;
  const last = states[states.length - 1].time_ms;
  const end = last + Math.max(1000, (last - first) / 6);
  const weights = new Map([...states.map((row) => [row.time_ms, row.leader_id]), [end, -1]].map(([ms, leader], index, all) => [ms, index && leader !== all[index - 1][1] ? 6 : 2]));
  const spansOf = (broker) => states.flatMap((state, index) => {
    const to = index + 1 < states.length ? states[index + 1].time_ms : end;
    const leads = state.leader_id === broker;
    const cls = leads ? 'leads' : (state.isr || []).includes(broker) ? 'insync' : (state.elr || []).includes(broker) ? 'eligible' : null;
    if (!cls || to <= state.time_ms) return [];
    const words = { leads: `leads in epoch ${state.leader_epoch}`, insync: 'in sync', eligible: 'eligible to lead' }[cls];
    // The epoch is said where it begins, and not again when only the others changed.
    const same = index && states[index - 1].leader_id === broker && states[index - 1].leader_epoch === state.leader_epoch;
    return [{ from: state.time_ms, to, cls, title: `broker ${broker} ${words} from ${time(state.time_ms)}`, text: leads && !same ? [`epoch ${state.leader_epoch}`, String(state.leader_epoch)] : [] }];
  });
  const { svg } = drawLanes(brokers.map((broker) => ({ name: `broker ${broker}`, spans: spansOf(broker) })), weights,
    { width, end, tick: (ms) => time(ms).slice(11, 23), label: `Leadership from ${time(first)} to ${time(last)}; the sentences below tell it` });
  const eligible = states.some((state) => (state.elr || []).length);
  return el('div', null, svg, el('p', { class: 'legend' }, legendKey('k-leads', 'leads'), legendKey('k-insync', 'in sync'), eligible && legendKey('k-eligible', 'eligible to lead, not in sync')));
}

// The high watermark over time, where observations told it: recomputed as steps, observed as points.
function drawTimeline(rows, width) {
  const points = rows.filter((row) => known(row.time_ms) && (typeof row.hw_recomputed === 'number' || typeof row.hw_observed === 'number'));
  if (points.length < 2) return null;
  points.sort((one, other) => one.time_ms - other.time_ms || (one.sequence || 0) - (other.sequence || 0));
  const values = points.flatMap((row) => [row.hw_recomputed, row.hw_observed]).filter((value) => typeof value === 'number');
  const low = Math.min(...values);
  const high = Math.max(...values, low + 1);
  const first = points[0].time_ms;
  const last = Math.max(points[points.length - 1].time_ms, first + 1);
  const board = makeBoard(width);
  const [left, right, top, bottom] = [Math.max(widthOf(String(low), 'tick'), widthOf(String(high), 'tick')) + 14, width - 24, 14, 150];
  const x = (ms) => left + ((ms - first) / (last - first)) * (right - left);
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
  let path = '';
  for (const row of points.filter((one) => typeof one.hw_recomputed === 'number')) {
    path += path ? `H${x(row.time_ms)}V${y(row.hw_recomputed)}` : `M${x(row.time_ms)} ${y(row.hw_recomputed)}`;
  }
  const svg = draw('svg', { viewBox: `0 0 ${width} 178`, width, height: 178, role: 'img', 'aria-label': `High watermark over time, ${low} to ${high}`, class: 'picture' });
  for (const value of [low, high]) {
    svg.append(draw('line', { class: 'grid', x1: left, x2: right, y1: y(value), y2: y(value) }), draw('text', { class: 'tick', x: left - 8, y: y(value) + 4, 'text-anchor': 'end' }, value));
  }
  svg.append(draw('path', { class: 'steps', d: path }));
  for (const row of points) {
    if (typeof row.hw_observed === 'number') {
      svg.append(draw('circle', { class: row.deviation ? 'observed deviates' : 'observed', cx: x(row.time_ms), cy: y(row.hw_observed), r: row.deviation ? 5 : 3 },
        draw('title', null, `${time(row.time_ms)}: observed ${row.hw_observed}, recomputed ${shown(row.hw_recomputed)}${row.deviation ? `, ${row.deviation}` : ''}`)));
    }
    if (row.occasion) {
      svg.append(draw('line', { class: 'occasion', x1: x(row.time_ms), x2: x(row.time_ms), y1: top, y2: bottom }, draw('title', null, `${time(row.time_ms)}: ${row.occasion}, leader ${shown(row.leader_id)}, in sync ${(row.isr || []).join(', ')}`)));
    }
  }
  const ends = [[time(first), left, 'start'], [time(last), right, 'end'], [time(last).slice(11), right, 'end']];
  for (const [text, at, anchor] of ends) {
    const box = board.boxOf(text, 'tick', at, 170, anchor);
    if (board.free(box, 12)) svg.append(board.put(text, 'tick', box, 170));
  }
  return svg;
}
