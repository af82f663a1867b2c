-- Apply an operator's change to a run that is still at a revision.
-- uses: clock memory journal lines life
-- KEYS[1] tag. ARGV: clock, id, revision, status ('' leave), whether it is terminal, claimable ('' leave, 0, 1), cancel
-- requested ('' leave, 0, 1), dossier ('' leave, else 0 or 1 for a suspect), its record, whether the outcome is cleared,
-- position, number of entries, entries.
-- Result: 1 done, 0 the run is not as expected, -1 it is held and would be made claimable under its holder.
-- Law: all or nothing; a new status for a held run consumes the fence, anything else leaves its token alive.
although_full()
local wall = sign_of_life()
local _, id, rev, status, terminal, ready, cancel, dossier, record, clear, at = unpack(ARGV, 1, 11)
local run, count = T .. 'r:' .. id, tonumber(ARGV[12])
local r = call('HMGET', run, 'r', 'o', 's', 'w', 'v', 'n', 'q', 'x', 'b')
if r[1] ~= rev then return 0 end
if count > 0 and call('LLEN', T .. 'j:' .. id) ~= tonumber(at) then return 0 end
local held = r[2] and r[2] ~= ''
if held and ready == '1' and status == '' then return -1 end
local facts = {'r', r[1] + 1}
local function set(field, value) facts[#facts + 1] = field; facts[#facts + 1] = value end
if held then
  tell_holder(r[2])
  if status ~= '' then
    let_go(id, r[2])
    set('o', ''); set('k', '')
  end
end
if clear == '1' then
  call('DEL', T .. 'o:' .. id)
  set('e', '')
end
if count > 0 then set('b', tonumber(r[9] or 0) + append(id, 13, count)) end
if cancel ~= '' then set('c', cancel) end
if dossier ~= '' then set('x', dossier); set('y', record) end
if ready ~= '' then set('q', ready) end
if status ~= '' then
  relist(id, r[4], r[3], status)
  set('s', status)
  if terminal == '1' then set('e', wall) end
end
call('HSET', run, unpack(facts))
local suspect = dossier
if dossier == '' then suspect = r[8] end
local before = r[7] == '1' and line_of(r[4], r[5], r[8] == '1')
local claimable = ready == '1' or (ready == '' and r[7] == '1')
local after = claimable and line_of(r[4], r[5], suspect == '1')
if before and before ~= after then leave_line(id, before) end
if after and (before ~= after or ready == '1') then stand_in_line(id, r[6], after) end
if terminal == '1' then ended(id, status, wall) end
return 1
