// From offsets to pixels. To scale where everything can be told apart; otherwise long stretches in which nothing
// changes are made short, and marked as such, so that seven records at the end of ten million can be seen.
const NEAR = 14;

// Offsets at which something begins, ends or is marked, each with how much its label matters (greater goes first).
function keyOffsets(detail) {
  const keys = new Map();
  const add = (value, weight) => {
    if (typeof value === 'number' && Number.isFinite(value)) keys.set(value, Math.max(weight, keys.get(value) || 0));
  };
  for (const row of detail.divergences) {
    add(row.start_offset, 6);
    add(row.end_offset, 5);
  }
  for (const row of detail.replicas) {
    add(row.log_start_offset, 3);
    add(row.log_end_offset, 5);
    if (row.high_watermark_checkpoint !== 0) add(row.high_watermark_checkpoint, 4);
    for (const [, start] of row.epochs || []) add(Math.max(start, row.log_start_offset || 0), 2);
  }
  for (const row of detail.high_watermarks) {
    add(row.hw_lower, 5);
    add(row.hw_upper, 5);
  }
  for (const row of detail.truncations) if (row.dropped_records || row.truncate_to !== row.common_prefix_end) add(row.truncate_to, 4);
  for (const row of damages(detail)) {
    add(row.start_offset, 4);
    add(row.end_offset, 4);
  }
  return keys;
}

// Findings that say where one replica's own files are bad; what differs from the leader is drawn as such.
function damages(detail) {
  const differs = (row) => detail.divergences.some((run) => run.broker_id === row.broker_id && row.start_offset >= run.start_offset && row.start_offset < run.end_offset);
  return detail.findings.filter((row) => /^(LOG|DIV-CORRUPT|EPO)/.test(row.code) && row.severity !== 'info' && row.status !== 'resolved'
    && known(row.broker_id) && typeof row.start_offset === 'number' && typeof row.end_offset === 'number' && !(row.code.startsWith('EPO') && differs(row)));
}

// {at(offset) → x, offset(x), low, high, breaks: [x…], ticks: [offset…], focused}; keys as of keyOffsets.
function makeScale(keys, left, right, focus) {
  let points = [...keys.keys()].sort((one, other) => one - other);
  // A log with thousands of epochs: keep what matters most, newest first.
  const room = Math.max(6, Math.floor((right - left) / (2 * NEAR)));
  if (points.length > room) {
    const first = points[0];
    points = points.map((point, place) => [point, keys.get(point), place]).sort((one, other) => other[1] - one[1] || other[2] - one[2]);
    points = [...new Set([first, ...points.slice(0, room - 1).map(([point]) => point)])].sort((one, other) => one - other);
  }
  const low = points.length ? points[0] : 0;
  const high = points.length ? Math.max(points[points.length - 1], low + 1) : 1;
  if (points.length < 2) points = [low, high];
  const width = right - left;
  const lengths = points.slice(1).map((point, index) => point - points[index]);
  const crowded = lengths.some((length) => (length / (high - low)) * width < NEAR);
  const focused = focus === undefined ? crowded : focus;
  let widths = lengths.map((length) => (length / (high - low)) * width);
  if (focused) {
    const least = Math.min(30, (width * 0.7) / lengths.length);
    const weights = lengths.map((length) => Math.log2(1 + length));
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    widths = weights.map((weight) => least + ((width - least * lengths.length) * weight) / total);
  }
  const places = [left];
  for (const step of widths) places.push(places[places.length - 1] + step);
  const between = (value, from, to) => {
    if (value <= from[0]) return to[0];
    let index = 0;
    while (index < from.length - 2 && value > from[index + 1]) index += 1;
    const part = (value - from[index]) / (from[index + 1] - from[index]);
    return to[index] + Math.min(1, part) * (to[index + 1] - to[index]);
  };
  const densities = widths.map((step, index) => step / lengths[index]);
  const densest = Math.max(...densities);
  const breaks = focused
    ? widths.flatMap((step, index) => (densities[index] * 6 < densest && step > 26 ? [places[index] + step / 2] : []))
    : [];
  return {
    low,
    high,
    points,
    focused,
    crowded,
    breaks,
    left,
    right,
    at: (offset) => between(Number(offset), points, places),
    offset: (x) => Math.round(between(x, places, points)),
    ticks: focused ? keyTicks(points, keys) : roundTicks(low, high, width),
  };
}

// Key offsets, those first that matter more: whoever labels them leaves out what has no room.
function keyTicks(points, keys) {
  return [...points].sort((one, other) => (keys.get(other) || 0) - (keys.get(one) || 0) || one - other);
}

function roundTicks(low, high, width) {
  const wanted = Math.max(2, Math.floor(width / 90));
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) || power;
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return ticks;
}
