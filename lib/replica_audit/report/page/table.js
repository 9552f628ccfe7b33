// The table of partitions: filtered, sorted, a hundred rows at a time, each opened in place; equal rows are one line until it is opened.
const ROWS = 100;
//: So many equal rows are not folded.
const FOLD = 5;

// `followers` are told which rows the filters leave: each has an update.
function buildTable(page, rows, details, followers) {
  const nodes = Object.fromEntries(['table', 'rows', 'more', 'count', 'search', 'filters', 'verdicts'].map((id) => [id, document.getElementById(id)]));
  const last = page.verdicts.length - 1;
  const state = { words: [], verdicts: new Set(), code: null, broker: null, topic: null, changed: false, sort: null, down: false, limit: ROWS, unfolded: new Set(), folds: true, open: new Set(), named: null };
  const built = new Map();
  const head = [...nodes.table.tHead.rows[0].cells];
  const width = head.length;
  let matching = [];

  const filtering = () => state.words.length || state.verdicts.size || state.code || known(state.broker) || state.topic || state.changed;
  const matches = (row) => (!state.verdicts.size || state.verdicts.has(row.verdict))
    && (!state.code || row.codes.includes(state.code))
    && (!known(state.broker) || row.brokers.includes(state.broker))
    && (!state.topic || row.topic === state.topic)
    && (!state.changed || row.new > 0 || row.resolved > 0 || (known(row.before) && row.before !== row.verdict))
    && state.words.every((word) => row.text.includes(word));

  const KEYS = {
    name: (row) => row.order,
    verdict: (row) => row.index,
    leader: (row) => row.leader ?? -1,
    hw: (row) => Number(row.hw_lower ?? -1),
    lost: (row) => -(row.lost ?? -1),
    committed: (row) => -(row.lost_committed ?? -1),
    sync: (row) => (row.isr ? row.isr.length / Math.max(1, row.assigned) : 2),
    code: (row) => (row.severity ?? 9) * 1000 + (row.code ? page.codeNames.indexOf(row.code) : 999),
    since: (row) => -(row.new * 100 + (known(row.before) ? row.before - row.verdict : 0)),
  };

  function select() {
    matching = rows.filter(matches);
    const key = KEYS[state.sort || 'verdict'];
    matching.sort((one, other) => key(one) - key(other) || one.index - other.index);
    if (state.down) matching.reverse();
  }

  function render() {
    select();
    for (const follower of followers) follower.update(matching);
    const lines = linesOf();
    const part = lines.slice(0, state.limit);
    nodes.rows.replaceChildren(...part.flatMap(([row, ...same]) => [...(row ? rowNodes(row) : []), ...(same.length ? [foldLine(same)] : [])]));
    if (!matching.length) nodes.rows.append(el('tr', null, el('td', { colspan: width, class: 'soft' }, 'No partition matches. ', el('button', { type: 'button', class: 'plain', onclick: clear }, 'Clear the filters'))));
    const rest = lines.length - part.length;
    nodes.more.replaceChildren(rest > 0 ? el('button', { type: 'button', onclick: () => { state.limit += 5 * ROWS; render(); } }, `Show ${Math.min(rest, 5 * ROWS)} more of ${rest}`) : '');
    nodes.count.textContent = filtering() ? `${matching.length} of ${rows.length}` : `${rows.length}`;
    for (const chip of nodes.verdicts.children) chip.setAttribute('aria-pressed', String(state.verdicts.has(page.verdicts.indexOf(chip.dataset.verdict))));
    const active = [
      state.code && [`finding ${state.code}`, () => { state.code = null; }],
      known(state.broker) && [`broker ${state.broker}`, () => { state.broker = null; }],
      state.topic && [`topic ${state.topic}`, () => { state.topic = null; }],
    ].filter(Boolean);
    const changed = page.compared && el('button', { type: 'button', class: 'chip', 'aria-pressed': String(state.changed), onclick: () => set({ changed: !state.changed }) }, 'changed since the last audit');
    nodes.filters.replaceChildren(...active.map(([text, drop]) => el('button', { type: 'button', class: 'chip', 'aria-pressed': 'true', title: 'Remove this filter', onclick: () => { drop(); set({}); } }, `${text} ×`)), changed || '');
    for (const cell of head) {
      const own = cell.dataset.sort === (state.sort || 'verdict');
      cell.setAttribute('aria-sort', own ? (state.down ? 'descending' : 'ascending') : 'none');
    }
    fit();
    keep();
  }

  // Rows that are told as one; where all is well nobody has to see one of them.
  const likeness = (row) => (row.verdict === last ? '' : JSON.stringify([row.verdict, row.severity, row.code, row.advice]));

  // What is shown, as [row or null, rows that are folded behind it…]; a row that is open is shown.
  function linesOf() {
    if (state.sort || filtering() || !state.folds) return matching.map((row) => [row]);
    const alike = new Map();
    for (const row of matching) {
      const key = likeness(row);
      if (!alike.has(key)) alike.set(key, []);
      alike.get(key).push(row);
    }
    return [...alike].flatMap(([key, equal]) => {
      const closed = equal.filter((row) => !state.open.has(row.index));
      const calm = key === '';
      if (closed.length <= FOLD || state.unfolded.has(key) || (calm && equal.length === matching.length)) return equal.map((row) => [row]);
      return [...equal.filter((row) => state.open.has(row.index)).map((row) => [row]), calm ? [null, ...closed] : closed];
    });
  }

  function foldLine(same) {
    const [first] = same;
    const sum = (name) => same.reduce((total, row) => total + (row[name] || 0), 0);
    const open = () => {
      state.unfolded.add(likeness(first));
      render();
    };
    const button = (words) => el('button', { type: 'button', onclick: open }, words);
    const lost = sum('lost') > 0 && ` ${count(sum('lost'), 'record')} lost${sum('lost_committed') ? `, ${sum('lost_committed')} of them ${same.some((row) => row.likely) ? 'likely ' : ''}committed` : ''}.`;
    return el('tr', { class: 'folded' }, el('td', { colspan: width }, first.verdict === last ? button(`${same.length} partitions ${page.verdicts[last]}: show them`)
      : [button(`${same.length} more partitions like it`), `: ${first.advice || page.words[first.verdict]}`, lost]));
  }

  // Names and codes stay on one line while there is room; codes give way first.
  function fit() {
    const holder = nodes.table.parentElement;
    nodes.table.classList.remove('tight', 'tighter');
    for (const cls of ['tight', 'tighter']) if (nodes.table.offsetWidth > holder.clientWidth) nodes.table.classList.add(cls);
  }
  let seen = innerWidth;
  addEventListener('resize', () => {
    if (innerWidth !== seen) fit();
    seen = innerWidth;
  });

  // Search, filters, order and the partition opened last, in the address.
  function keep() {
    writeAddress(state.named, {
      q: nodes.search.value.trim(), verdict: [...state.verdicts].map((verdict) => page.verdicts[verdict]).join(','), code: state.code, broker: state.broker, topic: state.topic,
      changed: state.changed ? 1 : null, sort: state.sort, down: state.down ? 1 : null,
    });
  }

  function restore(values) {
    nodes.search.value = values.q || '';
    const broker = /^\d+$/.test(values.broker || '') ? Number(values.broker) : null;
    set({
      words: wordsOf(nodes.search.value), verdicts: new Set((values.verdict || '').split(',').map((name) => page.verdicts.indexOf(name)).filter((verdict) => verdict >= 0)),
      code: values.code || null, broker, topic: values.topic ?? null, changed: values.changed === '1' && page.compared,
      sort: values.sort in KEYS ? values.sort : null, down: values.down === '1',
    });
  }

  function rowNodes(row) {
    if (!built.has(row.index)) built.set(row.index, makeRow(row));
    const nodes_ = built.get(row.index);
    return state.open.has(row.index) && nodes_.detail ? [nodes_.row, nodes_.detail] : [nodes_.row];
  }

  function makeRow(row) {
    const id = `p${row.index}`;
    const button = el('button', { type: 'button', class: 'open', 'aria-expanded': 'false', 'aria-controls': id }, el('code', null, row.name));
    const cells = [
      [el('span', { class: `dot v-${page.verdicts[row.verdict]}`, 'aria-hidden': 'true' }), el('span', { class: `verdict t-${page.verdicts[row.verdict]}`, title: page.words[row.verdict] }, page.verdicts[row.verdict])],
      known(row.leader) ? [row.leader, el('span', { class: 'soft' }, known(row.epoch) ? ` epoch ${row.epoch}` : '')] : el('span', { class: 'soft' }, 'none'),
      interval(row.hw_lower, row.hw_upper),
      row.lost ? atMost(row, row.lost) : el('span', { class: 'soft' }, shown(row.lost)),
      row.lost_committed ? el('b', { class: 'bad' }, atMost(row, row.lost_committed), row.likely ? ' likely' : '') : el('span', { class: 'soft' }, shown(row.lost_committed)),
      row.isr ? el('span', { class: row.under ? 'warned' : 'soft', title: `in sync: ${row.isr.join(', ') || 'none'}` }, `${row.isr.length} of ${row.assigned}`) : el('span', { class: 'soft' }, '?'),
      row.code ? [el('span', { class: `tag s-${page.severities[row.severity]}` }, page.severities[row.severity]), ' ', el('code', null, row.code)] : '',
    ];
    if (page.compared) cells.push(sinceCell(page, row));
    const labels = head.slice(1).map((cell) => cell.textContent);
    const numeric = head.slice(1).map((cell) => cell.classList.contains('n'));
    const node = el('tr', { class: 'partition', onclick: (event) => { if (!event.target.closest('a') && !String(getSelection())) toggle(row); } },
      el('th', { scope: 'row', class: row.name.length > 64 ? 'wrap' : row.name.length > 24 ? 'long' : null }, button), cells.map((cell, index) => el('td', { class: numeric[index] ? 'n' : index === 7 ? 'wrap' : index === 6 ? 'found' : null, 'data-label': labels[index] }, cell)));
    return { row: node, button, detail: null, id };
  }

  // `quietly`: without a word in the address, where nobody asked for it; `held`: its detail, if it is unpacked already.
  async function toggle(row, force, quietly, held) {
    const nodes_ = rowNodes(row) && built.get(row.index);
    const open = force === undefined ? !state.open.has(row.index) : force;
    nodes_.button.setAttribute('aria-expanded', String(open));
    nodes_.row.classList.toggle('opened', open);
    if (!open) {
      state.open.delete(row.index);
      if (nodes_.detail) nodes_.detail.remove();
      if (state.named === row.name) state.named = null;
      keep();
      return;
    }
    state.open.add(row.index);
    if (!nodes_.detail) {
      const cell = el('td', { colspan: width }, el('p', { class: 'soft' }, 'Unpacking …'));
      nodes_.detail = el('tr', { class: 'details', id: nodes_.id }, cell);
      nodes_.row.after(nodes_.detail);
      cell.replaceChildren(buildDetail(page, row, held || await details(row.index)));
    } else if (!nodes_.detail.isConnected) nodes_.row.after(nodes_.detail);
    if (quietly) return;
    state.named = row.name;
    keep();
  }

  // Shows a partition by name, whatever is filtered; false when there is none of that name.
  async function show(name) {
    const row = rows.find((one) => one.name === name);
    if (!row) return false;
    if (!matches(row)) clear();
    state.open.add(row.index);
    select();
    const place = linesOf().findIndex(([one]) => one === row);
    if (place >= state.limit) state.limit = place + ROWS;
    render();
    await toggle(row, true);
    const node = built.get(row.index);
    node.row.scrollIntoView({ block: 'start', behavior: reducedMotion() ? 'auto' : 'smooth' });
    node.button.focus({ preventScroll: true });
    return true;
  }

  function set(changes) {
    Object.assign(state, changes, { limit: ROWS });
    render();
  }

  function clear() {
    nodes.search.value = '';
    set({ words: [], verdicts: new Set(), code: null, broker: null, topic: null, changed: false });
  }

  for (const cell of head) {
    const key = cell.dataset.sort;
    cell.replaceChildren(el('button', { type: 'button', class: 'sort', onclick: () => {
      const same = state.sort === key || (!state.sort && key === 'verdict');
      set({ sort: key, down: same ? !state.down : false });
    } }, cell.textContent));
  }
  for (const chip of nodes.verdicts.children) {
    chip.addEventListener('click', () => {
      const verdict = page.verdicts.indexOf(chip.dataset.verdict);
      const chosen = new Set(state.verdicts);
      if (!chosen.delete(verdict)) chosen.add(verdict);
      set({ verdicts: chosen });
    });
  }
  // Every row that the filters leave, not only those that are there.
  const CSV = ['topic', 'partition', 'verdict', 'leader', 'epoch', 'hw_lower', 'hw_upper', 'lost', 'lost_committed', 'in_sync', 'assigned', 'severity', 'code'];
  const csvLine = (row) => CSV.map((name) => ({ verdict: () => page.verdicts[row.verdict], severity: () => page.severities[row.severity], in_sync: () => row.isr && row.isr.length }[name] || (() => row[name]))());
  nodes.count.after(csvButton('partitions', () => [CSV, ...matching.map(csvLine)]));
  const wordsOf = (text) => text.toLowerCase().split(/\s+(?!\d+\b)/).filter(Boolean);
  nodes.search.addEventListener('input', () => set({ words: wordsOf(nodes.search.value) }));
  // `shown`: rows that are to be there, however far down they are.
  function fold(folds, shown = new Set()) {
    state.folds = folds;
    state.limit = Math.max(state.limit, matching.findLastIndex((row) => shown.has(row)) + 1);
    render();
  }
  return { set, fold, show, restore, clear, toggle, state, visible: () => matching.filter((row) => built.has(row.index) && built.get(row.index).row.isConnected), button: (row) => built.get(row.index).button };
}

const atMost = (row, number) => (row.bound ? `${row.bound}${number}` : number);

function sinceCell(page, row) {
  const parts = [];
  if (known(row.before) && row.before !== row.verdict) parts.push(el('span', { class: row.before > row.verdict ? 'warned' : 'good' }, `was ${page.verdicts[row.before]}`));
  const tally = [row.new && `${row.new} new`, row.known && `${row.known} known`, row.resolved && `${row.resolved} resolved`].filter(Boolean).join(', ');
  if (tally) parts.push(parts.length ? `; ${tally}` : tally);
  return parts.length ? parts : el('span', { class: 'soft' }, 'the same');
}
