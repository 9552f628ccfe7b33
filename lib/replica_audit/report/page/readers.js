// Whom it reaches outside the log: consumer groups that are hit, and who wrote the lost records. Names and ids only.
const MOST_ROWS = 20;

// Rows of a table, and how many are left out.
const capped = (rows, line) => [...rows.slice(0, MOST_ROWS).map(line), ...(rows.length > MOST_ROWS ? [[`and ${rows.length - MOST_ROWS} more in audit.json`]] : [])];

const brokersNamed = (ids) => `broker${ids.length === 1 ? '' : 's'} ${list(ids)}`;

function groupBlock(detail) {
  if (!detail.group_offsets.length) return null;
  const compared = comparedTo(detail);
  const effects = { past_end: `past the ${compared}’s log end`, epoch_differs: 'past the divergence', read_lost: 'valid, above lost records', unaffected: 'unaffected' };
  const decided = detail.elections.some((row) => row.candidate_id !== row.broker_id);
  const rows = capped(detail.group_offsets, (row) => {
    const bad = row.effect === 'past_end' || row.effect === 'epoch_differs';
    return [el('code', null, row.group), [shown(row.committed_offset), known(row.leader_epoch) && el('span', { class: 'soft' }, ` · epoch ${row.leader_epoch}`)],
      bad ? el('b', { class: 'bad' }, effects[row.effect]) : effects[row.effect] || 'of an earlier topic', shown(row.parted_at),
      ...(decided ? [row.hit_by.length ? brokersNamed(row.hit_by) : 'none'] : [])];
  });
  return el('div', { class: 'groups' }, heading('Consumer groups that are hit'), table(
    [['group', 'wrap'], ['committed', 'n'], ['stands', 'wrap'], ['parted at', 'n', 'where what the group read and this log part'], ...(decided ? [['hit under', 'wrap', 'leaders whose log lacks what the group read']] : [])], rows, 'small stack', 'groups'));
}

function writerBlock(detail) {
  if (!detail.lost_producers.length) return null;
  const rows = capped(detail.lost_producers, (row) => [
    [known(row.transactional_id) ? [el('code', null, row.transactional_id), ' '] : '', known(row.producer_id) ? `producer ${row.producer_id}` : 'no producer id',
      known(row.transaction_state) && el('span', { class: 'soft' }, `, ${row.transaction_state}`)],
    brokersNamed(row.brokers), range(row.start_offset, row.end_offset), row.record_count,
    known(row.first_timestamp_ms) ? [el('span', { class: 'nb' }, time(row.first_timestamp_ms)), row.last_timestamp_ms === row.first_timestamp_ms ? '' : [' to ', el('span', { class: 'nb' }, time(row.last_timestamp_ms))]] : '–']);
  return el('div', { class: 'writers' }, heading('Who wrote the lost records'), table(
    [['producer', 'wrap'], ['held by', 'wrap'], ['offsets', 'n'], ['records', 'n'], ['timestamps', 'wrap']], rows, 'small stack', 'producers'));
}
