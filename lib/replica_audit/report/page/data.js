// Data of the page: base64 of zlib-compressed JSON in columns; see columns.py.
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).json();
}

// The values of a column, one for each row; `bases` has the base of each row where the column holds distances.
function readColumn(column, count, bases) {
  let values;
  if ('c' in column) values = new Array(count).fill(column.c);
  else if ('d' in column) values = column.i.map((number) => column.d[number]);
  else values = column.v;
  if (column.r) values = values.map((value, row) => (typeof value === 'number' ? value + bases[row] : value));
  return values;
}

// Columns as {name: values}.
function readColumns(columns, count, bases) {
  return Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, readColumn(column, count, bases)]));
}

// All details of the partitions of one piece: [{replicas: [row…], …, story: [sentence…]}…].
function readPiece(piece) {
  const count = piece.story.length;
  const bases = readColumn(piece.bases, count);
  const partitions = piece.story.map((story) => ({ story }));
  for (const [table, { rows, columns }] of Object.entries(piece.tables)) {
    const counts = readColumn(rows, count);
    const rowBases = counts.flatMap((number, index) => new Array(number).fill(bases[index]));
    const values = readColumns(columns, rowBases.length, rowBases);
    const names = Object.keys(values);
    let next = 0;
    counts.forEach((number, index) => {
      partitions[index][table] = Array.from({ length: number }, () => {
        const row = Object.fromEntries(names.map((name) => [name, values[name][next]]));
        next += 1;
        return row;
      });
    });
  }
  return partitions;
}

const TABLES = ['replicas', 'high_watermarks', 'high_watermark_timeline', 'partition_states', 'divergences', 'truncations',
  'elections', 'group_offsets', 'remote_segments', 'lost_producers', 'findings'];

// Details by partition number; a piece is unpacked when the first of its partitions is asked for.
function detailReader(pieces, size) {
  const opened = new Map();
  return async (index) => {
    const number = Math.floor(index / size);
    if (!opened.has(number)) opened.set(number, unpack(pieces[number].textContent).then(readPiece));
    const detail = (await opened.get(number))[index % size];
    return { ...Object.fromEntries(TABLES.map((table) => [table, []])), ...detail };
  };
}

// What is looked at, in the address, so that a link and a reload show the same: #orders-0&q=broker%202&verdict=LAGGING
function readAddress() {
  const decode = (text) => { try { return decodeURIComponent(text); } catch { return ''; } };
  const parts = location.hash.slice(1).split('&').filter(Boolean);
  const values = Object.fromEntries(parts.filter((part) => part.includes('=')).map((part) => {
    const place = part.indexOf('=');
    return [decode(part.slice(0, place)), decode(part.slice(place + 1))];
  }));
  return { name: decode(parts.find((part) => !part.includes('=')) || ''), values };
}

// Without a step in the browser's history: nobody wants to go back letter by letter.
function writeAddress(name, values) {
  const parts = Object.entries(values).filter(([, value]) => value !== null && value !== '').map(([key, value]) => `${key}=${encodeURIComponent(value)}`);
  const hash = [...(name ? [encodeURIComponent(name)] : []), ...parts].join('&');
  if (hash !== location.hash.slice(1)) history.replaceState(null, '', hash ? `#${hash}` : location.href.split('#')[0]);
}
