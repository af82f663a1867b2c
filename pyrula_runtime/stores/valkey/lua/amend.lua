-- Apply an operator's change to a run that is still at a revision.
-- uses: clock memory journal lines life pins places timers
-- KEYS[1] tag. ARGV: clock, id, revision, status ('' leave), all statuses that are terminal, |between|bars|, claimable (''
-- leave, 0, 1), cancel requested ('' leave, 0, 1), dossier ('' leave, else 0 or 1 for a suspect), its record, whether the
-- outcome is cleared, due ('' none), position, number of entries, entries; then perhaps effects (see effects).
-- Result: 1 done, 0 the run is not as expected, -1 it is held and would be made claimable under its holder.
-- Law: all or nothing, although memory is full; a new status for a held run consumes the fence, and ends the wait of one
-- that waits; anything else leaves token and wait alive.
although_full()
local wall = sign_of_life()
local _, id, rev, status, terminal, ready, cancel, dossier, record, clear, due, at = unpack(ARGV, 1, 12)
local run, count = T .. 'r:' .. id, tonumber(ARGV[13])
local r = call('HMGET', run, 'r', 'o', 's', 'w', 'n', 'q', 'x', 'b', 'i', 'h', 'c')
if r[1] ~= rev then return 0 end
if count > 0 and call('LLEN', T .. 'j:' .. id) ~= tonumber(at) then return 0 end
local held = r[2] and r[2] ~= ''
if held and ready == '1' and status == '' then return -1 end
local facts = {'r', r[1] + 1}
local function set(field, value) facts[#facts + 1] = field; facts[#facts + 1] = value end
local function has_ended(in_status) return string.find(terminal, '|' .. in_status .. '|', 1, true) end
if held then
  tell_holder(r[2])
  if status ~= '' then
    let_go(id, r[2])
    set('o', ''); set('k', '')
  end
end
if status ~= '' or ready == '1' then
  wait_no_more(id, r[5], r[3])
  if r[10] then call('HDEL', run, 'h') end
end
if clear == '1' then
  call('HDEL', T .. 'o:' .. id, 'r', 'e')
  set('e', '')
end
if count > 0 then set('b', tonumber(r[8] or 0) + append(id, 14, count)) end
if cancel ~= '' then
  local came = tonumber(r[11] or 0)
  set('c', came - came % 2 + cancel)
end
if dossier ~= '' then set('x', dossier); set('y', record) end
if ready ~= '' then set('q', ready) end
if status ~= '' then
  relist(id, r[3], status, r[4], r[9])
  set('s', status)
  if due ~= '' then wait_until(tonumber(due), id, r[5], status, wall) end
  if has_ended(status) then set('e', wall); ended(id, status, wall) end
  count_pinned(r[4], (has_ended(r[3]) and 1 or 0) - (has_ended(status) and 1 or 0))
end
call('HSET', run, unpack(facts))
local suspect = dossier
if dossier == '' then suspect = r[7] end
local before = r[6] == '1' and line_of(r[4], r[7] == '1')
local claimable = ready == '1' or (ready == '' and r[6] == '1')
local after = claimable and line_of(r[4], suspect == '1')
if before and before ~= after then leave_line(id, before) end
if after and (before ~= after or ready == '1') then stand_in_line(id, r[5], after) end
if ARGV[14 + count] then
  -- uses: going effects
  perform(14 + count, wall)
end
return 1
