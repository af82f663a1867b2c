-- Schedules: `sr` has `<rev>:<record>` of each, and only the revision of one that was dropped; `sn` when they fire next.
-- Law: written by whoever has read the present revision, and revision 0 means that there is none.
local function put(id, rev, record, next_ms)
  local kept = call('HGET', T .. 'sr', id) or '0'
  local known, there = string.match(kept, '^(%d+)(:?)')
  if (rev == '0') == (there == ':') or (rev ~= '0' and rev ~= known) then return 0 end
  call('HSET', T .. 'sr', id, string.format('%d:', known + 1) .. record)
  call('ZREM', T .. 'sn', id)
  if next_ms ~= '' then
    local soonest = call('ZRANGE', T .. 'sn', 0, 0, 'WITHSCORES')[2]
    if not soonest or tonumber(next_ms) < tonumber(soonest) then call('PUBLISH', T .. 'timer', '') end
    call('ZADD', T .. 'sn', next_ms, id)
  end
  return 1
end
