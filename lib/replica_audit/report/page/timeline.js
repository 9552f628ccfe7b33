// The high watermark over time, where observations told it: recomputed as steps, observed as points.
function drawTimeline(rows, width) {
  const points = rows.filter((row) => known(row.time_ms) && (typeof row.hw_recomputed === 'number' || typeof row.hw_observed === 'number'));
  if (points.length < 2) return null;
  points.sort((one, other) => one.time_ms - other.time_ms || (one.sequence || 0) - (other.sequence || 0));
  const values = points.flatMap((row) => [row.hw_recomputed, row.hw_observed]).filter((value) => typeof value === 'number');
  const low = Math.min(...values);
  const high = Math.max(...values, low + 1);
  const first = points[0].time_ms;
  const last = Math.max(points[points.length - 1].time_ms, first + 1);
  const board = makeBoard(width);
  const [left, right, top, bottom] = [Math.max(widthOf(String(low), 'tick'), widthOf(String(high), 'tick')) + 14, width - 24, 14, 150];
  const x = (ms) => left + ((ms - first) / (last - first)) * (right - left);
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
  let path = '';
  for (const row of points.filter((one) => typeof one.hw_recomputed === 'number')) {
    path += path ? `H${x(row.time_ms)}V${y(row.hw_recomputed)}` : `M${x(row.time_ms)} ${y(row.hw_recomputed)}`;
  }
  const svg = draw('svg', { viewBox: `0 0 ${width} 178`, width, height: 178, role: 'img', 'aria-label': `High watermark over time, ${low} to ${high}`, class: 'picture' });
  for (const value of [low, high]) {
    svg.append(draw('line', { class: 'grid', x1: left, x2: right, y1: y(value), y2: y(value) }), draw('text', { class: 'tick', x: left - 8, y: y(value) + 4, 'text-anchor': 'end' }, value));
  }
  svg.append(draw('path', { class: 'steps', d: path }));
  for (const row of points) {
    if (typeof row.hw_observed === 'number') {
      svg.append(draw('circle', { class: row.deviation ? 'observed deviates' : 'observed', cx: x(row.time_ms), cy: y(row.hw_observed), r: row.deviation ? 5 : 3 },
        draw('title', null, `${time(row.time_ms)}: observed ${row.hw_observed}, recomputed ${shown(row.hw_recomputed)}${row.deviation ? `, ${row.deviation}` : ''}`)));
    }
    if (row.occasion) {
      svg.append(draw('line', { class: 'occasion', x1: x(row.time_ms), x2: x(row.time_ms), y1: top, y2: bottom }, draw('title', null, `${time(row.time_ms)}: ${row.occasion}, leader ${shown(row.leader_id)}, in sync ${(row.isr || []).join(', ')}`)));
    }
  }
  const ends = [[time(first), left, 'start'], [time(last), right, 'end'], [time(last).slice(11), right, 'end']];
  for (const [text, at, anchor] of ends) {
    const box = board.boxOf(text, 'tick', at, 170, anchor);
    if (board.free(box, 12)) svg.append(board.put(text, 'tick', box, 170));
  }
  return svg;
}
