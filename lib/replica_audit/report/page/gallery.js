// Small multiples: every partition with something wrong at a glance, before the table; each opens it.
//: So few are seen in the table itself.
const FEW = 3;
const SHOWN_AT_ONCE = 60;

function buildGallery(page, rows, details) {
  const section = document.getElementById('gallery');
  const lagging = page.verdicts.indexOf('LAGGING');
  const isBad = (row) => row.verdict < lagging;
  if (rows.filter(isBad).length <= FEW) return { update: () => {} };
  const grid = el('div', { class: 'gallery' });
  const more = el('p', { class: 'more' });
  const counted = el('p', { class: 'soft' });
  const cells = new Map();
  let all = false;
  let drawing = 0;
  section.append(el('div', { class: 'title' }, el('h2', null, 'What is wrong, at a glance'), counted), grid,
    el('p', { class: 'legend' }, ['lost', 'differs', 'hidden', 'damage', 'recomputed'].map((kind) => el('span', { class: 'key' }, el('i', { class: `k-${kind}`, 'aria-hidden': 'true' }),
      { lost: 'committed, not on the leader', differs: 'not what the leader has', hidden: 'differs and stays, unseen', damage: 'damaged or missing', recomputed: 'high watermark' }[kind]))), more);
  section.hidden = false;

  // Details are unpacked a few at a time, so that the page can be used meanwhile.
  async function drawAll(wanted) {
    drawing += 1;
    const turn = drawing;
    for (const [place, row] of wanted.entries()) {
      const cell = cells.get(row.index);
      if (!cell.drawn) {
        cell.drawn = true;
        cell.holder.replaceChildren(drawMini(await details(row.index), page.protocol));
      }
      if (place % 12 === 11) await new Promise((resume) => { setTimeout(resume); });
      if (turn !== drawing) return;
    }
    section.dataset.drawn = String(wanted.length);
  }

  function update(matching) {
    const bad = matching.filter(isBad);
    const wanted = all ? bad : bad.slice(0, SHOWN_AT_ONCE);
    for (const row of wanted) if (!cells.has(row.index)) cells.set(row.index, makeCell(page, row));
    grid.replaceChildren(...wanted.map((row) => cells.get(row.index).node));
    counted.textContent = bad.length === matching.length ? count(bad.length, 'partition') : `${bad.length} of ${count(matching.length, 'partition')}`;
    more.replaceChildren(bad.length > wanted.length ? el('button', { type: 'button', class: 'plain', onclick: () => { all = true; update(matching); } }, `Show all ${bad.length}`) : '');
    section.hidden = !bad.length;
    delete section.dataset.drawn;
    drawAll(wanted);
  }
  return { update };
}

function makeCell(page, row) {
  const holder = el('span', { class: 'mini-picture' });
  const lost = row.lost_committed || row.lost;
  const what = lost ? `${row.bound || ''}${count(lost, `${row.likely ? 'likely ' : ''}${row.lost_committed ? 'committed ' : ''}record`)} lost` : page.words[row.verdict];
  const node = el('a', { class: 'place mini-cell', href: `#${encodeURIComponent(row.name)}` },
    el('span', { class: 'mini-name' }, el('span', { class: `dot v-${page.verdicts[row.verdict]}`, title: page.verdicts[row.verdict] }), el('code', null, row.name)),
    holder, el('span', { class: 'soft mini-what' }, what));
  return { node, holder, drawn: false };
}

// Lanes without words: epochs, what differs, and the high watermark. The style sheet gives it its width.
function drawMini(detail, protocol) {
  const [width, left, high, step] = [240, 18, 8, 12];
  const lanes = lanesOf(detail);
  if (!lanes.length) return el('span', { class: 'soft' }, 'no files');
  const keys = new Map(detail.divergences.flatMap((row) => [[row.start_offset, 5], [row.end_offset, 5]]));
  for (const row of lanes) keys.set(begins(row), 3).set(row.log_end_offset || 0, 4);
  const [mark] = detail.high_watermarks;
  const hw = mark && typeof mark.hw_lower === 'number' ? mark.hw_lower : null;
  if (hw !== null) keys.set(hw, 5);
  const scale = makeScale(new Map([...keys].filter(([key]) => typeof key === 'number')), left, width - 3, undefined);
  const epochs = [...new Set(lanes.flatMap((row) => (row.epochs || []).map(([epoch]) => epoch)))].sort((one, other) => one - other);
  const svg = draw('svg', { viewBox: `0 0 ${width} ${lanes.length * step}`, 'aria-hidden': 'true', class: 'picture mini-lanes' });
  lanes.forEach((row, lane) => {
    const y = lane * step + 2;
    svg.append(draw('text', { class: 'mini-id', x: 0, y: y + high }, row.broker_id));
    for (const { epoch, start, end } of stretches(row)) {
      svg.append(draw('rect', { class: `epoch ${epoch === null ? 'e-none' : `e${epochs.indexOf(epoch) % 8}`}`, x: scale.at(start), y, width: Math.max(1, scale.at(end) - scale.at(start)), height: high }));
    }
    if (!isCompared(row)) return;
    const cut = truncation(detail, row, protocol);
    for (const run of detail.divergences.filter((item) => item.broker_id === row.broker_id)) {
      const kind = cut && run.start_offset < cut.truncate_to ? 'hidden' : run.committed ? 'lost' : 'differs';
      svg.append(draw('rect', { class: `run ${kind}`, x: scale.at(run.start_offset), y, width: Math.max(3, scale.at(run.end_offset) - scale.at(run.start_offset)), height: high }));
    }
    for (const bad of damages(detail).filter((item) => item.broker_id === row.broker_id)) {
      svg.append(draw('rect', { class: 'damage', x: scale.at(bad.start_offset), y, width: Math.max(4, scale.at(bad.end_offset) - scale.at(bad.start_offset)), height: high }));
    }
  });
  if (hw !== null) svg.append(draw('line', { class: 'recomputed', x1: scale.at(hw), x2: scale.at(hw), y1: 0, y2: lanes.length * step }));
  return svg;
}
