// Who led and who was in sync over time, where a metadata log told it: a lane for each broker.
function drawLeadership(rows, width) {
  const states = rows.filter((row) => typeof row.time_ms === 'number' && row.source === 'metadata_log')
    .sort((one, other) => (one.entry || 0) - (other.entry || 0) || one.time_ms - other.time_ms);
  if (states.length < 2) return null;
  const brokers = [...new Set(states.flatMap((row) => [...(row.replicas || []), ...(row.isr || []), row.leader_id]).filter((id) => known(id) && id >= 0))].sort((one, other) => one - other);
  const first = states[0].time_ms;
  const last = states[states.length - 1].time_ms;
  const end = last + Math.max(1000, (last - first) / 6);
  const board = makeBoard(width);
  const names = brokers.map((broker) => `broker ${broker}`);
  const left = Math.max(...names.map((name) => widthOf(name, 'name')), width < 620 ? 40 : 90) + 20;
  const weights = new Map([...states.map((row) => [row.time_ms, row.leader_id]), [end, -1]].map(([ms, leader], index, all) => [ms, index && leader !== all[index - 1][1] ? 6 : 2]));
  const scale = makeScale(weights, left, width - 20, undefined);
  const top = 30;
  const height = top + brokers.length * 24 + 6;
  const svg = draw('svg', { viewBox: `0 0 ${width} ${height}`, width, height, class: 'picture', role: 'img', 'aria-label': `Leadership from ${time(first)} to ${time(last)}; the sentences below tell it` });
  for (const tick of keyTicks(scale.points, weights).filter((ms) => ms !== end)) {
    const label = board.near(time(tick).slice(11, 23), 'tick', scale.at(tick), top - 12, 8);
    if (label) svg.append(draw('line', { class: 'grid', x1: scale.at(tick), x2: scale.at(tick), y1: top - 6, y2: height - 4 }), label);
  }
  brokers.forEach((broker, lane) => {
    const y = top + lane * 24;
    svg.append(board.put(names[lane], 'name', board.boxOf(names[lane], 'name', left - 12, y + 13, 'end'), y + 13));
    states.forEach((state, index) => {
      const until = index + 1 < states.length ? states[index + 1].time_ms : end;
      const leads = state.leader_id === broker;
      const kind = leads ? 'leads' : (state.isr || []).includes(broker) ? 'insync' : (state.elr || []).includes(broker) ? 'eligible' : null;
      if (!kind || until <= state.time_ms) return;
      const words = { leads: `leads in epoch ${state.leader_epoch}`, insync: 'in sync', eligible: 'eligible to lead' }[kind];
      const x = scale.at(state.time_ms);
      const length = scale.at(until) - x;
      svg.append(draw('rect', { class: `span ${kind}`, x, y, width: Math.max(1.5, length), height: 18 },
        draw('title', null, `broker ${broker} ${words} from ${time(state.time_ms)}`)));
      // The epoch is said where it begins, and not again when only the others changed.
      const same = index && states[index - 1].leader_id === broker && states[index - 1].leader_epoch === state.leader_epoch;
      const text = [`epoch ${state.leader_epoch}`, String(state.leader_epoch)].find((one) => widthOf(one, 'led') + 12 < length);
      if (leads && !same && text) svg.append(board.put(text, 'led', board.boxOf(text, 'led', x + 6, y + 13, 'start'), y + 13));
    });
  });
  const key = (cls, text) => el('span', { class: 'key' }, el('i', { class: cls, 'aria-hidden': 'true' }), text);
  const eligible = states.some((state) => (state.elr || []).length);
  return el('div', null, svg, el('p', { class: 'legend' }, key('k-leads', 'leads'), key('k-insync', 'in sync'), eligible && key('k-eligible', 'eligible to lead, not in sync')));
}
