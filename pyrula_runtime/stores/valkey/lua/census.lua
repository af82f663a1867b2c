-- How many runs there are, of these statuses, as suspects that are claimable, and pinned while they have not ended.
-- uses: clock counting
-- KEYS[1] tag. ARGV: clock, statuses.
-- Result: {what counting gives, number of suspects, {name of a line, number of pinned runs, and so on}}.
return {count(), call('SCARD', T .. 'xs'), call('HGETALL', T .. 'pv')}
