// What happened when, across all partitions: a lane for each broker, elections, changes of the ISR, copies and what is lost on it.
//: In the order of EVENT_KINDS: class, shape, line of the lane, and words for one partition and for several.
const EVENTS = [
  ['unclean', 'cross', 0, 'elected without having been in sync'],
  ['elected', 'up', 0, 'elected'],
  ['left', 'down', 1, 'left the ISR'],
  ['joined', 'up', 2, 'joined the ISR'],
  ['lost', 'diamond', 3, 'got records that the leader lacks'],
  ['captured', 'square', 3, 'its log dir was being copied'],
];
//: Pixels within which events of a broker are one mark.
const NEAR_EVENTS = 11;

function buildEvents(page) {
  const columns = Object.fromEntries(['time', 'broker', 'kind', 'count', 'partitions'].map((name) => [name, readColumn(page.timeline[name], page.timeline.size)]));
  const events = columns.time.map((ms, place) => Object.fromEntries(Object.keys(columns).map((name) => [name, columns[name][place]])));
  const times = [...new Set(events.map((event) => event.time))];
  if (page.count < 2 || times.length < 2) return null;
  const brokers = [...new Set(events.map((event) => event.broker))].sort((one, other) => one - other);
  const whole = [times[0], times[times.length - 1]];
  // Records have the times that their producers gave them: where others tell, these do not stretch what is shown first.
  const told = events.filter((event) => EVENTS[event.kind][0] !== 'lost');
  let [from, to] = told.length > 1 && told[0].time < told[told.length - 1].time ? [told[0].time, told[told.length - 1].time] : whole;
  let drawing = null;
  let pressed = null;
  const holder = el('div', { class: 'canvas explored', tabindex: 0, role: 'application', 'aria-roledescription': 'timeline', 'aria-label': 'What happened when, by broker: arrow keys walk, plus and minus zoom, Escape shows all' });
  const readout = el('div', { class: 'readout', role: 'status' });
  const range = el('span', { class: 'soft' });
  const reader = { clear: () => {} };
  const redraw = drawnFor(holder, (width) => {
    const seen = events.filter((event) => event.time >= from && event.time <= to);
    drawing = drawEvents(seen, brokers, width, [from, to]);
    holder.replaceChildren(drawing.svg);
    range.textContent = `${moment(from)} to ${moment(to)} UTC`;
    for (const button of tools.querySelectorAll('[data-out]')) button.disabled = from === whole[0] && to === whole[1];
    reader.clear();
  });
  // Out of a stretch, or into it: as wide on the screen as it was, by this factor.
  const zoom = (factor, around) => {
    const { scale } = drawing;
    const middle = around === undefined ? (scale.left + scale.right) / 2 : around;
    const half = ((scale.right - scale.left) * factor) / 2;
    if (factor > 1) {
      const wider = (to - from || 1000) * (factor - 1);
      show(Math.max(whole[0], from - wider / 2), Math.min(whole[1], to + wider / 2));
    } else show(scale.offset(Math.max(scale.left, middle - half)), scale.offset(Math.min(scale.right, middle + half)));
  };
  const show = (start, end) => {
    [from, to] = end > start ? [start, end] : [start, start + 1];
    redraw();
  };
  const button = (text, run, out) => el('button', { type: 'button', 'data-out': out, onclick: run }, text);
  const tools = el('div', { class: 'picture-tools' }, el('div', { class: 'choice', role: 'group', 'aria-label': 'Zoom' },
    button('Zoom in', () => zoom(0.5)), button('Zoom out', () => zoom(2), true), button('Everything', () => show(...whole), true)), range);
  const place = (event) => {
    const box = holder.firstChild.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * drawing.svg.viewBox.baseVal.width;
  };
  Object.assign(reader, explore(holder, readout, {
    svg: () => drawing.svg,
    hint: 'Point at a mark, or focus the timeline and use the arrow keys: what happened is told here, with links. Drag over a stretch to zoom into it.',
    at: (x, y) => drawing.at(x, y),
    step: (mark, name) => {
      if (name === '+' || name === '=') zoom(0.5, mark && mark.x);
      else if (name === '-') zoom(2);
      else if (name === 'Escape') show(...whole);
      else return drawing.step(mark, name);
      return null;
    },
    show: (mark) => drawing && drawing.mark(mark),
    say: (mark) => sayEvents(page, mark),
    open: () => { const link = readout.querySelector('a'); if (link) link.click(); },
  }));
  holder.addEventListener('pointerdown', (event) => { pressed = event.pointerType === 'mouse' ? place(event) : null; });
  holder.addEventListener('pointermove', (event) => {
    if (pressed !== null && event.buttons) drawing.select(pressed, place(event));
  });
  holder.addEventListener('pointerup', (event) => {
    const ended = place(event);
    if (pressed !== null && Math.abs(ended - pressed) > 8) show(...[pressed, ended].sort((one, other) => one - other).map((x) => drawing.scale.offset(x)));
    pressed = null;
  });
  const kinds = EVENTS.filter((_, kind) => events.some((event) => event.kind === kind));
  const sign = ([cls, shape]) => draw('svg', { width: 14, height: 14, viewBox: '0 0 14 14', 'aria-hidden': 'true', class: 'sign-key' }, markAt(shape, 7, 7, 4, cls));
  return el('figure', { class: 'timeline' }, el('h3', null, 'What happened when'), tools, holder, readout,
    el('p', { class: 'legend' }, kinds.map((kind) => legendKey('', kind[3], sign(kind))), page.timeline.step > 1 && el('span', null, `times to ${page.timeline.step >= 1000 ? `${page.timeline.step / 1000} s` : `${page.timeline.step} ms`}`)));
}

const moment = (ms) => time(ms).replace('T', ' ').replace(/\.000Z$|Z$/, '');

//: So many quiet stretches are made short at most, and one in so many pixels.
const QUIET = [9, 110];

// Where bursts of events begin and end, between the longest stretches without any; each with how many partitions they are of.
function burstsOf(events, width, from, to) {
  const times = [...new Set([from, ...events.map((event) => event.time), to])].sort((one, other) => one - other);
  const gaps = times.slice(1).map((ms, place) => [ms - times[place], place]).sort((one, other) => other[0] - one[0]).slice(0, Math.min(QUIET[0], Math.floor(width / QUIET[1])));
  const edges = [...new Set([from, to, ...gaps.flatMap(([, place]) => [times[place], times[place + 1]])])].sort((one, other) => one - other);
  return new Map(edges.map((edge, place) => [edge, 1 + events.filter((event) => event.time >= edge && event.time < (edges[place + 1] ?? Infinity)).reduce((sum, event) => sum + event.count, 0)]));
}

// Returns {svg, scale, at(x, y), step(mark, key), mark(mark), select(from, to)}; marks are {x, lane, events}.
function drawEvents(events, brokers, width, [from, to]) {
  const times = events.map((event) => event.time);
  const weights = burstsOf(events, width, from, to);
  const used = new Set();
  // The day once for each minute, if there are several; milliseconds where another event is of the same second.
  const several = time(from).slice(0, 10) !== time(to).slice(0, 10);
  const second = (ms) => time(ms).slice(0, 19);
  const tick = (ms) => {
    const minute = time(ms).slice(5, 16).replace('T', ' ');
    if (several && !used.has(minute)) return used.add(minute) && minute;
    return time(ms).slice(11, times.some((one) => one !== ms && second(one) === second(ms)) ? 23 : 19);
  };
  const lines = [...new Set(events.map((event) => EVENTS[event.kind][2]))].sort();
  const height = Math.max(14, lines.length * 10);
  const marks = [];
  const marksOf = ({ broker, number }, scale) => {
    const near = new Map();
    for (const event of events.filter((one) => one.broker === broker)) {
      const x = scale.at(event.time);
      const slot = Math.floor(x / NEAR_EVENTS);
      if (!near.has(slot)) near.set(slot, { x, lane: number, events: [] });
      near.get(slot).events.push(event);
    }
    return [...near.values()].flatMap((mark) => {
      marks.push(mark);
      // The graver lie above the others.
      return EVENTS.map(([cls, shape, line], kind) => {
        const own = mark.events.filter((event) => event.kind === kind);
        const sum = own.reduce((total, event) => total + event.count, 0);
        return own.length && { x: mark.x, y: 5 + lines.indexOf(line) * 10, shape, cls, size: 3 + Math.min(2.6, Math.log10(sum + 1)) };
      }).filter(Boolean).reverse();
    });
  };
  const drawn = drawLanes(brokers.map((broker, number) => ({ name: `broker ${broker}`, broker, number })), weights, {
    width, height, marksOf, tick, share: (start, end) => Math.log2(1 + times.filter((ms) => ms >= start && ms < end).length), label: `What happened on ${count(brokers.length, 'broker')} from ${moment(from)} to ${moment(to)}` });
  const cursor = draw('rect', { class: 'cell-cursor', width: 18, height: height + 4, visibility: 'hidden' });
  const chosen = draw('rect', { class: 'chosen-stretch', y: 18, height: drawn.svg.viewBox.baseVal.height - 20, visibility: 'hidden' });
  drawn.svg.append(chosen, cursor);
  const laneAt = (y) => drawn.tops.findIndex((top) => y >= top - 3 && y < top + height + 3);
  const nearest = (own, x) => own.reduce((best, mark) => (!best || Math.abs(mark.x - x) < Math.abs(best.x - x) ? mark : best), null);
  const inLane = (lane) => marks.filter((mark) => mark.lane === lane).sort((one, other) => one.x - other.x);
  return {
    svg: drawn.svg,
    scale: drawn.scale,
    at(x, y) {
      const mark = nearest(inLane(laneAt(y)), x);
      return mark && Math.abs(mark.x - x) <= NEAR_EVENTS ? mark : null;
    },
    step(mark, name) {
      if (!/^Arrow|^Home$|^End$/.test(name)) return undefined;
      const now = mark && marks.includes(mark) ? mark : null;
      if (!now) return marks.length ? inLane(Math.min(...marks.map((one) => one.lane)))[0] : null;
      const own = inLane(now.lane);
      const side = { ArrowLeft: own[own.indexOf(now) - 1], ArrowRight: own[own.indexOf(now) + 1], Home: own[0], End: own[own.length - 1] };
      if (name in side) return side[name] || now;
      const lanes = brokers.map((_, lane) => lane).filter((lane) => (name === 'ArrowUp' ? lane < now.lane : lane > now.lane) && inLane(lane).length);
      return lanes.length ? nearest(inLane(name === 'ArrowUp' ? lanes[lanes.length - 1] : lanes[0]), now.x) : now;
    },
    mark(mark) {
      cursor.setAttribute('visibility', mark ? 'visible' : 'hidden');
      if (mark) fill(cursor, { x: mark.x - 9, y: drawn.tops[mark.lane] - 2 }, []);
    },
    select(one, other) {
      fill(chosen, { visibility: 'visible', x: Math.min(one, other), width: Math.abs(other - one) }, []);
    },
  };
}

function sayEvents(page, mark) {
  const lines = mark.events.slice(0, 4).map((event) => {
    const places = event.partitions.map((index) => page.rows[index].name);
    const more = event.count - places.length;
    return el('p', null, `${moment(event.time)} broker ${event.broker} `, el('b', null, EVENTS[event.kind][3]), event.count ? `, ${count(event.count, 'partition')}: ` : '',
      places.map((name, index) => [index ? ', ' : '', el('a', { class: 'place', href: `#${encodeURIComponent(name)}` }, el('code', null, name))]), more > 0 && places.length ? ` and ${more} more` : '');
  });
  return mark.events.length > 4 ? [...lines, el('p', null, `and ${mark.events.length - 4} more here: zoom in`)] : lines;
}
