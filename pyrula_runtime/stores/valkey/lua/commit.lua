-- Write journal entries and, if the turn ends, its ending; then perhaps claim.
-- uses: clock memory journal lines life take
-- KEYS[1] tag. ARGV: clock, id, fence, nonce, position, ttl, dossier ('' leave, else 0 or 1 for a suspect), its record,
-- status of the ending ('' none), whether it is terminal, outcome (two letters: result and error, + given, - not), result,
-- error, number of entries, entries; then perhaps a request (see take).
-- Result: {'done' | 'duplicate' | 'fenced' | 'gap', length, cancel requested, claims}.
-- Law: a position is written once, under a living token; a repeated call changes nothing. An ending does not want memory,
-- but takes no successor where it is full.
local claims_at = 15 + tonumber(ARGV[14])
local wants_more = #ARGV >= claims_at and not is_full()
if ARGV[9] ~= '' then although_full() end
local wall, mono = sign_of_life()
local _, id, fence, nonce, at, ttl, dossier, record, ending, terminal, outcome, result, err = unpack(ARGV, 1, 13)
local run, count = T .. 'r:' .. id, tonumber(ARGV[14])
at = tonumber(at)
local r = call('HMGET', run, 'f', 'k', 'o', 'l', 's', 'c', 'w', 'r', 'b')
if not r[1] then return {'fenced', 0, 0, {}} end
local length, cancel = call('LLEN', T .. 'j:' .. id), r[6] == '1' and 1 or 0
local held = r[3] and r[3] ~= ''
if r[1] ~= fence or r[2] ~= nonce then return {'fenced', length, cancel, {}} end

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
  if ending == '' or length ~= at + count or r[5] ~= ending then return false end
  local o = call('HMGET', T .. 'o:' .. id, 'r', 'e')
  return o[1] == (string.sub(outcome, 1, 1) == '+' and result) and o[2] == (string.sub(outcome, 2) == '+' and err)
end

if held and length < at then return {'gap', length, cancel, {}} end
if held and length > at then
  if ending ~= '' or not stands() then return {'fenced', length, cancel, {}} end
  call('ZADD', T .. 'a', mono + ttl, id)
  return {'duplicate', length, cancel, {}}
end
if not held then
  return {stands() and ended_so() and 'duplicate' or 'fenced', length, cancel, {}}
end

local facts = {}
if count > 0 then
  facts = {'b', tonumber(r[9] or 0) + append(id, 15, count)}
end
if dossier ~= '' then
  facts[#facts + 1] = 'x'; facts[#facts + 1] = dossier; facts[#facts + 1] = 'y'; facts[#facts + 1] = record
end
if ending == '' then
  call('ZADD', T .. 'a', mono + ttl, id)
else
  let_go(id, r[3])
  relist(id, r[7], r[5], ending)
  local more = {'s', ending, 'r', r[8] + 1, 'o', ''}
  if terminal == '1' then more[#more + 1] = 'e'; more[#more + 1] = wall end
  for _, fact in ipairs(more) do facts[#facts + 1] = fact end
  if outcome ~= '--' then
    local o = T .. 'o:' .. id
    call('DEL', o)
    if string.sub(outcome, 1, 1) == '+' then call('HSET', o, 'r', result) end
    if string.sub(outcome, 2) == '+' then call('HSET', o, 'e', err) end
  end
  if terminal == '1' then ended(id, ending, wall) end
end
if #facts > 0 then call('HSET', run, unpack(facts)) end
local claims = {}
if wants_more then claims = take(claims_at, wall, mono) end
return {'done', length + count, cancel, claims}
