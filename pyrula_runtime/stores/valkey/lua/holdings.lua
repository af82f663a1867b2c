-- What an incarnation holds, live or lapsed.
-- uses: clock
-- KEYS[1] tag. ARGV: clock, incarnation.
-- Result: {{id, fence, nonce, name of the line, suspect, dossier, place} of each, effects that are to be carried}.
local found = {}
for i, id in ipairs(call('ZRANGE', T .. 'h:' .. ARGV[2], 0, -1)) do
  local r = call('HMGET', T .. 'r:' .. id, 'f', 'k', 'w', 'x', 'y', 'n')
  found[i] = {id, tonumber(r[1]), r[2], r[3], r[4] == '1' and 1 or 0, r[5] or '', tonumber(r[6])}
end
return {found, call('ZCARD', T .. 'ob')}
