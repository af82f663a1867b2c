-- Give a run back, and write what is held against it.
-- uses: clock lines life
-- KEYS[1] tag. ARGV: clock, id, fence, nonce, status, whether it is terminal, whether claimable, dossier ('' leave, else 0
-- or 1 for a suspect), its record, whether an error is given, error; then perhaps effects (see effects).
-- Result: 1, or 0 if the token was dead.
-- Law: the fence is consumed by it, although memory is full; a run that is claimable again stands where it stood.
local wall = sign_of_life(true)
local _, id, fence, nonce, status, terminal, ready, dossier, record, has_error, err = unpack(ARGV, 1, 11)
local run = T .. 'r:' .. id
local r = call('HMGET', run, 'f', 'k', 'o', 's', 'w', 'n', 'r', 'x', 'i')
if r[1] ~= fence or r[2] ~= nonce or not r[3] or r[3] == '' then return 0 end
let_go(id, r[3])
relist(id, r[4], status, r[5], r[9])
local facts = {'s', status, 'r', r[7] + 1, 'o', '', 'k', '', 'q', ready}
if dossier ~= '' then
  facts[#facts + 1] = 'x'; facts[#facts + 1] = dossier; facts[#facts + 1] = 'y'; facts[#facts + 1] = record
end
if terminal == '1' then
  -- uses: pins
  facts[#facts + 1] = 'e'; facts[#facts + 1] = wall
  count_pinned(r[5], -1)
  ended(id, status, wall)
end
call('HSET', run, unpack(facts))
if has_error == '1' then call('HSET', T .. 'o:' .. id, 'e', err) end
if ready == '1' then stand_in_line(id, r[6], line_of(r[5], (dossier ~= '' and dossier or r[8]) == '1')) end
if ARGV[12] then
  -- uses: places timers going effects
  perform(12, wall)
end
return 1
