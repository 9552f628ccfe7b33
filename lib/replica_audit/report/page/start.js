// Unpacks the overview, makes the table, opens what the address or the answer points at.
async function start() {
  if (typeof DecompressionStream === 'undefined') {
    document.getElementById('unsupported').hidden = false;
    return;
  }
  const page = await unpack(document.getElementById('overview').textContent);
  const columns = readColumns(page.overview, page.count);
  const names = Object.keys(columns);
  const rows = Array.from({ length: page.count }, (_, index) => {
    const row = Object.fromEntries(names.map((name) => [name, columns[name][index]]));
    row.index = index;
    row.name = `${row.topic}-${row.partition}`;
    row.assigned = new Set([...row.replicas, ...(row.isr || []), ...row.unread]).size;
    row.text = [row.name, page.verdicts[row.verdict], ...row.codes, ...row.replicas.map((id) => `broker ${id}`), `leader ${row.leader}`, `epoch ${row.epoch}`].join('\n').toLowerCase();
    return row;
  });
  const collator = new Intl.Collator('en', { numeric: true });
  [...rows].sort((one, other) => collator.compare(one.topic, other.topic) || one.partition - other.partition).forEach((row, order) => { row.order = order; });
  page.codeNames = Object.keys(page.codes);
  document.body.append(patterns());
  const details = detailReader(document.getElementsByClassName('piece'), page.piece);
  page.rows = rows;
  const map = buildMap(page, rows);
  const paper = buildPaper(page, details);
  const view = buildTable(page, rows, details, [buildGallery(page, rows, details), map, paper]);
  document.querySelector('.tools').hidden = page.count < 2;
  const { name, values } = readAddress();
  view.restore(values);
  addEventListener('hashchange', () => {
    const now = readAddress();
    const named = rows.some((row) => row.name === now.name);
    // An address within the page, such as that of the link to the table, is none of a partition.
    if (now.name && !named) return;
    view.state.named = null;
    view.restore(now.values);
    if (named) view.show(now.name);
  });
  document.addEventListener('click', (event) => {
    const link = event.target.closest('a.place');
    if (!link) return;
    event.preventDefault();
    view.show(decodeURIComponent(link.getAttribute('href').slice(1)));
  });
  keyboard(view);
  for (const node of document.querySelectorAll('main .command:not(.remark)')) copyable(node);
  const toStep = () => {
    const step = /^#plan-step-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!step) return;
    step.closest('details').open = true;
    step.scrollIntoView();
  };
  addEventListener('hashchange', toStep);
  const serious = rows.filter((row) => row.verdict < page.verdicts.length - 1).length;
  if (!(name && await view.show(name)) && !Object.keys(values).length && rows.length && (serious === 1 || rows.length <= 5) && (serious || rows.length === 1)) {
    await view.toggle(rows[0], true, true);
  }
  paper.joinTable(view);
  buildPlaces(page, rows, view, [map.node, buildEvents(page)]);
  buildOthers(page);
  buildRead(page);
  buildMetadataCopies(page);
  toStep();
  document.documentElement.dataset.ready = 'yes';
}

//: Partitions that are opened for the paper unless all are asked for, the worst first.
const PRINTED = 40;

// What a print has besides the page as it is: the steps of the plan, and the details of the worst partitions that the filters leave, or,
// by a button, of all that are bad. They are unpacked before it, since a print does not wait for them, and closed again after it.
function buildPaper(page, details) {
  const lagging = page.verdicts.indexOf('LAGGING');
  const held = new Map();
  const note = el('p', { class: 'on-paper' });
  const button = el('button', { type: 'button', class: 'csv', onclick: async () => {
    button.disabled = true;
    button.textContent = 'Unpacking …';
    try {
      await unpack(bad);
      // A filter may have changed meanwhile.
      wanted = bad.filter((row) => held.has(row));
      print();
    } finally {
      button.disabled = false;
      label();
    }
  } });
  let bad = [];
  let wanted = [];
  let waiting;

  async function unpack(chosen) {
    for (const row of chosen) if (!held.has(row)) held.set(row, await details(row.index));
  }

  function label() {
    const text = `Print all ${bad.length}`;
    button.textContent = text;
    for (const key of ['aria-label', 'title']) button.setAttribute(key, `${text} partitions that are bad, with their details: about two pages each`);
    button.hidden = bad.length <= PRINTED;
  }

  function update(matching) {
    bad = matching.filter((row) => row.verdict < lagging).sort((one, other) => one.index - other.index);
    wanted = bad.slice(0, PRINTED);
    label();
    clearTimeout(waiting);
    waiting = setTimeout(async () => { await unpack(bad.slice(0, PRINTED)); document.documentElement.dataset.printable = 'yes'; }, 500);
  }

  function joinTable(view) {
    document.querySelector('#partitions .csv').after(button);
    document.getElementById('more').before(note);
    let undo = [];
    addEventListener('beforeprint', () => {
      const limit = view.state.limit;
      const steps = [...document.querySelectorAll('#plan-steps:not([open])')];
      const chosen = wanted;
      view.fold(false, new Set(chosen));
      const closed = chosen.filter((row) => held.has(row) && !view.state.open.has(row.index));
      for (const one of steps) one.open = true;
      for (const row of closed) view.toggle(row, true, true, held.get(row));
      for (const redraw of printed) redraw();
      note.textContent = bad.length > chosen.length ? `Of ${bad.length} partitions that are bad the worst ${chosen.length} are printed with their details, and of the others those that are open on the page. The button “Print all ${bad.length}” above this table on the page prints them all.` : '';
      undo = [...steps.map((one) => () => { one.open = false; }), ...closed.map((row) => () => view.toggle(row, false)), () => { view.state.limit = limit; view.fold(true); }];
    });
    addEventListener('afterprint', () => {
      for (const step of undo) step();
      undo = [];
      wanted = bad.slice(0, PRINTED);
    });
  }
  return { update, joinTable };
}

function keyboard(view) {
  const search = document.getElementById('search');
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest('input');
    if (event.key === 'Escape' && typing) {
      view.clear();
      search.blur();
      return;
    }
    if (typing) return;
    if (event.key === '/') {
      event.preventDefault();
      document.getElementById('partitions').scrollIntoView();
      search.focus();
      return;
    }
    const rows = view.visible();
    const holder = event.target.closest('tr.partition, tr.details');
    const line = holder && (holder.classList.contains('details') ? holder.previousElementSibling : holder);
    const place = rows.findIndex((row) => line && view.button(row).closest('tr') === line);
    if (event.key === 'Escape' && place >= 0 && view.state.open.has(rows[place].index)) {
      view.toggle(rows[place], false);
      view.button(rows[place]).focus();
      return;
    }
    const step = { j: 1, k: -1 }[event.key];
    const next = step && rows[place < 0 ? 0 : place + step];
    if (next) view.button(next).focus();
  });
}

start().catch((error) => {
  const note = document.getElementById('unsupported');
  note.textContent = `The page's data could not be read (${error.message}): the worst partitions are listed, everything else is in audit.json.`;
  note.hidden = false;
  throw error;
});
