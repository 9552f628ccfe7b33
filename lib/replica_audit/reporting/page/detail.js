// Everything about one partition: picture, story, what to do, tables, findings with their evidence.

// page: what the overview said; partition: {name, topic, number, verdict, …} of one row; detail: as detailReader gives it.
function buildDetail(page, partition, detail) {
  const reference = detail.high_watermarks.length ? detail.high_watermarks[0].reference_id : null;
  const body = el('div', { class: 'detail' });
  body.append(pictureBlock(page, partition, detail, reference));
  const story = el('ol', { class: 'story' }, detail.story.map((parts) => el('li', null, sentence(parts))));
  const worst = partition.code && page.codes[partition.code];
  const todo = worst && partition.severity < 4 && el('aside', { class: 'todo' }, el('h4', null, 'What to do'), el('p', null, worst.remedy),
    el('p', { class: 'soft' }, 'All that is known, in a terminal: ', commandLine(page, partition)));
  body.append(el('div', { class: todo ? 'columns' : '' }, el('div', null, el('h4', null, 'What happened'), story), todo));
  body.append(...protocolBlock(detail), replicaBlock(detail, reference), ...findingBlock(page, detail));
  return body;
}

// For a POSIX shell; the page has the command with the snapshot's path, quoted already.
function commandLine(page, partition) {
  const quoted = /^[\w./:@-]+$/.test(partition.name) ? partition.name : `'${partition.name.replaceAll("'", `'"'"'`)}'`;
  return el('code', { class: 'command' }, `${page.command} ${quoted.startsWith('-') ? '-- ' : ''}${quoted}`);
}

function pictureBlock(page, partition, detail, reference) {
  if (!detail.replicas.length) return el('p', { class: 'soft' }, 'No replica has files here: there is nothing to draw.');
  const state = { protocol: page.protocol, focus: undefined };
  const holder = el('div', { class: 'canvas' });
  const readout = el('p', { class: 'readout' });
  const foot = el('div');
  const tools = el('div', { class: 'picture-tools' });
  const cutting = detail.truncations.some((row) => row.dropped_records || row.truncate_to !== row.common_prefix_end);
  const options = PROTOCOLS.filter(([name]) => detail.truncations.some((row) => row.protocol === name));
  let width = 0;
  const histories = el('div');
  const drawHistories = () => {
    const led = drawLeadership(detail.partition_states, width);
    const marks = drawTimeline(detail.high_watermark_timeline, width);
    histories.replaceChildren(...(led ? [el('h4', null, 'Who led, and who was in sync'), led] : []), ...(marks ? [el('h4', null, 'High watermark over time'), marks] : []));
  };
  const redraw = () => {
    width = Math.max(300, Math.floor(holder.clientWidth));
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
    drawHistories();
    if (pressed) tools.querySelector(`[data-choice="${pressed}"]`).focus({ preventScroll: true });
  };
  new ResizeObserver(() => {
    if (Math.abs(Math.floor(holder.clientWidth) - width) > 8 && holder.clientWidth) redraw();
  }).observe(holder);
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
  return run ? `${epoch}, NOT the ${detail.replicas.some((one) => one.is_leader) ? 'leader' : 'reference'}'s${run.committed ? ', committed' : ''}` : epoch;
}

function committedAt(detail, offset) {
  const [mark] = detail.high_watermarks;
  if (!mark || !known(mark.hw_lower)) return 'high watermark not known';
  return offset < mark.hw_lower ? 'below the high watermark' : known(mark.hw_upper) && offset >= mark.hw_upper ? 'not committed on the leader' : 'perhaps committed';
}

function table(head, rows, cls) {
  return el('div', { class: 'scroll' }, el('table', { class: cls || 'small' },
    el('thead', null, el('tr', null, head.map(([text, kind, title]) => el('th', { scope: 'col', class: kind, title }, text)))),
    el('tbody', null, rows.map((cells) => el('tr', null, cells.map((cell, index) => el('td', { class: head[index][1], 'data-label': head[index][0] }, cell)))))));
}

// What each follower does under each generation of the protocol.
function protocolBlock(detail) {
  const cutting = new Set(detail.truncations.filter((row) => row.dropped_records || row.truncate_to !== row.common_prefix_end).map((row) => row.broker_id));
  const quiet = [...new Set(detail.truncations.map((row) => row.broker_id))].filter((broker) => !cutting.has(broker));
  const blocks = [];
  if (cutting.size) {
    const rows = detail.truncations.filter((row) => cutting.has(row.broker_id));
    const order = (row) => PROTOCOLS.findIndex(([name]) => name === row.protocol);
    rows.sort((one, other) => one.broker_id - other.broker_id || order(one) - order(other));
    blocks.push(el('h4', null, 'What each protocol would do'), table(
      [['broker', 'n'], ['protocol', ''], ['keeps up to', 'n'], ['drops', 'n'], ['committed', 'n'], ['and then', 'wrap']],
      rows.map((row) => {
        const known_ = PROTOCOLS.find(([name]) => name === row.protocol);
        const differs = known(row.common_prefix_end) && row.truncate_to > row.common_prefix_end;
        const after = differs ? el('b', { class: 'bad' }, `${offsets(row.common_prefix_end, row.truncate_to)} differ for ever, unseen`) : known(row.common_prefix_end) ? 'the same as the leader' : 'fetches everything again';
        return [row.broker_id, [known_ ? known_[1] : row.protocol, known_ && el('span', { class: 'soft' }, ` ${known_[2]}`)], shown(row.truncate_to),
          row.dropped_records ? [row.dropped_records, el('span', { class: 'soft' }, ` · ${bytes(row.dropped_bytes)}`)] : '0',
          row.committed_dropped ? el('b', { class: 'bad' }, row.committed_dropped) : shown(row.committed_dropped), [after, stepsOf(row)]];
      })));
  }
  if (quiet.length) blocks.push(el('p', { class: 'soft' }, `No protocol would cut anything from broker${quiet.length === 1 ? '' : 's'} ${list(quiet)}.`));
  return blocks;
}

function stepsOf(row) {
  if (!row.steps || !row.steps.length) return null;
  const said = row.steps.map((step) => {
    const answer = !known(step.leader_end_offset) ? 'the leader does not know it' : known(step.leader_epoch) ? `the leader’s epoch ${step.leader_epoch} ends at ${step.leader_end_offset}` : `the leader answers ${step.leader_end_offset}`;
    return `asks for epoch ${shown(step.request_epoch)}: ${answer}; keep up to ${shown(step.truncate_to)}`;
  });
  return el('details', { class: 'steps-told' }, el('summary', null, count(row.steps.length, 'step')), el('ol', null, said.map((text) => el('li', null, text))));
}

function replicaBlock(detail, reference) {
  const yes = (value) => (value === null ? '?' : value ? 'yes' : 'no');
  const lineage = (entries) => (entries && entries.length ? entries.map(([epoch, start]) => `${epoch}:${start}`).join(' ') : 'none');
  const rows = lanesOf(detail).map((row) => [
    [row.broker_id, row.is_leader && el('span', { class: 'soft' }, ' leads')], yes(row.in_isr), shown(row.log_start_offset), shown(row.log_end_offset),
    shown(row.high_watermark_checkpoint), shown(row.recovery_point_checkpoint), row.broker_id === reference ? '' : shown(row.common_prefix_end),
    [shown(row.record_count), el('span', { class: 'soft' }, ` · ${bytes(row.size_bytes)}`)],
    [row.tail_kind === 'clean' ? '' : el('b', { class: 'bad' }, `tail ${row.tail_kind} `), row.clean_shutdown ? 'stopped cleanly' : 'not stopped cleanly',
      row.recovered_log_end_offset !== row.log_end_offset && known(row.recovered_log_end_offset) ? `, ends at ${row.recovered_log_end_offset} after recovery` : '', row.compacted ? ', compacted' : ''],
    [el('code', null, lineage(row.epochs)), known(row.checkpoint_epochs) && lineage(row.checkpoint_epochs) !== lineage(row.epochs) ? [' · file ', el('code', null, lineage(row.checkpoint_epochs))] : known(row.checkpoint_epochs) ? '' : ' · no file'],
  ]);
  return el('details', { class: 'fold' }, el('summary', null, `Replicas as found (${rows.length})`), table(
    [['broker', 'n'], ['in sync', ''], ['log start', 'n'], ['log end', 'n'], ['HW checkpoint', 'n'], ['recovery point', 'n'], ['same up to', 'n'], ['records', 'n'], ['state', 'wrap'], ['epoch:start', 'wrap']], rows));
}

const LISTED = 200;

function findingBlock(page, detail) {
  if (!detail.findings.length) return [];
  const order = { new: 0, known: 0, resolved: 1 };
  const rank = (row) => page.severities.indexOf(row.severity) + 10 * (order[row.status] || 0);
  const rows = [...detail.findings].sort((one, other) => rank(one) - rank(other));
  return [el('h4', null, `Findings (${rows.length})`), el('ul', { class: 'findings' }, rows.slice(0, LISTED).map((row) => findingItem(page, row))),
    rows.length > LISTED && el('p', { class: 'soft' }, `and ${rows.length - LISTED} more in audit.json`)].filter(Boolean);
}

function findingItem(page, row) {
  const code = page.codes[row.code];
  const place = [known(row.broker_id) && `broker ${row.broker_id}`, known(row.start_offset) && range(row.start_offset, row.end_offset), row.confidence !== 'proven' && row.confidence, row.status !== 'new' && row.status].filter(Boolean).join(' · ');
  const considered = (row.evidence || []).filter((item) => item.kind === 'considered');
  const proofs = (row.evidence || []).filter((item) => item.kind !== 'considered');
  const line = (item) => el('li', null, [known(item.broker_id) && `broker ${item.broker_id} `, known(item.path) && el('code', null, item.path), known(item.position) && ` at byte ${item.position}`].filter(Boolean),
    el('span', null, [known(item.path) || known(item.broker_id) ? ': ' : '', [item.kind, item.value, item.text].filter((part) => known(part) && part !== '').join('; ')]));
  return el('li', { class: row.status === 'resolved' ? 'gone' : null }, el('p', null, el('span', { class: `tag s-${row.severity}` }, row.severity), ' ', el('code', null, row.code), ' ', el('span', { class: 'soft' }, place)),
    el('p', null, row.message),
    el('details', null, el('summary', null, 'How it is proven, and what it is not'),
      proofs.length > 0 && el('ul', { class: 'evidence' }, proofs.map(line)),
      considered.length > 0 && [el('p', { class: 'soft' }, 'Considered and ruled out:'), el('ul', { class: 'evidence' }, considered.map((item) => el('li', null, item.text || item.value)))],
      code && [el('p', null, el('b', null, code.summary), '. ', code.meaning), el('p', null, el('b', null, 'Proof: '), code.proof), el('p', null, el('b', null, 'What to do: '), code.remedy), code.traps && el('p', null, el('b', null, 'Not this: '), code.traps)]));
}
