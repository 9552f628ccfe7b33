// Findings: each fact once, with its brokers; what proves it, what it is not, and what else tells it, behind a line that opens.
const LISTED = 200;
//: Sentences of one fact that are told at once; the others are with their proofs.
const SENTENCES = 2;

function findingBlock(page, detail) {
  const rows = detail.findings;
  if (!rows.length) return [];
  const facts = factsOf(rows);
  const number = facts.length === rows.length ? rows.length : `${facts.length}, told by ${rows.length} rows of audit.json`;
  return [heading('Findings ', el('span', { class: 'soft plainly' }, `(${number})`)), factList(page, rows)];
}

// Rows carry the number of their fact; facts come worst first, and in each fact the worst row.
function factsOf(rows) {
  const facts = [];
  for (const row of rows) (facts[row.fact] || (facts[row.fact] = [])).push(row);
  return facts.filter(Boolean);
}

function factList(page, rows) {
  const facts = factsOf(rows);
  return el('div', null, el('ul', { class: 'findings' }, facts.slice(0, LISTED).map((fact) => factItem(page, fact))),
    facts.length > LISTED && el('p', { class: 'soft' }, `and ${facts.length - LISTED} more in audit.json`));
}

function factItem(page, rows) {
  const [head] = rows;
  const same = rows.filter((row) => row.code === head.code);
  const other = rows.filter((row) => row.code !== head.code);
  const messages = [...new Set(same.map((row) => row.message))];
  const brokers = brokersOf(same);
  const place = [nameBrokers(brokers), rangesOf(same), head.confidence !== 'proven' && head.confidence, head.status !== 'new' && head.status].filter(Boolean).join(' · ');
  const left = messages.length - SENTENCES;
  return el('li', { class: head.status === 'resolved' ? 'gone' : null },
    el('p', null, el('span', { class: `tag s-${head.severity}` }, head.severity), ' ', el('code', null, head.code), ' ', el('span', { class: 'soft' }, place)),
    messages.slice(0, SENTENCES).map((message) => el('p', { class: 'told' }, unbroken(message))),
    left > 0 && el('p', { class: 'soft' }, `and ${left} more like ${SENTENCES === 1 ? 'it' : 'these'}, below`),
    el('details', null, el('summary', null, 'How it is proven, and what it is not'),
      same.map((row) => proofOf(row, messages.length > 1 ? row.message : null)), codeTold(page, head.code)),
    other.length > 0 && el('details', null, el('summary', null, 'Same records: ', codesOf(other, brokers)),
      [...new Set(other.map((row) => row.code))].map((code) => el('div', { class: 'also' }, other.filter((row) => row.code === code).map((row) => proofOf(row, row.message, row)), codeTold(page, code)))));
}

const brokersOf = (rows) => [...new Set(rows.map((row) => row.broker_id).filter(known))].sort((one, next) => one - next);

// Codes with the brokers that they are of, where these are not those that were named.
function codesOf(rows, named) {
  const codes = [...new Set(rows.map((row) => row.code))];
  return codes.map((code, index) => {
    const brokers = brokersOf(rows.filter((row) => row.code === code));
    return [index ? ', ' : '', el('code', null, code), brokers.length && String(brokers) !== String(named) ? ` (${nameBrokers(brokers)})` : ''];
  });
}

// The ranges of a fact, joined where they touch.
function rangesOf(rows) {
  const spans = rows.filter((row) => known(row.start_offset)).map((row) => [row.start_offset, row.end_offset]);
  if (spans.some(([, end]) => !known(end) || typeof end !== 'number')) return spans.length === 1 ? range(...spans[0]) : '';
  const joined = [];
  for (const [start, end] of spans.sort((one, next) => one[0] - next[0])) {
    const last = joined[joined.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  const more = joined.length - 3;
  return joined.slice(0, 3).map(([start, end]) => range(start, end)).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

function proofOf(row, message, tagged) {
  const considered = (row.evidence || []).filter((item) => item.kind === 'considered');
  const proofs = (row.evidence || []).filter((item) => item.kind !== 'considered');
  const line = (item) => el('li', null, [known(item.broker_id) && `broker ${item.broker_id}${known(item.path) ? ' ' : ''}`, known(item.path) && el('code', null, item.path), known(item.position) && ` at byte ${item.position}`].filter(Boolean),
    el('span', null, [known(item.path) || known(item.broker_id) ? ': ' : '', [item.kind, item.value, item.text].filter((part) => known(part) && part !== '').join('; ')]));
  return [known(message) && el('p', null, tagged && [el('span', { class: `tag s-${tagged.severity}` }, tagged.severity), ' '], message),
    proofs.length > 0 && el('ul', { class: 'evidence' }, proofs.map(line)),
    considered.length > 0 && [el('p', { class: 'soft' }, 'Considered and ruled out:'), el('ul', { class: 'evidence' }, considered.map((item) => el('li', null, item.text || item.value)))]];
}

function codeTold(page, name) {
  const code = page.codes[name];
  return code && [el('p', null, el('b', null, code.summary), '. ', code.meaning), el('p', null, el('b', null, 'Proof: '), code.proof), el('p', null, el('b', null, 'What to do: '), code.remedy), code.traps && el('p', null, el('b', null, 'Not this: '), code.traps)];
}
