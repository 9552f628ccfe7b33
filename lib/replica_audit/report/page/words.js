// Elements and words. Text gets into the page as text only; nothing here parses markup.
const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function draw(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

// A heading within a partition, which stands below the heading of the table.
const heading = (...children) => el('h4', { 'aria-level': 3 }, ...children);

const known = (value) => value !== null && value !== undefined;
const shown = (value) => (known(value) ? String(value) : '–');
const count = (number, noun) => `${shown(number)} ${noun}${number === 1 ? '' : 's'}`;
const offsets = (start, end) => (end - start === 1 ? `offset ${start}` : `offsets ${start} to ${typeof end === 'number' ? end - 1 : end}`);
const range = (start, end) => (known(start) && !known(end) ? `from ${start} on` : `[${shown(start)}, ${shown(end)})`);
const interval = (lower, upper) => (!known(lower) && !known(upper) ? '–' : !known(upper) ? `at least ${lower}` : lower === upper ? String(lower) : `${shown(lower)}–${shown(upper)}`);
const list = (values) => (values.length < 2 ? values.join('') : `${values.slice(0, -1).join(', ')} and ${values[values.length - 1]}`);

const nameBrokers = (ids) => (ids.length ? `broker${ids.length === 1 ? '' : 's'} ${list(ids)}` : '');

const PROTOCOLS = [
  ['fetch', 'fetch', '2.8 and later'],
  ['kip-279', 'KIP-279', '2.0.1 to 2.7'],
  ['kip-101', 'KIP-101', '0.11 to 2.0.0'],
  ['high-watermark', 'high watermark', 'before 0.11'],
];
const protocolName = (name) => (PROTOCOLS.find(([key]) => key === name) || [name, name])[1];

// A text of at most `most` letters, cut in the middle.
const inMiddle = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(1 - Math.floor(most / 2))}`);

// Milliseconds as ISO 8601; producers choose timestamps, so any integer may come.
function time(ms) {
  const moment = new Date(Number(ms));
  return Number.isNaN(moment.getTime()) ? `${ms} ms` : moment.toISOString();
}

function bytes(size) {
  if (!known(size)) return '–';
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = size;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return unit ? `${value.toFixed(1)} ${units[unit]}` : `${size} bytes`;
}

// A text in which no line ends within a partition's name or a time, unless it is very long.
function unbroken(text) {
  return String(text).split(/((?<!\S)(?=\S*-\d)[^\s,;]{3,40}(?![^\s,;]))/).map((part, index) => (index % 2 ? el('span', { class: 'nb' }, part) : part));
}

// A sentence of plain and stressed parts by turns.
function sentence(parts) {
  return parts.map((part, index) => (index % 2 && part ? el('b', null, unbroken(part)) : unbroken(part)));
}

const reducedMotion = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

// Tables as files for a spreadsheet, made on this page: nothing is fetched.
//: What spreadsheets take for the beginning of a formula.
const FORMULA = /^[=+\-@\t\r]/;

const csvCell = (value) => {
  if (!known(value)) return '';
  const text = typeof value === 'string' && FORMULA.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const csvText = (lines) => lines.map((cells) => `${cells.map(csvCell).join(',')}\n`).join('');

// A command with a button that copies it; the button's word is no text of the page, so that who selects the command has it alone.
function copyable(node) {
  const button = el('button', { type: 'button', class: 'copy', 'aria-label': 'Copy the command', title: 'Copy the command', onclick: async () => {
    await navigator.clipboard.writeText(node.textContent);
    button.dataset.done = 'yes';
    setTimeout(() => { delete button.dataset.done; }, 2000);
  } });
  node.append(button);
  return node;
}

// A button that hands out `name`.csv; `lines` gives the cells of its lines when it is pressed.
function csvButton(name, lines) {
  return el('button', { type: 'button', class: 'csv', title: `${name}.csv, for a spreadsheet`, 'aria-label': `Save the table ${name} as CSV`, onclick: () => {
    const link = el('a', { href: URL.createObjectURL(new Blob([csvText(lines())], { type: 'text/csv' })), download: `${name}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  } }, 'CSV');
}

// What a table on the page shows.
const shownCells = (node) => [...node.rows].map((line) => [...line.cells].map((cell) => {
  const text = cell.textContent.trim();
  return /^-?\d+$/.test(text) ? Number(text) : text;
}));
