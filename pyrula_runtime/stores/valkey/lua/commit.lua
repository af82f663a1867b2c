-- Write journal entries and, if the turn ends, its ending; then perhaps claim.
-- uses: clock memory journal lines life take
-- KEYS[1] tag. ARGV: clock, id, fence, nonce, position, ttl, dossier ('' leave, else 0 or 1 for a suspect), its record,
-- status of the ending ('' none), how it ends ('over', 'wait', 'again', '' otherwise), outcome (two letters: result and
-- error, + given, - not), result, error, number of entries, entries, length of a request, request (see take). Then for a
-- wait: due ('' none), number of the last message seen ('' hears of none), status when it has come, 1 if a cancel was
-- seen, which messages it waits for, in words; for again: input. Then perhaps: number of messages consumed, their
-- numbers, 1 if something is shown, what, number of facts, facts, effects (see effects).
-- Result: as of append, then perhaps claims.
-- Law: a position is written once, under a living token; a repeated call changes nothing. An ending does not want memory,
-- but takes no successor where it is full. What a run waits for is looked at once more in the write that suspends it.
local request = 16 + tonumber(ARGV[14])
local wants_more = ARGV[request - 1] ~= '0' and not is_full()
local wall, mono = sign_of_life(ARGV[9] ~= '')
local _, id, fence, nonce, at, ttl, dossier, record, ending, how, outcome, result, err = unpack(ARGV, 1, 13)
local run, count = T .. 'r:' .. id, tonumber(ARGV[14])
at = tonumber(at)
local r = call('HMGET', run, 'f', 'k', 'o', 'l', 's', 'c', 'w', 'r', 'b', 'i')
if not r[1] then return {'fenced', 0, 0} end
local length, came = call('LLEN', T .. 'j:' .. id), tonumber(r[6] or 0)
local rest = request + ARGV[request - 1]

local function stands()
  if at < tonumber(r[4]) then return false end
  if count == 0 then return true end
  local there = call('LRANGE', T .. 'j:' .. id, at, at + count - 1)
  for i = 1, count do
    if there[i] ~= ARGV[14 + i] then return false end
  end
  return true
end

local function ended_so()
  if ending == '' then return false end
  if how == 'again' then return r[5] == ending and call('GET', T .. 'i:' .. id) == ARGV[rest] end
  if not (r[5] == ending or how == 'wait' and r[5] == ARGV[rest + 2]) then return false end
  if length ~= at + count or not stands() then return false end
  local o = call('HMGET', T .. 'o:' .. id, 'r', 'e')
  return outcome == '--' or
    o[1] == (string.sub(outcome, 1, 1) == '+' and result) and o[2] == (string.sub(outcome, 2) == '+' and err)
end

if r[1] ~= fence or r[2] ~= nonce then return {'fenced', length, came} end
if not r[3] or r[3] == '' then return {ended_so() and 'duplicate' or 'fenced', length, came} end
if length < at then return {'gap', length, came} end
if length > at then
  if ending ~= '' or not stands() then return {'fenced', length, came} end
  call('ZADD', T .. 'a', mono + ttl, id)
  return {'duplicate', length, came}
end

if ending == '' then call('ZADD', T .. 'a', mono + ttl, id) else let_go(id, r[3]) end
local name, rare, size, goes_on, due = r[7], r[10], tonumber(r[9] or 0), false, ''
if how == 'again' then
  local more = rare and cjson.decode(rare) or {1, '', '', '', ''}
  more[1] = more[1] + 1
  rare = cjson.encode(more)
  call('DEL', T .. 'j:' .. id)
  call('SET', T .. 'i:' .. id, ARGV[rest])
  call('HDEL', run, 'u')
  call('HSET', run, 'l', 0, 'i', rare)
  goes_on, size, length, rest = true, 0, 0, rest + 1
elseif count > 0 then
  size, length = size + append(id, 15, count), length + count
end
if how == 'wait' then
  local seen, wake_status, cancel_seen, awaits
  due, seen, wake_status, cancel_seen, awaits = unpack(ARGV, rest, rest + 4)
  rest = rest + 5
  goes_on = due ~= '' and tonumber(due) <= wall or seen ~= '' and tonumber(seen) < math.floor(came / 2)
    or came % 2 == 1 and cancel_seen ~= '1'
  if goes_on then ending = wake_status elseif seen ~= '' then call('HSET', run, 'h', awaits) end
end
if dossier ~= '' then call('HSET', run, 'x', dossier, 'y', record) end
if ending == '' then
  call('HSET', run, 'b', size)
else
  local field, value = 'q', goes_on and '1' or ''
  if how == 'over' then field, value = 'e', wall end
  call('HSET', run, 'b', size, 's', ending, 'r', r[8] + 1, 'o', '', field, value)
  relist(id, r[5], ending, name, rare)
  if outcome ~= '--' then
    local o = T .. 'o:' .. id
    if string.sub(outcome, 1, 1) == '+' then call('HSET', o, 'r', result) else call('HDEL', o, 'r') end
    if string.sub(outcome, 2) == '+' then call('HSET', o, 'e', err) else call('HDEL', o, 'e') end
  end
end
if how == 'over' then
  -- uses: pins
  count_pinned(name, -1)
  ended(id, ending, wall)
elseif goes_on then
  local stood = call('HMGET', run, 'n', 'x')
  stand_in_line(id, stood[1], line_of(name, stood[2] == '1'))
elseif due ~= '' then
  -- uses: places timers
  wait_until(tonumber(due), id, call('HGET', run, 'n'), ending, wall)
end
if ARGV[rest] then
  -- uses: places timers going effects
  local from = rest + 1
  for _ = 1, tonumber(ARGV[rest]) do
    call('ZREMRANGEBYSCORE', T .. 'm:' .. id, ARGV[from], ARGV[from])
    from = from + 1
  end
  if ARGV[from] == '1' then call('HSET', T .. 'o:' .. id, 's', ARGV[from + 1]) end
  local told = tonumber(ARGV[from + 2])
  from = from + 3
  for i = from, from + told - 1 do call('RPUSH', T .. 'f:' .. id, wall .. ':' .. ARGV[i]) end
  perform(from + told, wall)
end
if wants_more then
  return {'done', length, came, take(request, wall, mono)}
end
return {'done', length, came}
