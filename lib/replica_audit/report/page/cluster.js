// Across the cluster: by broker, by finding, by topic; each line filters the table. And what was read.
const SHORT = 5;

function buildPlaces(page, rows, view, pictures) {
  const section = document.getElementById('where');
  // Of many partitions the sums say more than the first hundred rows.
  if (page.count > 40) document.getElementById('gallery').before(section);
  const jump = (changes) => {
    view.clear();
    view.set(changes);
    document.getElementById('partitions').scrollIntoView({ behavior: reducedMotion() ? 'auto' : 'smooth' });
  };
  const link = (text, changes) => el('button', { type: 'button', class: 'plain', onclick: () => jump(changes) }, text);
  const blocks = [byBroker(page, rows, link), byFinding(page, rows, link), byTopic(page, rows, link)].filter(Boolean);
  section.append(el('h2', null, page.others.length ? `Across the cluster, of the worst ${page.count} partitions` : 'Across the cluster'), ...pictures.filter(Boolean), el('div', { class: 'cards', 'data-count': blocks.length }, blocks.map(([title, node]) => el('div', { class: 'card' }, el('h3', null, title), node))));
  section.hidden = false;
}

function byBroker(page, rows, link) {
  const brokers = new Map();
  const of = (id) => brokers.get(id) || brokers.set(id, { replicas: 0, leads: 0, outside: 0, found: 0 }).get(id);
  for (const row of rows) {
    for (const id of row.replicas) {
      const broker = of(id);
      broker.replicas += 1;
      if (row.isr && !row.isr.includes(id)) broker.outside += 1;
    }
    if (known(row.leader)) of(row.leader).leads += 1;
    for (const id of row.brokers) of(id).found += 1;
  }
  const held = new Map(page.holders.map(([id, ...numbers]) => [id, numbers]));
  const lines = [...brokers].sort(([one], [other]) => one - other).map(([id, broker]) => [
    [link(`broker ${id}`, { broker: id }), held.has(id) && heldLine(...held.get(id), page.count > 1)],
    [broker.replicas, el('span', { class: 'soft' }, `leads ${broker.leads}`)], broker.outside, broker.found]);
  return ['By broker', table([['broker', 'wrap'], ['replicas', 'n'], ['not in sync', 'n', 'replicas that are not in sync'], ['findings', 'n', 'partitions with a finding of this broker']], lines, 'small cardy')];
}

// What a broker holds of the lost records, and what of it nobody else does.
function heldLine(partitions, records, committed, onlyHere, committedOnlyHere, several) {
  const kind = committed ? 'committed record' : 'record';
  const [number, alone] = committed ? [committed, committedOnlyHere] : [records, onlyHere];
  const only = alone === number ? (number === 1 ? ', nobody else does' : ', nobody else has them') : alone ? `, ${alone} of them nowhere else` : '';
  return el('b', { class: `only ${committed ? 'bad' : 'warned'}` }, `holds ${count(number, `lost ${kind}`)}${several ? ` in ${count(partitions, 'partition')}` : ''}${only}`);
}

// The first rows, and the others behind a line that opens them.
function shortTable(head, lines, noun) {
  const first = table(head, lines.slice(0, SHORT), 'small cardy');
  if (lines.length <= SHORT + 1) return table(head, lines, 'small cardy');
  return el('div', null, first, el('details', null, el('summary', { class: 'soft' }, `${lines.length - SHORT} more ${noun}`), table(head, lines.slice(SHORT), 'small cardy')));
}

function byFinding(page, rows, link) {
  const codes = new Map();
  for (const row of rows) for (const code of row.codes) codes.set(code, (codes.get(code) || 0) + 1);
  if (!codes.size) return null;
  const order = [...codes].sort((one, other) => page.severity_of[one[0]] - page.severity_of[other[0]] || other[1] - one[1]);
  const lines = order.map(([code, partitions]) => {
    const severity = page.severities[page.severity_of[code]];
    return [[link(code, { code }), ' ', el('span', { class: `tag s-${severity}` }, severity), page.codes[code] && el('span', { class: 'soft' }, page.codes[code].summary)], partitions];
  });
  return ['By finding', shortTable([['finding, and how bad at worst', 'wrap'], ['partitions', 'n']], lines, 'findings')];
}

function byTopic(page, rows, link) {
  const topics = new Map();
  for (const row of rows) {
    if (!topics.has(row.topic)) topics.set(row.topic, Object.assign(new Array(page.verdicts.length).fill(0), { lost: 0, committed: 0, bound: '', likely: '' }));
    const counts = topics.get(row.topic);
    counts[row.verdict] += 1;
    counts.lost += row.lost || 0;
    counts.committed += row.lost_committed || 0;
    if (row.lost && row.bound) counts.bound = row.bound;
    if (row.likely) counts.likely = 'likely ';
  }
  if (topics.size < 2) return null;
  const worst = (counts) => counts.findIndex((number) => number > 0);
  const order = [...topics].sort((one, other) => worst(one[1]) - worst(other[1]) || other[1][worst(other[1])] - one[1][worst(one[1])] || (one[0] < other[0] ? -1 : 1));
  const lines = order.slice(0, 40).map(([topic, counts]) => [link(topic, { topic }), counts.reduce((sum, number) => sum + number, 0), lostCell(counts), [verdictBar(page, counts), el('span', { class: 'soft' }, `${page.words[worst(counts)]} in ${count(counts[worst(counts)], 'partition')}`)]]);
  const rest = order.length - lines.length;
  const node = shortTable([['topic', 'wrap'], ['partitions', 'n'], ['lost', 'n', 'records that the leaders do not have and other replicas do, each counted once'], ['verdicts', 'barred']], lines, 'topics');
  return ['By topic', rest > 0 ? el('div', null, node, el('p', { class: 'soft' }, `and ${rest} more, none of them worse: search finds them`)) : node];
}

const lostCell = ({ lost, committed, bound, likely }) => (committed ? [el('b', { class: 'bad' }, bound, committed), el('span', { class: 'soft' }, committed === lost ? `${likely}committed` : `${likely}committed of ${lost}`)] : [bound, lost]);

function verdictBar(page, counts) {
  const total = counts.reduce((sum, number) => sum + number, 0);
  const svg = draw('svg', { width: 120, height: 10, viewBox: '0 0 120 10', 'aria-hidden': 'true', class: 'mini' });
  let x = 0;
  counts.forEach((number, verdict) => {
    if (!number) return;
    const width = Math.max(2, (number / total) * 120);
    svg.append(draw('rect', { class: `v-${page.verdicts[verdict]}`, x, y: 0, width, height: 10 }));
    x += width;
  });
  return svg;
}

// Partitions that the page has no details of, by verdict; the lists are made when they are opened.
function buildOthers(page) {
  if (!page.others.length) return;
  const total = page.others.reduce((sum, { count: number }) => sum + number, 0);
  const lists = page.others.map(({ verdict, count: number, topics, unlisted }) => {
    const node = el('details', { class: 'fold' }, el('summary', null, `${count(number, 'partition')} ${verdict}`));
    node.addEventListener('toggle', () => node.append(table([['topic', 'wrap'], ['partitions', 'wrap']], topics), unlisted ? el('p', { class: 'soft' }, `and ${count(unlisted, 'more partition')}`) : ''), { once: true });
    return node;
  });
  document.getElementById('more').after(el('div', { id: 'others' }, el('p', null, `The worst ${page.count} of ${page.count + total} partitions are above, in detail. Of the others every row is in ${page.whole}:`), lists));
}

function buildRead(page) {
  const section = document.getElementById('read');
  const quarantine = readColumns(page.quarantine, Math.min(page.quarantine_count, 500));
  const parts = [];
  if (page.unplaced.length) parts.push(el('h3', null, 'Findings that belong to no partition'), factList(page, page.unplaced));
  if (page.unplaced_more) parts.push(el('p', { class: 'soft' }, `and ${page.unplaced_more} more in audit.json`));
  if (page.quarantine_count) {
    const alike = new Map();
    quarantine.path.forEach((_, row) => {
      const same = JSON.stringify([quarantine.broker_id[row], quarantine.code[row], quarantine.reason[row]]);
      alike.set(same, [...(alike.get(same) || []), row]);
    });
    const lines = [...alike.values()].map(([row, ...more]) => [shown(quarantine.broker_id[row]), [el('code', null, shown(quarantine.path[row])), more.length > 0 && el('details', null, el('summary', null, `and ${count(more.length, 'other')} for the same reason`),
      el('ul', { class: 'evidence' }, more.map((other) => el('li', null, el('code', null, shown(quarantine.path[other]))))))], shown(quarantine.position[row]), shown(quarantine.length[row]), quarantine.code[row], quarantine.reason[row]]);
    parts.push(el('details', { class: 'fold', open: page.quarantine_count <= 10 }, el('summary', null, `Input that could not be used (${page.quarantine_count})`),
      table([['broker', 'n'], ['path', 'wrap'], ['at byte', 'n'], ['bytes', 'n'], ['code', ''], ['reason', 'wrap']], lines),
      page.quarantine_count > quarantine.path.length && el('p', { class: 'soft' }, `and ${page.quarantine_count - quarantine.path.length} more in audit.json`)));
  }
  const files = Object.entries(page.files);
  if (files.length) parts.push(el('details', { class: 'fold' }, el('summary', null, 'Every file of the snapshot, counted by kind'), table([['kind', ''], ['files', 'n']], files.map(([kind, number]) => [kind.replaceAll('_', ' '), number]))));
  if (!parts.length) return;
  section.append(el('h2', null, 'What was read'), ...parts);
  section.hidden = false;
}
