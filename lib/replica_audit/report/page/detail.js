// Everything about one partition: picture, story, what to do, tables, findings with their evidence.

// page: what the overview said; partition: {name, topic, number, verdict, …} of one row; detail: as detailReader gives it.
function buildDetail(page, partition, detail) {
  const reference = detail.high_watermarks.length ? detail.high_watermarks[0].reference_id : null;
  const worst = partition.code && page.codes[partition.code];
  const todo = worst && partition.severity < 4 && el('aside', { class: 'todo' }, heading('What to do'), el('p', null, partition.advice),
    el('p', { class: 'soft' }, 'All that is known, in a terminal: ', commandLine(page, partition)));
  return el('div', { class: 'detail' }, pictureBlock(page, partition, detail),
    el('div', { class: todo ? 'columns advised' : 'columns' },
      el('div', { class: 'happened' }, heading('What happened'), el('ol', { class: 'story' }, detail.story.map((parts) => el('li', null, sentence(parts))))),
      todo,
      el('div', { class: 'replay' }, protocolBlock(detail), electionBlock(page, partition, detail), groupBlock(detail), writerBlock(detail), replicaBlock(detail, reference))),
    findingBlock(page, detail));
}

// For a POSIX shell; the page has the command with the snapshot's path, quoted already.
function commandLine(page, partition) {
  const quoted = /^[\w./:@-]+$/.test(partition.name) ? partition.name : `'${partition.name.replaceAll("'", `'"'"'`)}'`;
  return copyable(el('code', { class: 'command' }, `${page.command} ${quoted.startsWith('-') ? '-- ' : ''}${quoted}`));
}

function pictureBlock(page, partition, detail) {
  if (!detail.replicas.length) return el('p', { class: 'soft' }, 'No replica has files here: there is nothing to draw.');
  const state = { protocol: page.protocol, focus: undefined };
  const holder = el('div', { class: 'canvas' });
  const readout = el('p', { class: 'readout' });
  const foot = el('div');
  const tools = el('div', { class: 'picture-tools' });
  const cutting = detail.truncations.some((row) => row.dropped_records || row.truncate_to !== row.common_prefix_end);
  const options = PROTOCOLS.filter(([name]) => detail.truncations.some((row) => row.protocol === name));
  const histories = el('div');
  const redraw = drawnFor(holder, (width) => {
    const picture = drawPicture(detail, { width, name: partition.name, ...state });
    holder.replaceChildren(picture.svg);
    readAlong(holder, readout, picture, detail, state.protocol);
    foot.replaceChildren(legend(detail, state.protocol));
    const pressed = tools.contains(document.activeElement) && document.activeElement.dataset.choice;
    tools.replaceChildren(
      cutting && options.length > 1 ? choice('Truncation of', options.map(([name, text, versions]) => [name, text, versions]), state.protocol, (name) => { state.protocol = name; redraw(); }) : '',
      picture.scale.crowded || state.focus !== undefined
        ? choice('Offsets', [['focus', 'zoomed', 'where nothing changes, the axis is cut short'], ['linear', 'to scale', 'every offset as wide as any other']], picture.scale.focused ? 'focus' : 'linear', (name) => { state.focus = name === 'focus'; redraw(); })
        : '',
    );
    const led = drawLeadership(detail.partition_states, width);
    const marks = drawTimeline(detail.high_watermark_timeline, width);
    histories.replaceChildren(...(led ? [heading('Who led, and who was in sync'), led] : []), ...(marks ? [heading('High watermark over time'), marks] : []));
    if (pressed) tools.querySelector(`[data-choice="${pressed}"]`).focus({ preventScroll: true });
  });
  return el('figure', null, tools, holder, readout, foot, histories);
}

// A group of buttons of which one is pressed.
function choice(label, options, chosen, choose) {
  return el('div', { class: 'choice', role: 'group', 'aria-label': label }, el('span', null, label),
    options.map(([name, text, title]) => el('button', { type: 'button', title, 'aria-pressed': String(name === chosen), 'data-choice': name, onclick: () => choose(name) }, text)));
}

// A line that follows the pointer, or the arrow keys, and says what each replica has at its offset.
function readAlong(holder, readout, picture, detail, protocol) {
  const { scale, lanes, svg } = picture;
  const line = draw('line', { class: 'cursor', y1: 34, y2: svg.viewBox.baseVal.height - 20, visibility: 'hidden' });
  svg.querySelector('.over').before(line);
  const say = (offset) => {
    const x = scale.at(offset);
    line.setAttribute('x1', x);
    line.setAttribute('x2', x);
    line.setAttribute('visibility', 'visible');
    const text = `offset ${offset}: ${lanes.map(({ row }) => `broker ${row.broker_id} ${contentAt(detail, row, offset)}`).join(' · ')} · ${committedAt(detail, offset)}`;
    readout.textContent = text;
    holder.setAttribute('aria-valuenow', offset);
    holder.setAttribute('aria-valuetext', text);
  };
  const hint = 'Point at the picture, or focus it and use ← →, to read what each replica has at an offset.';
  readout.textContent = hint;
  for (const [name, value] of [['role', 'slider'], ['tabindex', 0], ['aria-label', 'Offset'], ['aria-valuemin', scale.low], ['aria-valuemax', scale.high], ['aria-valuenow', scale.low], ['aria-valuetext', hint]]) holder.setAttribute(name, value);
  const steps = [...new Set(scale.points.flatMap((point) => [point - 1, point]))].filter((point) => point >= scale.low && point <= scale.high).sort((one, other) => one - other);
  holder.onpointermove = (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    if (x >= scale.left && x <= scale.right) say(scale.offset(x));
  };
  holder.onpointerleave = () => {
    if (document.activeElement !== holder) line.setAttribute('visibility', 'hidden');
  };
  holder.onkeydown = (event) => {
    const now = Number(holder.getAttribute('aria-valuenow'));
    const next = { ArrowRight: steps.find((step) => step > now), ArrowLeft: steps.findLast((step) => step < now), Home: steps[0], End: steps[steps.length - 1] }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    say(next);
  };
}

function contentAt(detail, row, offset) {
  if (!covers(row, offset)) return offset >= row.log_end_offset ? 'ended' : 'no longer has it';
  const stretch = stretches(row).find((one) => offset >= one.start && offset < one.end);
  const run = isCompared(row) && detail.divergences.find((one) => one.broker_id === row.broker_id && offset >= one.start_offset && offset < one.end_offset);
  const epoch = stretch && stretch.epoch !== null ? `epoch ${stretch.epoch}` : 'no epoch';
  return run ? `${epoch}, NOT the ${comparedTo(detail)}'s${run.committed ? ', committed' : ''}` : epoch;
}

function committedAt(detail, offset) {
  const [mark] = detail.high_watermarks;
  if (!mark || !known(mark.hw_lower)) return 'high watermark not known';
  return offset < mark.hw_lower ? 'below the high watermark' : known(mark.hw_upper) && offset >= mark.hw_upper ? `not committed on the ${comparedTo(detail)}` : 'perhaps committed';
}

// `name`: of the file that its button hands out.
function table(head, rows, cls, name) {
  const node = el('table', { class: cls || 'small' },
    el('thead', null, el('tr', null, head.map(([text, kind, title]) => el('th', { scope: 'col', class: kind, title }, text)))),
    el('tbody', null, rows.map((cells) => el('tr', null, cells.map((cell, index) => el('td', { class: head[index][1], 'data-label': head[index][0] }, cell))))));
  return el('div', { class: 'scroll' }, node, name && csvButton(name, () => shownCells(node)));
}

function replicaBlock(detail, reference) {
  const yes = (value) => (value === null ? '?' : value ? 'yes' : 'no');
  const lineage = (entries) => (entries && entries.length ? entries.map(([epoch, start]) => `${epoch}:${start}`).join(' ') : 'none');
  const tiered = detail.replicas.some((row) => begins(row) > (row.log_start_offset || 0));
  const twice = (row) => detail.replicas.filter((other) => other.broker_id === row.broker_id).length > 1;
  const rows = lanesOf(detail).map((row) => [
    [row.broker_id, el('span', { class: 'soft' }, row.is_leader ? ' leads' : ROLES[row.role] ? ` ${ROLES[row.role]}` : '', twice(row) && [' in ', el('code', null, row.log_dir)])], yes(row.in_isr), shown(row.log_start_offset), ...(tiered ? [begins(row)] : []), shown(row.log_end_offset),
    shown(row.high_watermark_checkpoint), shown(row.recovery_point_checkpoint), row.broker_id === reference && isCompared(row) ? '' : shown(row.common_prefix_end),
    [shown(row.record_count), el('span', { class: 'soft' }, ` · ${bytes(row.size_bytes)}`)],
    [row.tail_kind === 'clean' ? '' : el('b', { class: 'bad' }, `tail ${row.tail_kind} `), row.clean_shutdown === null ? '' : row.clean_shutdown ? 'stopped cleanly' : 'not stopped cleanly',
      row.recovered_log_end_offset !== row.log_end_offset && known(row.recovered_log_end_offset) ? `, ends at ${row.recovered_log_end_offset} after recovery` : '', row.compacted ? ', compacted' : ''],
    [el('code', null, lineage(row.epochs)), known(row.checkpoint_epochs) && lineage(row.checkpoint_epochs) !== lineage(row.epochs) ? [' · file ', el('code', null, lineage(row.checkpoint_epochs))] : known(row.checkpoint_epochs) ? '' : ' · no file'],
  ]);
  return el('details', { class: 'fold' }, el('summary', null, `Replicas as found (${rows.length})`), table(
    [['broker', 'wrap'], ['in sync', ''], ['log start', 'n'], ...(tiered ? [['files from', 'n']] : []), ['log end', 'n'], ['HW checkpoint', 'n'], ['recovery point', 'n'], ['same up to', 'n'], ['records', 'n'], ['state', 'wrap'], ['epoch:start', 'wrap']], rows, 'small stack', 'replicas'));
}

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
  if (quiet.length) blocks.push(el('p', { class: 'soft' }, `No protocol would cut anything from ${nameBrokers(quiet)}.`));
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
  const after = differs ? el('b', { class: 'bad' }, `the difference at ${row.common_prefix_end} stays, unseen`) : known(row.common_prefix_end) ? `the same as the ${compared}` : 'fetches everything again';
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

// What each choice of leader costs; the rows of one candidate say the same of it, and what each other replica drops.
// Where a needed replica was not captured, what the captured ones lose is the least.
function electionBlock(page, partition, detail) {
  const own = detail.elections.filter((row) => row.candidate_id === row.broker_id);
  if (own.length < 2) return null;
  const groups = detail.group_offsets.length > 0;
  const open = partition.costs_open;
  const rows = own.map((row) => {
    const bound = open ? 'at least ' : row.lost_at_most ? 'at most ' : '';
    const number = (lost) => (open || lost ? `${bound}${lost}` : '0');
    const cuts = detail.elections.filter((one) => one.candidate_id === row.candidate_id && one.dropped_records);
    return [[row.candidate_id, row.candidate_id === partition.choice ? el('b', null, open ? ' best of these' : ' best') : ''], page.standings[row.standing], shown(row.kept_to), number(row.lost_records),
      row.lost_committed ? el('b', { class: 'bad' }, number(row.lost_committed)) : number(0), number(row.lost_possible), row.cut_transactions,
      ...(groups ? [detail.group_offsets.filter((one) => one.hit_by.includes(row.candidate_id)).length] : []),
      cuts.length ? cuts.map((one) => `broker ${one.broker_id} is cut to ${one.kept_to}`).join(', ') : 'nobody is cut'];
  });
  return el('div', null, heading('What each choice of leader costs'), table(
    [['leader', 'wrap'], ['would lead as', ''], ['log end', 'n'], ['lost', 'n', 'records that no log holds any more'], ['committed', 'n'], ['possibly', 'n', 'possibly committed'], ['transactions', 'n', 'of which a part is lost'], ...(groups ? [['groups', 'n', 'groups that have read what is lost then']] : []), ['and then', 'wrap']], rows, 'small stack', 'choices'));
}

// Whom it reaches outside the log: groups that are hit, and who wrote the lost records. Names and ids only.
const MOST_ROWS = 20;

// Rows of a table, and how many are left out.
const capped = (rows, line) => [...rows.slice(0, MOST_ROWS).map(line), ...(rows.length > MOST_ROWS ? [[`and ${rows.length - MOST_ROWS} more in audit.json`]] : [])];

function groupBlock(detail) {
  if (!detail.group_offsets.length) return null;
  const compared = comparedTo(detail);
  const effects = { past_end: `past the ${compared}’s log end`, epoch_differs: 'past the divergence', read_lost: 'valid, above lost records', unaffected: 'unaffected' };
  const decided = detail.elections.some((row) => row.candidate_id !== row.broker_id);
  const rows = capped(detail.group_offsets, (row) => {
    const bad = row.effect === 'past_end' || row.effect === 'epoch_differs';
    return [el('code', null, row.group), [shown(row.committed_offset), known(row.leader_epoch) && el('span', { class: 'soft' }, ` · epoch ${row.leader_epoch}`)],
      bad ? el('b', { class: 'bad' }, effects[row.effect]) : effects[row.effect] || 'of an earlier topic', shown(row.parted_at),
      ...(decided ? [row.hit_by.length ? nameBrokers(row.hit_by) : 'none'] : [])];
  });
  return el('div', { class: 'groups' }, heading('Consumer groups that are hit'), table(
    [['group', 'wrap'], ['committed', 'n'], ['stands', 'wrap'], ['parted at', 'n', 'where what the group read and this log part'], ...(decided ? [['hit under', 'wrap', 'leaders whose log lacks what the group read']] : [])], rows, 'small stack', 'groups'));
}

function writerBlock(detail) {
  if (!detail.lost_producers.length) return null;
  const rows = capped(detail.lost_producers, (row) => [
    [known(row.transactional_id) ? [el('code', null, row.transactional_id), ' '] : '', known(row.producer_id) ? `producer ${row.producer_id}` : 'no producer id',
      known(row.transaction_state) && el('span', { class: 'soft' }, `, ${row.transaction_state}`)],
    nameBrokers(row.brokers), range(row.start_offset, row.end_offset), row.record_count,
    known(row.first_timestamp_ms) ? [el('span', { class: 'nb' }, time(row.first_timestamp_ms)), row.last_timestamp_ms === row.first_timestamp_ms ? '' : [' to ', el('span', { class: 'nb' }, time(row.last_timestamp_ms))]] : '–']);
  return el('div', { class: 'writers' }, heading('Who wrote the lost records'), table(
    [['producer', 'wrap'], ['held by', 'wrap'], ['offsets', 'n'], ['records', 'n'], ['timestamps', 'wrap']], rows, 'small stack', 'producers'));
}
