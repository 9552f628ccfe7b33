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

//: How a copy of the metadata log stands to the others.
const METADATA_STANDINGS = { used: 'answers go by it', agrees: 'agrees', apart: 'differs, and nothing tells which is right', stale: 'lacks what was committed', refused: 'cannot be the right one', empty: 'empty', unreadable: 'cannot be read' };

// The copies of the metadata log side by side: a lane for each over its offsets, in a colour for each controller's epoch.
function buildMetadataCopies(page) {
  const section = document.getElementById('metadata');
  const rows = page.metadata_logs;
  if (rows.length < 2) return;
  const named = (row) => `${row.is_voter ? 'controller' : 'node'} ${shown(row.broker_id)}`;
  const epochs = [...new Set(rows.flatMap((row) => row.epochs.map(({ leader_epoch: epoch }) => epoch)))].sort((one, other) => one - other);
  const keys = new Map();
  const add = (value, weight) => { if (typeof value === 'number') keys.set(value, Math.max(weight, keys.get(value) || 0)); };
  for (const row of rows) {
    add(row.start_offset, 3);
    add(row.end_offset, 5);
    add(row.parts_at, 6);
    add(row.proven_end, 4);
    for (const { start_offset: start } of row.epochs) add(start, 2);
  }
  const lanes = rows.map((row) => ({ name: named(row), row, spans: row.epochs.map(({ leader_epoch: epoch, start_offset: from, end_offset: to }) => ({
    from, to, cls: `e${epochs.indexOf(epoch) % 8}`, ink: 'ep', title: `${named(row)}, epoch ${epoch}: ${offsets(from, to)}`, text: [`epoch ${epoch}`, String(epoch)] })) }));
  const marksOf = ({ row }, scale) => [['parts_at', 'cross', 'unclean', 11], ['proven_end', 'up', 'elected', 25]].filter(([name]) => typeof row[name] === 'number')
    .map(([name, shape, cls, y]) => ({ x: scale.at(row[name]), y, size: 4, shape, cls }));
  const holder = el('div', { class: 'canvas' });
  drawnFor(holder, (width) => holder.replaceChildren(drawLanes(lanes, keys, { width, height: 22, marksOf, tick: String, label: 'Copies of the metadata log over its offsets; the table below tells them' }).svg));
  const sign = (shape, cls, words) => legendKey('', words, draw('svg', { width: 14, height: 14, viewBox: '0 0 14 14', 'aria-hidden': 'true', class: 'sign-key' }, markAt(shape, 7, 7, 4, cls)));
  const refused = rows.some((row) => row.refused.length);
  const cells = (row) => [[named(row), el('span', { class: 'soft' }, ' ', el('code', null, row.path))], METADATA_STANDINGS[row.standing], shown(row.start_offset), shown(row.end_offset), shown(row.proven_end), shown(row.parts_at), shown(row.history),
    known(row.seen_epoch) ? `epoch ${row.seen_epoch}${known(row.voted_id) ? `, voted for ${row.voted_id}` : known(row.seen_leader_id) ? `, leader ${row.seen_leader_id}` : ''}` : '–', ...(refused ? [row.refused.join('; ')] : [])];
  section.append(el('h2', null, 'Copies of the metadata log'), el('figure', null, holder, el('p', { class: 'legend' }, legendKey('k-epoch', 'epochs of controllers, a colour each'),
    rows.some((row) => known(row.proven_end)) && sign('up', 'elected', 'committed up to here'), rows.some((row) => known(row.parts_at)) && sign('cross', 'unclean', 'first record that the copy in use does not have'))),
    table([['copy', 'wrap'], ['stands', 'wrap'], ['begins', 'n'], ['ends', 'n'], ['committed up to', 'n'], ['parts at', 'n'], ['history', 'n', 'copies of one history do not contradict each other'], ['quorum-state', 'wrap'], ...(refused ? [['refused, since', 'wrap']] : [])], rows.map(cells), 'small stack', 'metadata'));
  section.hidden = false;
  // Where all agree it is no news.
  if (!rows.some((row) => known(row.parts_at) || row.standing === 'stale') && !refused) document.getElementById('read').after(section);
}
