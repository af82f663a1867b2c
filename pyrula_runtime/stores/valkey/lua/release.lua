-- Give a run back, and write what is held against it.
-- uses: clock memory lines life
-- KEYS[1] tag. ARGV: clock, id, fence, nonce, status, whether it is terminal, whether claimable, dossier ('' leave, else 0
-- or 1 for a suspect), its record, whether an error is given, error.
-- Result: 1, or 0 if the token was dead.
-- Law: the fence is consumed by it; a run that is claimable again stands where it stood.
although_full()
local wall = sign_of_life()
local _, id, fence, nonce, status, terminal, ready, dossier, record, has_error, err = unpack(ARGV)
local run = T .. 'r:' .. id
local r = call('HMGET', run, 'f', 'k', 'o', 's', 'w', 'v', 'n', 'r', 'x')
if r[1] ~= fence or r[2] ~= nonce or not r[3] or r[3] == '' then return 0 end
let_go(id, r[3])
relist(id, r[5], r[4], status)
local facts = {'s', status, 'r', r[8] + 1, 'o', '', 'k', '', 'q', ready}
if terminal == '1' then facts[#facts + 1] = 'e'; facts[#facts + 1] = wall end
if dossier ~= '' then
  facts[#facts + 1] = 'x'; facts[#facts + 1] = dossier; facts[#facts + 1] = 'y'; facts[#facts + 1] = record
end
call('HSET', run, unpack(facts))
if has_error == '1' then call('HSET', T .. 'o:' .. id, 'e', err) end
local suspect = dossier
if dossier == '' then suspect = r[9] end
if ready == '1' then stand_in_line(id, r[7], line_of(r[5], r[6], suspect == '1')) end
if terminal == '1' then ended(id, status, wall) end
return 1
