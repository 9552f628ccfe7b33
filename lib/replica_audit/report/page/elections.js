// What each choice of leader costs; the rows of one candidate say the same of it, and what each other replica drops.
// Where a needed replica was not captured, what the captured ones lose is the least.
const STANDINGS = { leader: 'leads', isr: 'in sync', elr: 'eligible', last_known: 'led last', out_of_sync: 'unclean', unknown: 'not known', unassigned: 'not assigned' };

function electionBlock(partition, detail) {
  const own = detail.elections.filter((row) => row.candidate_id === row.broker_id);
  if (own.length < 2) return null;
  const groups = detail.group_offsets.length > 0;
  const open = partition.costs_open;
  const rows = own.map((row) => {
    const bound = open ? 'at least ' : row.lost_at_most ? 'at most ' : '';
    const number = (lost) => (open || lost ? `${bound}${lost}` : '0');
    const cuts = detail.elections.filter((one) => one.candidate_id === row.candidate_id && one.dropped_records);
    return [[row.candidate_id, row.candidate_id === partition.choice ? el('b', null, open ? ' best of these' : ' best') : ''], STANDINGS[row.standing], shown(row.kept_to), number(row.lost_records),
      row.lost_committed ? el('b', { class: 'bad' }, number(row.lost_committed)) : number(0), number(row.lost_possible), row.cut_transactions,
      ...(groups ? [detail.group_offsets.filter((one) => one.hit_by.includes(row.candidate_id)).length] : []),
      cuts.length ? cuts.map((one) => `broker ${one.broker_id} is cut to ${one.kept_to}`).join(', ') : 'nobody is cut'];
  });
  return el('div', null, heading('What each choice of leader costs'), table(
    [['leader', 'wrap'], ['by right', ''], ['log end', 'n'], ['lost', 'n', 'records that no log holds any more'], ['committed', 'n'], ['possibly', 'n', 'possibly committed'], ['transactions', 'n', 'of which a part is lost'], ...(groups ? [['groups', 'n', 'consumer groups that have read what is lost then']] : []), ['and then', 'wrap']], rows, 'small stack', 'choices'));
}
