// Everything about one partition: picture, story, what to do, tables, findings with their evidence.

// page: what the overview said; partition: {name, topic, number, verdict, …} of one row; detail: as detailReader gives it.
function buildDetail(page, partition, detail) {
  const reference = detail.high_watermarks.length ? detail.high_watermarks[0].reference_id : null;
  const worst = partition.code && page.codes[partition.code];
  const todo = worst && partition.severity < 4 && el('aside', { class: 'todo' }, heading('What to do'), el('p', null, partition.advice || worst.remedy),
    el('p', { class: 'soft' }, 'All that is known, in a terminal: ', commandLine(page, partition)));
  return el('div', { class: 'detail' }, pictureBlock(page, partition, detail),
    el('div', { class: todo ? 'columns advised' : 'columns' },
      el('div', { class: 'happened' }, heading('What happened'), el('ol', { class: 'story' }, detail.story.map((parts) => el('li', null, sentence(parts))))),
      todo,
      el('div', { class: 'replay' }, protocolBlock(detail), electionBlock(partition, detail), groupBlock(detail), writerBlock(detail), replicaBlock(detail, reference))),
    findingBlock(page, detail));
}

// For a POSIX shell; the page has the command with the snapshot's path, quoted already.
function commandLine(page, partition) {
  const quoted = /^[\w./:@-]+$/.test(partition.name) ? partition.name : `'${partition.name.replaceAll("'", `'"'"'`)}'`;
  return copyable(el('code', { class: 'command' }, `${page.command} ${quoted.startsWith('-') ? '-- ' : ''}${quoted}`));
}

// Width of a picture on A4 with the margins of page.css, in CSS pixels: before printing, pictures are drawn for the paper.
const PAPER = 700;
const printed = new Set();
let printing = false;
for (const [name, now] of [['beforeprint', true], ['afterprint', false]]) {
  addEventListener(name, () => {
    printing = now;
    for (const redraw of printed) redraw();
  });
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
  let width = 0;
  const histories = el('div');
  const drawHistories = () => {
    const led = drawLeadership(detail.partition_states, width);
    const marks = drawTimeline(detail.high_watermark_timeline, width);
    histories.replaceChildren(...(led ? [heading('Who led, and who was in sync'), led] : []), ...(marks ? [heading('High watermark over time'), marks] : []));
  };
  const redraw = () => {
    if (!holder.isConnected) return;
    width = printing ? PAPER : Math.max(300, Math.floor(holder.clientWidth));
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
    if (!printing && Math.abs(Math.floor(holder.clientWidth) - width) > 8 && holder.clientWidth) redraw();
  }).observe(holder);
  printed.add(redraw);
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
  const twice = (row) => detail.replicas.filter((other) => other.broker_id === row.broker_id).length > 1;
  const rows = lanesOf(detail).map((row) => [
    [row.broker_id, el('span', { class: 'soft' }, row.is_leader ? ' leads' : ROLES[row.role] ? ` ${ROLES[row.role]}` : '', twice(row) && [' in ', el('code', null, row.log_dir)])], yes(row.in_isr), shown(row.log_start_offset), shown(row.log_end_offset),
    shown(row.high_watermark_checkpoint), shown(row.recovery_point_checkpoint), row.broker_id === reference && isCompared(row) ? '' : shown(row.common_prefix_end),
    [shown(row.record_count), el('span', { class: 'soft' }, ` · ${bytes(row.size_bytes)}`)],
    [row.tail_kind === 'clean' ? '' : el('b', { class: 'bad' }, `tail ${row.tail_kind} `), row.clean_shutdown === null ? '' : row.clean_shutdown ? 'stopped cleanly' : 'not stopped cleanly',
      row.recovered_log_end_offset !== row.log_end_offset && known(row.recovered_log_end_offset) ? `, ends at ${row.recovered_log_end_offset} after recovery` : '', row.compacted ? ', compacted' : ''],
    [el('code', null, lineage(row.epochs)), known(row.checkpoint_epochs) && lineage(row.checkpoint_epochs) !== lineage(row.epochs) ? [' · file ', el('code', null, lineage(row.checkpoint_epochs))] : known(row.checkpoint_epochs) ? '' : ' · no file'],
  ]);
  return el('details', { class: 'fold' }, el('summary', null, `Replicas as found (${rows.length})`), table(
    [['broker', 'wrap'], ['in sync', ''], ['log start', 'n'], ['log end', 'n'], ['HW checkpoint', 'n'], ['recovery point', 'n'], ['same up to', 'n'], ['records', 'n'], ['state', 'wrap'], ['epoch:start', 'wrap']], rows, 'small stack', 'replicas'));
}
