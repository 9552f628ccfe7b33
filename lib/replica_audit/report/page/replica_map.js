// The map of a large cluster: brokers by partitions, each replica in the colour and the pattern of its state. Where there are more
// partitions than columns, a column stands for several of them, and a cell is filled as far as its replicas are in a state.
//: In the order of COPY_STATES: class, what the legend says, and the sign in a cell that is large enough.
const STATES = [
  ['needed', 'not captured, and needed', '?'],
  ['holds', 'holds records that the leader does not have', '+'],
  ['differs', 'differs from the leader', '≠'],
  ['damaged', 'files damaged', '✕'],
  ['missing', 'not captured', '○'],
  ['partial', 'captured in part', '◐'],
  ['out', 'not in sync', '–'],
  ['sound', 'sound', ''],
];
const SOUND = STATES.length - 1;
//: Fewer partitions are told by the table at once.
const LEAST_MAPPED = 13;
//: Width of a column at least and at most.
const COLUMN = [7, 24];

function buildMap(page, rows) {
  const none = { update: () => {}, node: null };
  const brokers = [...new Set(rows.flatMap((row) => row.copies))].sort((one, other) => one - other);
  if (rows.length < LEAST_MAPPED || brokers.length < 2) return none;
  const lane = new Map(brokers.map((broker, place) => [broker, place]));
  const holder = el('div', { class: 'canvas explored', tabindex: 0, role: 'application', 'aria-roledescription': 'map', 'aria-label': 'Replicas by broker and partition: arrow keys walk, Enter opens, Escape shows all' });
  const readout = el('p', { class: 'readout', role: 'status' });
  const foot = el('div');
  const tools = el('p', { class: 'picture-tools' });
  const state = { rows: [], from: 0, to: 0 };
  let map = null;
  const shown_ = () => state.rows.slice(state.from, state.to);
  const zoom = (from, to) => {
    Object.assign(state, { from, to });
    redraw();
  };
  const all = () => zoom(0, state.rows.length);
  const reader = { clear: () => {} };
  // Into the partitions of a column, with as many beside them as have columns of their own then.
  const into = ({ broker, column }) => {
    const first = state.from + column * map.size;
    const wanted = Math.max(map.size, map.fits);
    const from = Math.max(0, Math.min(state.rows.length - wanted, first - Math.floor((wanted - map.size) / 2)));
    zoom(from, Math.min(state.rows.length, from + wanted));
    reader.keep({ broker, column: Math.floor((first - from) / map.size) });
  };
  const redraw = drawnFor(holder, (width) => {
    if (!state.rows.length) return;
    map = drawMap(shown_(), brokers, lane, width);
    holder.replaceChildren(map.svg);
    const counts = new Array(STATES.length).fill(0);
    for (const row of shown_()) for (const digit of row.states) counts[digit] += 1;
    foot.replaceChildren(el('p', { class: map.size > 1 ? 'legend many' : 'legend' }, STATES.map(([cls, words, sign], place) => counts[place] > 0 && legendKey('', [`${words} `, el('b', null, counts[place])], mapSign(cls, sign))),
      map.size > 1 ? el('span', null, `a column is ${map.size} partitions: the fuller a cell, the more of its replicas`) : map.leads && legendKey('k-lead', 'leads')));
    const zoomed = shown_().length < state.rows.length;
    tools.replaceChildren(zoomed ? el('button', { type: 'button', class: 'plain', onclick: all }, `All ${state.rows.length} partitions`) : '');
    reader.clear();
  });
  Object.assign(reader, explore(holder, readout, {
    svg: () => map.svg,
    hint: 'Point at a cell, or focus the map and use the arrow keys: the replica is told here, with a link.',
    at: (x, y) => map.at(x, y),
    step: (cell, name) => {
      if (name === 'Escape') {
        if (shown_().length < state.rows.length) all();
        return null;
      }
      const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity] }[name] || [];
      if (down === undefined) return undefined;
      const limit = (value, most) => Math.max(0, Math.min(most, value));
      return cell ? { broker: limit(cell.broker + down, brokers.length - 1), column: limit(cell.column + right, map.columns - 1) } : { broker: 0, column: 0 };
    },
    show: (cell) => map && map.mark(cell),
    say: (cell) => sayCell(page, map, brokers[cell.broker], map.group(cell.column), () => into(cell)),
    open: () => (readout.querySelector('button') || readout.querySelector('a')).click(),
  }));
  const head = el('div', { class: 'title' }, el('h3', null, 'Replicas by broker and partition'), csvButton('replicas', () => [['topic', 'partition', 'broker', 'state'],
    ...state.rows.flatMap((row) => row.copies.map((broker, place) => [row.topic, row.partition, broker, STATES[row.states[place]][1]]))]));
  const node = el('figure', { class: 'map' }, head, tools, holder, readout, foot);
  return {
    node,
    update(matching) {
      state.rows = [...matching].sort((one, other) => one.order - other.order);
      node.hidden = !state.rows.length;
      all();
    },
  };
}

const mapSign = (cls, sign) => draw('svg', { width: 15, height: 15, viewBox: '0 0 15 15', 'aria-hidden': 'true', class: 'picture sign-key' }, draw('rect', { class: `map-cell ${cls}`, x: 1, y: 1, width: 13, height: 13 }), draw('text', { class: `sign ${cls}`, x: 7.5, y: 11.5, 'text-anchor': 'middle' }, sign));

// Words for a cell: the replica of one partition, or those of several, the worst with a link.
function sayCell(page, map, broker, group, zoom) {
  const link = (row) => el('a', { class: 'place', href: `#${encodeURIComponent(row.name)}` }, el('code', null, row.name));
  const here = group.flatMap((row) => { const place = row.copies.indexOf(broker); return place < 0 ? [] : [[Number(row.states[place]), row]]; }).sort((one, other) => one[0] - other[0] || one[1].index - other[1].index);
  const span = group.length === 1 ? [link(group[0])] : [el('b', null, group[0].name), ' to ', el('b', null, group[group.length - 1].name), `, ${count(group.length, 'partition')}`];
  const closer = group.length > 1 ? [' ', el('button', { type: 'button', class: 'plain', onclick: zoom }, 'zoom in')] : [];
  if (!here.length) return [...span, `: no replica on broker ${broker}`, ...closer];
  if (group.length === 1) {
    const [[state, row]] = here;
    return [...span, ` on broker ${broker}: ${STATES[state][1]}${row.leader === broker ? ', leads' : ''}; the partition: ${page.verdicts[row.verdict]}`];
  }
  const counts = STATES.map(([, words], place) => [here.filter(([state]) => state === place).length, words]).filter(([number]) => number);
  const worst = here.filter(([state]) => state < SOUND).slice(0, 3);
  return [...span, ` on broker ${broker}: ${counts.map(([number, words]) => `${number} ${words}`).join(', ')}`, ...worst.flatMap(([, row], place) => [place ? ', ' : '; worst ', link(row)]), ...closer];
}

// Returns {svg, columns, size of a column in partitions, fits: so many would have wide columns, group(column), at(x, y), mark(cell), leads}.
function drawMap(rows, brokers, lane, width) {
  const board = makeBoard(width);
  const step = brokers.length <= 16 ? 20 : brokers.length <= 40 ? 13 : 9;
  const height = step - (step > 12 ? 3 : 2);
  const names = brokers.map((broker) => (width < 620 ? String(broker) : `broker ${broker}`));
  const left = Math.max(...names.map((name) => widthOf(name, 'tick'))) + 12;
  const room = width - left - 4;
  const size = Math.ceil(rows.length / Math.floor(room / COLUMN[0]));
  const columns = Math.ceil(rows.length / size);
  const pitch = Math.min(COLUMN[1], room / columns);
  const body = pitch - (pitch > 9 ? 2 : 1);
  const top = 22;
  const bottom = top + brokers.length * step;
  const group = (column) => rows.slice(column * size, (column + 1) * size);
  const paths = STATES.map(() => []);
  const signs = draw('g', { class: 'signs', 'aria-hidden': 'true' });
  const leads = draw('g', { class: 'leads' });
  const grid = draw('g', null);
  for (let column = 0; column < columns; column += 1) {
    const x = left + column * pitch;
    const own = group(column);
    const cells = new Map();
    for (const row of own) row.copies.forEach((broker, place) => { if (!cells.has(broker)) cells.set(broker, new Array(STATES.length).fill(0)); cells.get(broker)[row.states[place]] += 1; });
    for (const [broker, counts] of cells) {
      const y = top + lane.get(broker) * step;
      const total = counts.reduce((sum, number) => sum + number, 0);
      let filled = y + height;
      counts.forEach((number, place) => {
        if (!number) return;
        const part = place === SOUND ? filled - y : Math.min(filled - y, Math.max(3, height * Math.sqrt(number / total)));
        if (part > 0) paths[place].push(`M${x.toFixed(1)} ${(filled - part).toFixed(1)}h${body.toFixed(1)}v${part.toFixed(1)}h-${body.toFixed(1)}z`);
        filled -= part;
      });
      if (size > 1 || step < 13 || pitch < 11) continue;
      const [cls, , sign] = STATES[counts.findIndex((number) => number)];
      if (sign) signs.append(draw('text', { class: `sign ${cls}`, x: x + body / 2, y: y + height / 2 + 4, 'text-anchor': 'middle' }, sign));
      if (own[0].leader === broker) leads.append(draw('circle', { class: 'lead', cx: x + body - 2.5, cy: y + 2.5, r: 2 }));
    }
    // A topic is named where it begins, as long as there is room.
    if (column && group(column - 1)[0].topic === own[0].topic) continue;
    const label = inMiddle(own[0].topic, 26);
    const box = board.boxOf(label, 'tick', x, top - 8, 'start');
    if (board.inside(box) && board.free(box, 10)) grid.append(board.put(label, 'tick', box, top - 8), draw('line', { class: 'grid', x1: x - 0.5, x2: x - 0.5, y1: top - 5, y2: bottom }));
  }
  const cursor = draw('rect', { class: 'cell-cursor', width: body + 3, height: height + 3, visibility: 'hidden' });
  const each = Math.ceil(12 / step);
  const svg = draw('svg', { viewBox: `0 0 ${width} ${bottom + 2}`, width, height: bottom + 2, class: size > 1 ? 'picture many' : 'picture', 'aria-hidden': 'true' }, grid,
    names.map((name, place) => place % each === 0 && draw('text', { class: 'tick', x: left - 7, y: top + place * step + height / 2 + 4, 'text-anchor': 'end' }, name)),
    paths.map((parts, place) => parts.length > 0 && draw('path', { class: `map-cell ${STATES[place][0]}`, d: parts.join('') })), signs, leads, cursor);
  return {
    svg, columns, size, fits: Math.floor(room / 13), group, leads: leads.childElementCount > 0,
    at(x, y) {
      const cell = { broker: Math.floor((y - top) / step), column: Math.floor((x - left) / pitch) };
      return cell.broker >= 0 && cell.broker < brokers.length && cell.column >= 0 && cell.column < columns ? cell : null;
    },
    mark(cell) {
      cursor.setAttribute('visibility', cell ? 'visible' : 'hidden');
      if (cell) fill(cursor, { x: left + cell.column * pitch - 1.5, y: top + cell.broker * step - 1.5 }, []);
    },
  };
}
