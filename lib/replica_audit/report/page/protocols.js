// What each follower does under each generation of the protocol; those that do the same are one line.
function protocolBlock(detail) {
  const notable = (row) => row.dropped_records || row.truncate_to !== row.common_prefix_end;
  const cutting = new Set(detail.truncations.filter(notable).map((row) => row.broker_id));
  const quiet = [...new Set(detail.truncations.map((row) => row.broker_id))].filter((broker) => !cutting.has(broker)).sort((one, other) => one - other);
  const blocks = [];
  if (cutting.size) {
    const lines = [...cutting].sort((one, other) => one - other).flatMap((broker) => outcomesOf(detail.truncations.filter((row) => row.broker_id === broker)));
    blocks.push(heading('What each protocol would do'), table(
      [['broker', 'n'], ['protocol', 'wrap'], ['keeps up to', 'n'], ['drops', 'n'], ['committed', 'n'], ['and then', 'wrap']], lines.map((rows) => outcomeLine(rows, comparedTo(detail))), 'small stack', 'truncations'));
  }
  if (quiet.length) blocks.push(el('p', { class: 'soft' }, `No protocol would cut anything from broker${quiet.length === 1 ? '' : 's'} ${list(quiet)}.`));
  return blocks;
}

// Rows of one follower as [[row…]…], those with the same outcome together, in the order of PROTOCOLS.
function outcomesOf(rows) {
  const rank = (row) => PROTOCOLS.findIndex(([name]) => name === row.protocol);
  const groups = new Map();
  for (const row of [...rows].sort((one, other) => rank(one) - rank(other))) {
    const key = JSON.stringify([row.truncate_to, row.dropped_records, row.dropped_bytes, row.committed_dropped, row.common_prefix_end]);
    groups.set(key, [...(groups.get(key) || []), row]);
  }
  return [...groups.values()];
}

function outcomeLine(rows, compared) {
  const [row] = rows;
  const named = rows.map(({ protocol }) => PROTOCOLS.find(([name]) => name === protocol) || [protocol, protocol, '']);
  const who = rows.length === PROTOCOLS.length ? 'every protocol' : named.map(([, name, versions], index) => [index ? ', ' : '', name, el('span', { class: 'soft' }, ` ${versions}`)]);
  const differs = known(row.common_prefix_end) && row.truncate_to > row.common_prefix_end;
  const after = differs ? el('b', { class: 'bad' }, `${offsets(row.common_prefix_end, row.truncate_to)} differ for ever, unseen`) : known(row.common_prefix_end) ? `the same as the ${compared}` : 'fetches everything again';
  return [row.broker_id, who, shown(row.truncate_to),
    row.dropped_records ? [row.dropped_records, el('span', { class: 'soft' }, ` · ${bytes(row.dropped_bytes)}`)] : '0',
    row.committed_dropped ? el('b', { class: 'bad' }, row.committed_dropped) : shown(row.committed_dropped), [after, stepsOf(rows, compared)]];
}

// The questions and answers behind an outcome; protocols that ask alike are told once.
function stepsOf(rows, compared) {
  const told = new Map();
  for (const row of rows.filter((one) => one.steps && one.steps.length)) {
    const said = row.steps.map((step) => {
      const answer = !known(step.leader_end_offset) ? `the ${compared} does not know it` : known(step.leader_epoch) ? `the ${compared}’s epoch ${step.leader_epoch} ends at ${step.leader_end_offset}` : `the ${compared} answers ${step.leader_end_offset}`;
      return `asks for epoch ${shown(step.request_epoch)}: ${answer}; keep up to ${shown(step.truncate_to)}`;
    });
    const key = said.join('\n');
    if (!told.has(key)) told.set(key, { said, names: [] });
    told.get(key).names.push(protocolName(row.protocol));
  }
  if (!told.size) return null;
  const most = Math.max(...[...told.values()].map(({ said }) => said.length));
  const several = told.size > 1 || (told.size === 1 && [...told.values()][0].names.length < rows.length);
  return el('details', { class: 'steps-told' }, el('summary', null, count(most, 'step')),
    [...told.values()].map(({ said, names }) => [several && el('p', null, `${names.join(', ')}:`), el('ol', null, said.map((text) => el('li', null, text)))]));
}
