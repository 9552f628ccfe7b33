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
