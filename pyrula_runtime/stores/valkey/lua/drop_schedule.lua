-- Forget a schedule.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, id.
-- Result: 1, or 0 if there is none.
-- Law: its revision stays and grows, so who still means the old one does not strike a new one.
sign_of_life()
local rev = string.match(call('HGET', T .. 'sr', ARGV[2]) or '', '^(%d+):')
if not rev then return 0 end
call('ZREM', T .. 'sn', ARGV[2])
call('HSET', T .. 'sr', ARGV[2], string.format('%d', rev + 1))
return 1
